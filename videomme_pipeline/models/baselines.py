"""Baselines: models that ignore the video, as a reference for scores.

A baseline uses only the question and the options. `blind` is not a baseline: it is an option of an
evaluation, with which any model is asked without frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from blake3 import blake3

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Reply, Request


class RandomSpec(ModelSpec):
    """Settings of `RandomBaseline`."""

    kind: Literal["random"] = "random"
    seed: int = 0

    @property
    def identity(self) -> Mapping[str, object]:
        return {"kind": self.kind, "seed": self.seed}

    @property
    def needs_frames(self) -> bool:
        return False


class ConstantSpec(ModelSpec):
    """Settings of `ConstantBaseline`."""

    kind: Literal["constant"] = "constant"
    letter: Letter

    @property
    def identity(self) -> Mapping[str, object]:
        return {"kind": self.kind, "letter": self.letter}

    @property
    def needs_frames(self) -> bool:
        return False


class LongestOptionSpec(ModelSpec):
    """Settings of `LongestOptionBaseline`."""

    kind: Literal["longest_option"] = "longest_option"

    @property
    def identity(self) -> Mapping[str, object]:
        return {"kind": self.kind}

    @property
    def needs_frames(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class RandomBaseline:
    """Answers with one of the offered letters, drawn by a hash of seed, question and repeat.

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
        digest = blake3(f"{key}/{request.repeat}".encode()).digest()
        return Reply(text=letters[int.from_bytes(digest, "big") % len(letters)])

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


@dataclass(frozen=True, slots=True)
class ConstantBaseline:
    """Answers with the same letter, even if a question does not offer that letter."""

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

    async def respond(self, request: Request) -> Reply:  # noqa: ARG002 - the protocol's parameter
        return Reply(text=self.letter)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


@dataclass(frozen=True, slots=True)
class LongestOptionBaseline:
    """Answers with the longest option, which is often right, or the first of equally long ones."""

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
        longest = max(question.letters, key=lambda letter: len(question.option_text(letter)))
        return Reply(text=longest)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
