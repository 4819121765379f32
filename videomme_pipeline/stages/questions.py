"""`questions`: every question of a benchmark, as published."""

from collections import Counter
from collections.abc import Sequence

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.stages.facts import Facts
from videomme_pipeline.stages.stage import (
    BenchmarkStage,
    BuildResults,
    Stage,
    Target,
    Targets,
    each,
)
from videomme_pipeline.storage.tables import read_rows

PREVIEW_ROWS = 5


def _build(stage: BenchmarkStage, targets: Targets) -> BuildResults:
    return each(targets, lambda target: _fetch(stage, target))


def _fetch(stage: BenchmarkStage, target: Target) -> Facts:
    """Store the questions, which are fetched if necessary, and return their facts."""
    source = stage.benchmark.snapshot.source
    questions = source.questions()
    find_benchmark(source.name).check_letters(questions)
    stage.write(target, questions)
    stage.invalidate()
    return _facts_of(stage, questions) | {"hidden_answers": source.hidden_answers or None}


def _facts(stage: BenchmarkStage, target: Target) -> Facts:
    return _facts_of(stage, read_rows(target.path, Question))


def _facts_of(stage: BenchmarkStage, questions: Sequence[Question]) -> dict[str, object]:
    letters = Counter(question.answer.value for question in questions)
    facts: dict[str, object] = {
        "questions": len(questions),
        "videos": len({question.video_id for question in questions}),
        "answers": dict(sorted(letters.items())),
    }
    if find_benchmark(stage.benchmark.name).is_public:
        facts["preview"] = [
            {"question_id": q.question_id, "question": q.question, "answer": q.answer}
            for q in questions[:PREVIEW_ROWS]
        ]
    return facts


QUESTIONS = Stage(
    name="questions",
    description="Every question of the benchmark with its options, answer and categories.",
    dimensions=frozenset(),
    kinds=frozenset({"parquet"}),
    row_class=Question,
    fingerprint=lambda benchmark, _: benchmark.snapshot.questions_version,
    build=_build,
    facts=_facts,
)
