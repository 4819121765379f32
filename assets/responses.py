"""`responses`: every question of an evaluation, asked once."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from assets.failures import FailureLog
from assets.frames import load_frames
from assets.partitions import Cell
from assets.resources import Benchmark, Progress
from assets.stage import INCOMPLETE, BenchmarkStage, Failed, Made, Target
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.collect import Plan, VideoRequests, collect_now
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.response import RESPONSE_VERSION, Response
from videomme_pipeline.store import read_rows, stored_fingerprint, write_rows


class Responses(BenchmarkStage):
    """A video is done when all its questions are answered; what was answered is never lost."""

    name = "responses"
    description = "Every question of every evaluation with the model's raw answer."
    upstream = ("prompts", "frames")
    kinds = frozenset({"openai", "sqlite", "parquet"})
    row_class = Response
    settings = ("model", "decoding", "samples")
    code_version = f"1.{RESPONSE_VERSION}"

    def target(self, cell: Cell) -> Target:
        assert cell.video is not None
        assert cell.variant is not None
        versions, evaluation = self.benchmark.versions, self.benchmark.evaluations[cell.variant]
        version = versions.responses(cell.video, evaluation)
        return Target(
            cell=cell,
            fingerprint=version,
            data_version=version,
            path=self.store.responses(self.benchmark.name, cell.variant, cell.video),
            inputs=self.inputs(
                prompts=versions.prompts(cell.video, evaluation),
                frames=versions.frames(cell.video, evaluation.sampling),
            ),
        )

    def takes_as_much(self, variant: str | None, other: str | None) -> bool:
        """Only the same model takes as long."""
        evaluations = self.benchmark.evaluations
        models = [e.model for name in (variant, other) if (e := evaluations.get(str(name)))]
        return len(models) == 2 and models[0] == models[1]

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        by_evaluation: dict[str, list[Target]] = defaultdict(list)
        for target in targets:
            assert target.cell.variant is not None
            by_evaluation[target.cell.variant].append(target)
        for name, wanted in by_evaluation.items():
            yield from self._ask(self.benchmark.evaluations[name], wanted)

    def _ask(self, evaluation: Evaluation, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        """Ask one evaluation's videos; each is stored when its last question has come back."""
        requests: dict[str, VideoRequests] = {}
        waiting: dict[str, Target] = {}
        for target in targets:
            assert target.cell.video is not None
            try:
                requests[target.cell.video] = requests_of(
                    self.benchmark, evaluation, target.cell.video
                )
            except VideoMMEError as error:
                yield Failed(cell=target.cell, reason=str(error))
                continue
            waiting[target.cell.video] = target
        held: dict[str, list[Response]] = defaultdict(list)
        try:
            for response in ask(self.benchmark, evaluation, list(requests.values())):
                answers = held[response.video_id]
                answers.append(response)
                asked = requests[response.video_id].questions
                if len(answers) == len(asked) * evaluation.samples:
                    yield self._store(waiting.pop(response.video_id), answers)
        except VideoMMEError as error:
            # What was answered is in the journal; the next run goes on from there.
            yield from (Failed(cell=t.cell, reason=str(error)) for t in waiting.values())

    def _store(self, target: Target, responses: list[Response]) -> Made | Failed:
        responses.sort(key=lambda response: (response.question_id, response.sample))
        errors = [response.error for response in responses if response.error]
        write_rows(
            target.path,
            responses,
            Response,
            fingerprint=target.fingerprint + (INCOMPLETE if errors else ""),
            recipe=self.recipe(target.cell),
        )
        if errors:
            return Failed(
                cell=target.cell,
                reason=f"{len(errors)} of {len(responses)} questions have no answer: {errors[0]}",
            )
        return Made(target=target, metadata=_metadata(responses))


def ask(
    benchmark: Benchmark,
    evaluation: Evaluation,
    requests: Sequence[VideoRequests],
    observation: str | None = None,
) -> Iterator[Response]:
    """Every response to `requests`, as it comes; an `observation` (a date) asks anew.

    Raises:
        VideoMMEError: after the last response, when no further question can be answered.
    """
    if not requests:
        return
    spec = evaluation.model
    plan = Plan(
        evaluation=evaluation.name,
        decoding=evaluation.decoding,
        samples=evaluation.samples,
        schedule=spec.asks_in_order,
        observation=observation,
        limits=spec.limits,
    )
    what = f"{evaluation.name}: responses"
    total = sum(len(request.questions) for request in requests) * evaluation.samples
    model = build_model(spec)
    journal_path = benchmark.store.journal
    with Journal(journal_path, flushes_every_commit=spec.costs_money) as journal:
        for done, response in enumerate(collect_now(requests, model, journal, plan), start=1):
            benchmark.project.on_progress(Progress(what=what, done=done, total=total))
            yield response


def requests_of(benchmark: Benchmark, evaluation: Evaluation, video_id: str) -> VideoRequests:
    """Everything that a video is asked.

    Raises:
        NotReadyError: when its prompts or its video are not there; the message says why.
    """
    prompts = {prompt.question_id: prompt for prompt in _prompts(benchmark, evaluation, video_id)}
    asked = [
        (question, prompts[question.question_id]) for question in benchmark.questions[video_id]
    ]
    version = benchmark.versions.frames(video_id, evaluation.sampling)
    return VideoRequests(
        video_id=video_id,
        questions=asked,
        frame_digests=[f"{version}/{place}" for place in range(asked[0][1].num_frames)],
        load_frames=lambda: load_frames(benchmark, video_id, evaluation),
    )


def _prompts(benchmark: Benchmark, evaluation: Evaluation, video_id: str) -> list[Prompt]:
    path = benchmark.store.prompts(benchmark.name, evaluation.name, video_id)
    if stored_fingerprint(path) != benchmark.versions.prompts(video_id, evaluation):
        failures = FailureLog.of(benchmark.store, f"{benchmark.name}/prompts")
        raise failures.not_ready(Cell(video=video_id, variant=evaluation.name))
    return read_rows(path, Prompt)


def _metadata(responses: Sequence[Response]) -> dict[str, object]:
    metadata: dict[str, object] = {
        "responses": len(responses),
        "attempts": sum(response.attempts for response in responses),
        "answers": "  ".join(str(response.raw_output)[:40] for response in responses),
    }
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_dollars"):
        known = [value for r in responses if (value := getattr(r, name)) is not None]
        if known:
            metadata[name] = sum(known)
    latencies = [r.latency_seconds for r in responses if r.latency_seconds is not None]
    if latencies:
        metadata["latency_seconds"] = round(max(latencies), 3)
    return metadata
