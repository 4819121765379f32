"""`questions`: every question of a benchmark, as published."""

from collections import Counter
from collections.abc import Iterator, Sequence

import dagster as dg

from assets.errors import NotReadyError
from assets.partitions import Cell
from assets.stages.base import BenchmarkStage, Failed, Made, Target
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.store import write_rows

PREVIEW_ROWS = 5


class Questions(BenchmarkStage):
    """Downloaded (or drawn up) once for a pinned revision; also tells Dagster the video keys."""

    name = "questions"
    description = "Every question of the benchmark with its options, answer and categories."
    kinds = frozenset({"huggingface", "parquet"})
    row_class = Question
    code_version = "1"

    def target(self, cell: Cell) -> Target:
        version = fingerprint(self.name, self.code_version, self.benchmark.media.version)
        return Target(
            cell=cell,
            fingerprint=version,
            data_version=version,
            path=self.benchmark.store.questions(self.benchmark.name),
        )

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        (target,) = targets
        try:
            questions = self.benchmark.media.questions()
            write_rows(target.path, questions, Question, fingerprint=target.fingerprint)
        except VideoMMEError as error:
            yield Failed(cell=target.cell, reason=str(error))
            return
        self.benchmark.look_again()
        public = self.benchmark.media.is_public
        yield Made(target=target, metadata=_metadata(questions, is_public=public))

    def announce(self, instance: dg.DagsterInstance) -> None:
        """The video keys: new ones are added, those that are no longer asked for are taken away."""
        name = self.benchmark.partitions.videos_name
        try:
            wanted = list(self.benchmark.questions)
        except NotReadyError:
            return
        held = set(instance.get_dynamic_partitions(name))
        instance.add_dynamic_partitions(name, [video for video in wanted if video not in held])
        for video in held.difference(wanted):
            instance.delete_dynamic_partition(name, video)


def _metadata(questions: Sequence[Question], *, is_public: bool) -> dict[str, object]:
    letters = Counter(question.answer.value for question in questions)
    metadata: dict[str, object] = {
        "questions": len(questions),
        "videos": len({question.video_id for question in questions}),
        "answers": dg.MetadataValue.json(dict(sorted(letters.items()))),
    }
    if is_public:
        metadata["preview"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {"question_id": q.question_id, "question": q.question, "answer": q.answer.value}
                )
                for q in questions[:PREVIEW_ROWS]
            ]
        )
    return metadata
