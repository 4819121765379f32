"""The numbers in docs/reader-accuracy.md and docs/compare.md are the measured ones."""

from typing import Any

import pytest

from tests.support.agreement import counts, labelled_responses, letter_read, letters_read
from tests.support.paths import ROOT
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.statistics.groups import GroupRule
from videomme_pipeline.scoring.statistics.power import PowerAnalysis

GOLDEN = ROOT / "tests" / "golden" / "scores"
ACCURACY = (ROOT / "docs" / "reader-accuracy.md").read_text(encoding="utf-8")
COMPARE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
CAREFUL, *OTHERS = ReaderName
READERS = (CAREFUL, *(pytest.param(reader, marks=pytest.mark.slow) for reader in OTHERS))


def outcomes(reader: ReaderName, name: str, benchmark: str = "videomme") -> str:
    options = ScoreOptions(reader=reader, benchmark=benchmark, skip_missing=True)
    report = score_file(GOLDEN / name, options)
    cell = report.breakdowns["overall"][0]
    assert cell.accuracy_of_answered is not None
    return (
        f"| `{reader}` | {cell.correct} | {cell.incorrect} | {cell.unreadable} | {cell.failed} "
        f"| {100 * (cell.accuracy or 0):.1f} | {100 * cell.accuracy_of_answered:.1f} |"
    )


def group_scores(reader: ReaderName) -> str:
    scores = []
    for rule in GroupRule:
        options = ScoreOptions(benchmark="videomme_v2", reader=reader, group_rule=rule)
        rating = score_file(GOLDEN / "v2_responses.json", options).rating
        assert rating is not None
        scores.append(f" {rating['final_rating']['total']:.2f} |")
    return "".join(scores)


@pytest.mark.parametrize("reader", READERS)
def test_the_docs_show_the_effect_of_the_reader_on_v1(reader: ReaderName) -> None:
    assert outcomes(reader, "v1_responses.json") in ACCURACY


@pytest.mark.parametrize("reader", [CAREFUL, *READERS[3:]])
def test_the_docs_show_the_effect_of_the_reader_on_v2(reader: ReaderName) -> None:
    row = outcomes(reader, "v2_responses.json", benchmark="videomme_v2") + group_scores(reader)
    assert row in ACCURACY


@pytest.mark.parametrize("reader", READERS)
def test_the_docs_show_the_accuracy_of_each_reader(reader: ReaderName) -> None:
    recorded = _rows("extraction.jsonl")
    forms = _rows("answer_forms.jsonl")
    shares = [
        *_shares(reader, [{"intended": row["intended_4"], **row} for row in recorded]),
        *_shares(
            reader,
            [{"intended": row["intended_8"], "letters": "ABCDEFGH", **row} for row in recorded],
        ),
        *_shares(reader, forms),
    ]
    assert f"| `{reader}` | {' | '.join(shares)} |" in ACCURACY.replace("**", "")


@pytest.mark.parametrize(("questions", "videos"), [(2_700, 900), (900, 300), (3_200, 800)])
def test_the_docs_show_the_detectable_effects(questions: int, videos: int) -> None:
    effects = [
        PowerAnalysis(questions=questions, videos=videos, discordance=share).effect
        for share in (0.05, 0.12, 0.25)
    ]
    cells = " | ".join(f"{100 * effect:.1f}" for effect in effects)
    assert f"{questions:,} questions on {videos} videos | {cells} |" in COMPARE


@pytest.mark.parametrize("reader", READERS)
def test_the_docs_show_the_accuracy_with_options(reader: ReaderName) -> None:
    shares = _shares(reader, _rows("option_forms.jsonl"))
    assert f"| `{reader}` | {' | '.join(shares)} |\n" in ACCURACY.replace("**", "")


@pytest.mark.parametrize("reader", READERS)
def test_the_docs_show_the_accuracy_on_responses_about_videos(reader: ReaderName) -> None:
    rows = _rows("video_responses.jsonl")
    disputed = [row for row in rows if len({*letters_read(row).values()}) > 1]
    cells = [*_shares(reader, rows), _shares(reader, disputed)[0]]
    assert f"of {len(disputed):,} disagreements |" in ACCURACY
    assert f"| `{reader}` | {' | '.join(cells)} |\n" in ACCURACY.replace("**", "")


def _rows(name: str) -> list[dict[str, Any]]:
    return labelled_responses(GOLDEN.parent / name)


def _shares(reader: ReaderName, rows: list[dict[str, Any]]) -> list[str]:
    """Percentages of agreement, false letters, wrong letters and missed letters."""
    agreement = counts((letter_read(reader, row), row["intended"]) for row in rows)
    return [f"{100 * count / len(rows):.1f}" for count in agreement.values()]
