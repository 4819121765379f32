"""docs/scores.md holds what is measured."""

from pathlib import Path

import pytest

from videomme_pipeline.scoring.groups import GroupRule
from videomme_pipeline.scoring.read_answer import ReaderName
from videomme_pipeline.scoring.score_file import ScoreOptions, score_file

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "scores"
DOCS = (ROOT / "docs" / "scores.md").read_text(encoding="utf-8")


def counts(reader: ReaderName, name: str, benchmark: str = "videomme") -> str:
    report = score_file(GOLDEN / name, ScoreOptions(reader=reader, benchmark=benchmark))
    cell = report.breakdowns["overall"][0]
    assert cell.accuracy_of_answered is not None
    return (
        f"| `{reader}` | {cell.correct} | {cell.incorrect} | {cell.unreadable} | {cell.failed} "
        f"| {100 * cell.accuracy:.1f} | {100 * cell.accuracy_of_answered:.1f} |"
    )


def group_scores(reader: ReaderName) -> str:
    scores = []
    for rule in GroupRule:
        options = ScoreOptions(benchmark="videomme_v2", reader=reader, group_rule=rule)
        rating = score_file(GOLDEN / "v2_responses.json", options).rating
        assert rating is not None
        scores.append(f" {rating.final_rating['total']:.2f} |")
    return "".join(scores)


@pytest.mark.parametrize("reader", ReaderName)
def test_the_effect_of_the_reader_on_v1(reader: ReaderName) -> None:
    assert counts(reader, "v1_responses.json") in DOCS


@pytest.mark.parametrize(
    "reader", [reader for reader in ReaderName if not reader.startswith("official_v1")]
)
def test_the_effect_of_the_reader_on_v2(reader: ReaderName) -> None:
    row = counts(reader, "v2_responses.json", benchmark="videomme_v2") + group_scores(reader)
    assert row in DOCS
