"""`questions`: every question of a benchmark, as published."""

from collections import Counter
from functools import partial

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.stages.facts import Facts
from videomme_pipeline.stages.stage import BenchmarkStage, Stage, Target, each

PREVIEW_ROWS = 5


def _fetch(stage: BenchmarkStage, target: Target) -> Facts:
    """Store the questions, which are fetched if necessary, and return their facts."""
    source = stage.benchmark.snapshot.source
    questions = source.questions()
    benchmark = find_benchmark(source.name)
    benchmark.check_letters(questions)
    stored = source.stored_questions()
    stage.write(target, questions)
    stage.invalidate()
    letters = Counter(question.answer.value for question in questions)
    facts: dict[str, object] = {
        "questions": len(questions),
        "videos": len({question.video_id for question in questions}),
        "answers": dict(sorted(letters.items())),
        "hidden_answers": (stored and stored.hidden) or None,
    }
    if benchmark.is_public:
        facts["preview"] = [
            {"question_id": q.question_id, "question": q.question, "answer": q.answer}
            for q in questions[:PREVIEW_ROWS]
        ]
    return facts


QUESTIONS = Stage(
    name="questions",
    description="Every question of the benchmark with its options, answer and categories. "
    "docs/five-minutes.md shows what to do in this UI.",
    dimensions=frozenset(),
    kinds=frozenset({"parquet"}),
    row_class=Question,
    fingerprint=lambda benchmark, _: benchmark.snapshot.questions_version,
    build=lambda stage, targets: each(targets, partial(_fetch, stage)),
)
