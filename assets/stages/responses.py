"""`responses`: every question of an evaluation, asked once."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

import dagster as dg

from videomme_pipeline.assets.stages.base import (
    BenchmarkStage,
    Built,
    Failed,
    Results,
    Target,
    Targets,
)
from videomme_pipeline.errors import CostLimitError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.models.identity import read_identity
from videomme_pipeline.project.answers.asking import (
    ask_model,
    open_journal,
    plan_of,
    requests_of,
    with_failed_ones,
)
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.project.state.versions import INCOMPLETE
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import VideoRequests
from videomme_pipeline.responses.response import AttemptRow, Response
from videomme_pipeline.responses.summary import ResponseSummary, summarize
from videomme_pipeline.storage.tables import read_rows, write_rows


class Responses(BenchmarkStage[VideoVariant]):
    """The stage that asks the model.

    A partition is built once all questions of its video have an answer. All answers are kept.
    """

    name = "responses"
    description = "Every question of every evaluation with the model's raw answer."
    upstream = ("prompts", "frames")
    kinds = frozenset({"sqlite", "parquet"})
    row_class = Response
    settings = ("model", "generation", "repeats")
    asks_models = True

    def target(self, partition: VideoVariant) -> Target[VideoVariant]:
        versions = self.benchmark.snapshot.versions
        evaluation = self.benchmark.evaluations[partition.variant]
        return self.target_of(
            partition,
            versions.responses(partition.video, evaluation),
            self.store.responses(self.benchmark.name, partition.variant, partition.video),
            prompts=versions.prompts(partition.video, evaluation),
            frames=versions.sent_frames(partition.video, evaluation),
        )

    def prepare(self, partitions: Sequence[VideoVariant]) -> Iterator[Failed[VideoVariant]]:
        self.project.observe_servers({partition.variant for partition in partitions})
        self.benchmark.invalidate()
        yield from ()

    def is_comparable(self, variant: str | None, other: str | None) -> bool:
        """Return True if both variants have the same model."""
        evaluations = self.benchmark.evaluations
        models = [e.model for name in (variant, other) if (e := evaluations.get(str(name)))]
        return len(models) == 2 and models[0] == models[1]

    def build(self, targets: Targets[VideoVariant]) -> Results[VideoVariant]:
        self.project.release_workers()  # no step after this one needs them
        by_evaluation: dict[str, list[Target[VideoVariant]]] = defaultdict(list)
        for target in targets:
            by_evaluation[target.partition.variant].append(target)
        for name, own_targets in by_evaluation.items():
            yield from self._ask(self.benchmark.evaluations[name], own_targets)

    def metadata(self, target: Target[VideoVariant]) -> dict[str, object]:
        return _metadata(read_rows(target.path, Response))

    def _ask(self, evaluation: Evaluation, targets: Targets[VideoVariant]) -> Results[VideoVariant]:
        """Ask about the videos of one evaluation, and store each video after its last answer."""
        requests: dict[str, list[VideoRequests]] = {}
        pending: dict[str, Target[VideoVariant]] = {}
        for target in targets:
            video_id = target.partition.video
            try:
                requests[video_id] = requests_of(Inputs(self.benchmark, video_id, evaluation))
            except VideoMMEError as error:
                yield Failed(partition=target.partition, reason=str(error))
                continue
            pending[video_id] = target
        if not requests:
            return
        responses: dict[str, list[Response]] = defaultdict(list)
        with open_journal(self.project, evaluation) as journal:
            try:
                asked, plan = list(chain(*requests.values())), plan_of(evaluation)
                for response in ask_model(self.project, evaluation.model, asked, journal, plan):
                    answers = responses[response.video_id]
                    answers.append(response)
                    questions = self.benchmark.snapshot.questions[response.video_id]
                    if len(answers) == len(questions) * evaluation.repeats:
                        target = pending.pop(response.video_id)
                        total = None if pending else summarize(chain(*responses.values()))
                        yield self._store(target, answers, journal, total)
            except CostLimitError as error:
                # This is not a failure: the partitions stay missing, and their answers are kept.
                for video_id, target in pending.items():
                    answered = {(row.question_id, row.repeat): row for row in responses[video_id]}
                    rows = with_failed_ones(
                        evaluation,
                        self.benchmark.snapshot.questions[video_id],
                        answered,
                        f"not asked: {error}",
                    )
                    self._write(target, [row for _, row in rows], journal)
            except VideoMMEError as error:
                # The journal contains every answer so far, and the next run resumes from it.
                for target in pending.values():
                    yield Failed(partition=target.partition, reason=str(error))
        table = summary_markdown(summarize(chain(*responses.values())))
        title = f"{evaluation.name}: the requests of these answers, in this and earlier runs"
        dg.get_dagster_logger().info(f"{title}\n\n{table}")

    def _store(
        self,
        target: Target[VideoVariant],
        responses: list[Response],
        journal: Journal,
        total: ResponseSummary | None,
    ) -> Built[VideoVariant] | Failed[VideoVariant]:
        """Store the responses of one video. `total` summarizes all requests of the run."""
        self._write(target, responses, journal)
        errors = [response.error for response in responses if response.error]
        if errors:
            return Failed(
                partition=target.partition,
                reason=f"{len(errors)} of {len(responses)} questions have no answer: {errors[0]}",
            )
        metadata = _metadata(responses)
        if total is not None:
            metadata["evaluation"] = dg.MetadataValue.md(summary_markdown(total))
        return Built(target=target, metadata=metadata)

    def _write(
        self,
        target: Target[VideoVariant],
        responses: list[Response],
        journal: Journal,
    ) -> None:
        """Store all attempts about one video, and then its responses.

        A partition with responses is fresh, so after a kill its attempts would stay missing.
        """
        video_id, name = target.partition.video, target.partition.variant
        responses.sort(key=lambda response: (response.question_id, response.repeat))
        is_complete = not any(response.error for response in responses)
        by_request = {response.request_fingerprint: response for response in responses}
        write_rows(
            self.store.attempts(self.benchmark.name, name, video_id),
            [
                attempt.row(by_request[attempt.request_fingerprint])
                for attempt in journal.attempts(by_request)
            ],
            AttemptRow,
            fingerprint=target.fingerprint,
        )
        write_rows(
            target.path,
            responses,
            Response,
            fingerprint=target.fingerprint + ("" if is_complete else INCOMPLETE),
            settings=self.settings_of(name),
        )


def _metadata(responses: Sequence[Response]) -> dict[str, object]:
    """Tokens, cost and latency of the responses of one video, without unreported values."""
    servers = sorted({str(read_identity(row.server)) for row in responses if row.server})
    return {
        "answers": "  ".join(str(response.raw_output)[:40] for response in responses),
        **({"server": "; ".join(servers)} if servers else {}),
        **summarize(responses).numbers,
    }


def summary_markdown(summary: ResponseSummary) -> str:
    """Markdown table of tokens, cost and latency of responses, with a histogram of latencies."""
    lines = ["| | |", "|---|---|"]
    for name, number in summary.numbers.items():
        shown = f"{number:.4g}" if isinstance(number, float) else f"{number:,}"
        lines.append(f"| {name.replace('_', ' ')} | {shown} |")
    lines += [f"| failed: {kind} | {count} |" for kind, count in summary.failures.items()]
    if summary.latency_bins:
        largest = max(summary.latency_bins.values())
        lines += ["", "| latency below | responses | |", "|---:|---:|---|"]
        lines += [
            f"| {seconds:.3g} s | {answers} | {'█' * round(20 * answers / largest)} |"
            for seconds, answers in summary.latency_bins.items()
        ]
    return "\n".join(lines)
