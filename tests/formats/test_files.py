"""Tables are read as pandas reads their texts."""

from pathlib import Path

import pandas as pd
import pytest

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.files import read_rows_of

TEXTS = [
    "plain",
    'with "quotes"',
    "two\nlines",
    "carriage\rreturn",
    "tab\tand, comma",
    " spaces ",
    "حرف D",
    "",
    "NA",
    "None",
    "nan",
    "null",
    "N/A",
    "0",
    "x" * 200_000,
]


@pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".csv", ",")])
def test_tables_are_read_as_pandas_reads_them(tmp_path: Path, suffix: str, separator: str) -> None:
    path = tmp_path / f"results{suffix}"
    table = pd.DataFrame({"id": [str(n) for n in range(len(TEXTS))], "response": TEXTS})
    table.to_csv(path, sep=separator, index=False)
    expected = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    rows, _ = read_rows_of(path)
    assert [row["id"] for row in rows] == list(expected["id"])
    assert [row.get("response", "") for row in rows] == list(expected["response"].fillna(""))


@pytest.mark.parametrize(
    "text", ["a,b\n1,2,3\n", 'a,b\n"1,2\n'], ids=["too many fields", "open quote"]
)
def test_damaged_tables_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(ScoringError, match=r"results\.csv: not readable as CSV"):
        read_rows_of(path)
