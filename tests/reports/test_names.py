"""Names that files contain are data in every output."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.hostile_names import HOSTILE, is_safe
from tests.support.scored_rows import v1_evaluation
from videomme_pipeline.errors import one_line
from videomme_pipeline.reports.gate import junit, junit_error, markdown
from videomme_pipeline.reports.markdown import in_markdown
from videomme_pipeline.scoring.statistics.gate import Gate, decide

ANY_NAME = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(categories=None), min_size=1),
    st.lists(st.sampled_from(HOSTILE), min_size=1).map("".join),
)
COMMONMARK = MarkdownIt("commonmark").enable("table").enable("strikethrough")


@pytest.fixture(scope="module")
def gate() -> Gate:
    rows = v1_evaluation(1)
    return decide(rows, v1_evaluation(2), margin=2.0, facets=["domain"])


@given(ANY_NAME)
def test_a_name_is_one_line_of_text(name: str) -> None:
    line = one_line(name)
    assert is_safe(line)
    assert "\t" not in line
    line.encode()
    assert one_line(line) == line


@given(ANY_NAME)
def test_markdown_shows_a_name_as_it_is(name: str) -> None:
    tokens = COMMONMARK.parse(f"| a | b |\n|---|---|\n| x{in_markdown(name)}y | end |\n")
    cells = [token for token in tokens if token.type == "inline"]
    assert [cell.content for cell in cells][-1] == "end", "no row or column was added"
    assert len(cells) == 4
    shown = cells[2].children or []
    assert {token.type for token in shown} <= {"text", "text_special"}
    text = "".join(token.content for token in shown)
    assert " ".join(text.split()) == " ".join(f"x{one_line(name)}y".split())


@given(ANY_NAME)
def test_the_files_of_ci_are_well_formed_for_any_name(gate: Gate, name: str) -> None:
    checks = tuple(replace(check, name=name) for check in gate.checks)
    named = replace(gate, baseline=name, candidate=name, checks=checks)
    for text in (junit(named), junit_error(name, name, name)):
        suite = ElementTree.fromstring(text).find("testsuite")
        assert suite is not None
        assert int(suite.attrib["tests"]) == len(suite)
    lines = markdown(named, "passed").splitlines()
    assert len(lines) == len(markdown(gate, "passed").splitlines())
    assert all(map(is_safe, lines))
