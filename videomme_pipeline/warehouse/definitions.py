"""The SQL of views and macros: files in `sql/` and `macros/`, and views by declared facets."""

import re
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import NormalDist
from string import Template

from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.benchmarks.registry import registered_benchmarks
from videomme_pipeline.scoring.statistics.estimates import (
    CONFIDENCE,
    FEW_DIFFERENCES,
    SMALL_CELL_CLUSTERS,
)

_MACRO_OF = {Measure.ACCURACY: "accuracy_by", Measure.GROUP_SCORE: "group_score_by"}
"""Table macro that computes each measure."""

_GROUP_FACETS_MARK = ", /* facets */"
"""Mark in `sql/group_scores.sql` for the facets that benchmarks declare."""
_CHAIN_MARK = "/* chain */"
"""Mark in `sql/group_scores.sql` for the columns that follow from the rules of benchmarks."""
_SOURCE = re.compile(r'\b(?:from|join)\s+"?(\w+)')
"""A table, view or table macro that a statement reads."""
_COMMENT = re.compile("--.*")


@cache
def scalar_macros() -> str:
    """The SQL that creates the macros for errors and intervals."""
    text = Path(__file__).with_name("scalar_macros.sql").read_text(encoding="utf-8")
    return Template(text).substitute(
        z=f"{NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)}e0",  # with an exponent, not a decimal
        confidence=f"{CONFIDENCE}e0",
        small_cell=SMALL_CELL_CLUSTERS,
        few_differences=FEW_DIFFERENCES,
    )


def views() -> Mapping[str, str]:
    """The SQL of every view by name, each after the views it reads."""
    macros = sql_files("macros")
    return {name: sql for name, sql in definitions().items() if name not in macros}


def definitions() -> Mapping[str, str]:
    """The SQL of every view and table macro by name, each after the ones it reads.

    A macro takes the facets that it groups by: views of one family differ only in these.
    """
    files = {**sql_files("macros"), **sql_files("sql")}
    groups = files["group_scores"].replace(_GROUP_FACETS_MARK, _group_facets())
    files["group_scores"] = groups.replace(_CHAIN_MARK, _chain_columns())
    sql_of = files | _facet_views() | _headline_views()
    sources = {
        name: set(_SOURCE.findall(_COMMENT.sub("", sql))) & sql_of.keys()
        for name, sql in sql_of.items()
    }
    return {name: sql_of[name] for name in TopologicalSorter(sources).static_order()}


def _facet_views() -> dict[str, str]:
    """The SQL of the views that break a score down by declared facets, by name."""
    return {
        name: (
            f"-- grain: one row per ({', '.join(('benchmark', 'evaluation', *columns))})\n"
            f"from {_MACRO_OF[measure]}({list(columns)})\n"
        )
        for benchmark in registered_benchmarks()
        for measure in Measure
        for name, columns in benchmark.breakdowns(measure).items()
    }


def _headline_views() -> dict[str, str]:
    """The SQL of the views of means over a facet, and of `headlines` of all benchmarks, by name."""
    grain = "-- grain: one row per (benchmark, evaluation)\n"
    means = {
        benchmark.headline: f"{grain}from mean_accuracy_over([{benchmark.mean_of!r}])\n"
        for benchmark in registered_benchmarks()
        if benchmark.mean_of is not None
    }
    sources = [
        ("accuracy", "overall", "accuracy", 1),
        ("group_score", "group_score_overall", "group_score", 100),
        *((view, view, "accuracy", 1) for view in sorted(means)),
    ]
    parts = [
        f"select benchmark, evaluation, '{metric}' as metric, {score} / {unit} as score, "
        f"{score}_low / {unit} as score_low, {score}_high / {unit} as score_high\n"
        f"from {identifier(view)} join benchmarks using (benchmark) where headline = '{metric}'"
        for metric, view, score, unit in sources
    ]
    scores = "-- The score that ranks evaluations of the benchmark, as a fraction of one.\n"
    return means | {"headlines": grain + scores + "\nunion all\n".join(parts)}


def _group_facets() -> str:
    """The declared facets of a group in SQL: each from the last question that has it."""
    columns = dict.fromkeys(
        facet.column
        for benchmark in registered_benchmarks()
        for facet in benchmark.shown_facets
        if facet.measure is Measure.GROUP_SCORE
    )
    return "".join(
        f",\n           arg_max({identifier(column)}, group_place) as {identifier(column)}"
        for column in columns
    )


def _chain_columns() -> str:
    """Columns of a question in SQL: true if its group is a chain, and the structure of a chain."""
    is_chain, structure = "", ""
    for benchmark in registered_benchmarks():
        if benchmark.grouping and (chain := benchmark.grouping.chain):
            condition = f"{identifier(chain.facet)}::text = {literal(chain.value)}"
            text = f"replace({identifier(chain.structure)}::text, ' ', '')"
            is_chain += f" when {literal(benchmark.name)} then {condition}"
            structure += (
                f" when {literal(benchmark.name)} then case when {condition} then {text} end"
            )
    if not is_chain:
        return "false as is_chain, null::text as chain_structure"
    return (
        f"case benchmark{is_chain} else false end as is_chain, "
        f"case benchmark{structure} end as chain_structure"
    )


@cache
def sql_files(folder: str) -> dict[str, str]:
    """The texts of the files in a folder beside this module, by name."""
    paths = sorted(Path(__file__).with_name(folder).glob("*.sql"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def literal(text: str) -> str:
    """`text` as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """`name` as a quoted SQL name, so that it may be a keyword."""
    return '"' + name.replace('"', '""') + '"'
