"""Baselines: models that never look, so that a score has something to stand beside.

Each answers from the question's form alone. A model asked without frames (`blind`) is a way of
evaluating, not a model, and is not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from blake3 import blake3

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.models.video_llm import Reply, Request


@dataclass(frozen=True, slots=True)
class RandomBaseline:
    """A letter drawn evenly from those offered, from a hash of seed, question and sample.

    The same seed gives the same letters in every process, on every machine and in any order.
    """

    seed: int = 0

    @property
    def name(self) -> str:
        return "random"

    @property
    def identity(self) -> Mapping[str, object]:
        return {"model": "random", "seed": self.seed}

    @property
    def needs_frames(self) -> bool:
        return False

    async def respond(self, request: Request) -> Reply:
        letters = request.question.letters
        key = f"{self.seed}/{request.question.benchmark}/{request.question.question_id}"
        digest = blake3(f"{key}/{request.sample}".encode()).digest()
        return Reply(text=letters[int.from_bytes(digest, "big") % len(letters)])

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class ConstantBaseline:
    """Always the same letter, also where a question does not offer it (that answer is wrong)."""

    letter: Letter

    @property
    def name(self) -> str:
        return f"constant-{self.letter}"

    @property
    def identity(self) -> Mapping[str, object]:
        return {"model": "constant", "letter": self.letter.value}

    @property
    def needs_frames(self) -> bool:
        return False

    async def respond(self, request: Request) -> Reply:  # noqa: ARG002  the protocol's parameter
        return Reply(text=self.letter)

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class LongestOptionBaseline:
    """The option with the most characters, the first of equals: the commonest giveaway."""

    @property
    def name(self) -> str:
        return "longest-option"

    @property
    def identity(self) -> Mapping[str, object]:
        return {"model": "longest-option"}

    @property
    def needs_frames(self) -> bool:
        return False

    async def respond(self, request: Request) -> Reply:
        question = request.question
        return Reply(text=max(question.letters, key=lambda it: len(question.option_text(it))))

    async def close(self) -> None:
        """Nothing is held."""
