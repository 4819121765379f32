"""Baselines: models that use only the question and its options, as a reference for scores."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from blake3 import blake3

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Reply, Request


class BaselineSpec(ModelSpec):
    """Settings of a baseline, and the rule by which it chooses a letter."""

    needs_frames: ClassVar[bool] = False

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model_dump(exclude={"name", "limits"})

    @abstractmethod
    def letter_for(self, request: Request) -> Letter:
        """The letter that the baseline answers."""


class RandomSpec(BaselineSpec):
    """A baseline that answers with one of the offered letters.

    The letter is drawn by a hash of seed, question and repeat, so the same seed gives the same
    letters in every process, on every machine and in any order.
    """

    kind: Literal["random"] = "random"
    seed: int = 0

    def letter_for(self, request: Request) -> Letter:
        question = request.question
        key = f"{self.seed}/{question.benchmark}/{question.question_id}/{request.repeat}"
        digest = blake3(key.encode()).digest()
        return question.letters[int.from_bytes(digest, "big") % len(question.letters)]


class ConstantSpec(BaselineSpec):
    """A baseline that always answers with `letter`, even if a question does not offer it."""

    kind: Literal["constant"] = "constant"
    letter: Letter

    def letter_for(self, request: Request) -> Letter:  # noqa: ARG002 - the parameter of all rules
        return self.letter


class LongestOptionSpec(BaselineSpec):
    """A baseline that answers with the longest option, which is often right."""

    kind: Literal["longest_option"] = "longest_option"

    def letter_for(self, request: Request) -> Letter:
        question = request.question
        return max(question.letters, key=lambda letter: len(question.option_text(letter)))


class Baseline:
    """The baseline that `spec` describes, as a model."""

    needs_frames = False

    def __init__(self, spec: BaselineSpec) -> None:
        settings = dict(spec.identity)
        self.spec, self.name = spec, spec.name
        self.identity = {"model": settings.pop("kind").replace("_", "-"), **settings}

    async def respond(self, request: Request) -> Reply:
        return Reply(text=self.spec.letter_for(request))

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
