"""`questions`: every question of a benchmark, as published."""

from collections import Counter
from collections.abc import Sequence

import dagster as dg

from videomme_pipeline.assets.stages.base import (
    BenchmarkStage,
    Results,
    Target,
    Targets,
    describe_each,
)
from videomme_pipeline.assets.stages.metadata import table_of
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.state.partitions import Whole
from videomme_pipeline.storage.tables import read_rows, write_rows

PREVIEW_ROWS = 5


class Questions(BenchmarkStage[Whole]):
    """The stage that fetches the questions of a pinned revision, and defines video partitions."""

    name = "questions"
    description = "Every question of the benchmark with its options, answer and categories."
    kinds = frozenset({"parquet"})
    row_class = Question

    def target(self, partition: Whole) -> Target[Whole]:
        version = fingerprint(self.name, self.code_version, self.benchmark.snapshot.source.version)
        return self.target_of(partition, version, self.store.questions(self.benchmark.name))

    def is_current(self, target: Target[Whole]) -> bool:  # noqa: ARG002
        """Return True if the stored questions can be read."""
        try:
            return bool(self.benchmark.snapshot.questions)
        except NotReadyError:
            return False

    def build(self, targets: Targets[Whole]) -> Results[Whole]:
        return describe_each(targets, self._fetch)

    def _fetch(self, target: Target[Whole]) -> dict[str, object]:
        """Store the questions, and return their metadata."""
        source = self.benchmark.snapshot.source
        questions = source.questions()
        find_benchmark(source.name).check_letters(questions)
        write_rows(target.path, questions, Question, fingerprint=target.fingerprint)
        self.benchmark.invalidate()
        hidden = {"hidden_answers": source.hidden_answers} if source.hidden_answers else {}
        return _metadata(questions, is_public=find_benchmark(source.name).is_public) | hidden

    def metadata(self, target: Target[Whole]) -> dict[str, object]:
        is_public = find_benchmark(self.benchmark.name).is_public
        return _metadata(read_rows(target.path, Question), is_public=is_public)

    def update_partition_keys(self, instance: dg.DagsterInstance) -> None:
        """Add a partition per new video, and delete those of videos without questions."""
        name = self.graph.videos_name
        try:
            videos = list(self.benchmark.snapshot.questions)
        except NotReadyError:
            return
        defined = set(instance.get_dynamic_partitions(name))
        instance.add_dynamic_partitions(name, [video for video in videos if video not in defined])
        for video in defined.difference(videos):
            instance.delete_dynamic_partition(name, video)


def _metadata(questions: Sequence[Question], *, is_public: bool) -> dict[str, object]:
    letters = Counter(question.answer.value for question in questions)
    metadata: dict[str, object] = {
        "questions": len(questions),
        "videos": len({question.video_id for question in questions}),
        "answers": dg.MetadataValue.json(dict(sorted(letters.items()))),
    }
    if is_public:
        metadata["preview"] = table_of(
            {"question_id": q.question_id, "question": q.question, "answer": q.answer}
            for q in questions[:PREVIEW_ROWS]
        )
    return metadata
