"""The command `sweep`: one evaluation with other settings, and the cheapest of the good ones."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videomme_pipeline.cli.arguments import AsJson, evaluation_argument
from videomme_pipeline.cli.context import announce, note, open_project, out, print_json, write
from videomme_pipeline.cli.run import PLANNING, end_if_not_fresh, run_evaluations

if TYPE_CHECKING:
    from videomme_pipeline.storage.layout import Store

commands = typer.Typer()

_GOOD_ENOUGH = 0.01
"""A score so near to the best one is as good."""
_COSTS = ("dollars", "tokens", "frames")
"""The cost of a question: the first of these that is known for all settings."""
_QUERY = """
select evaluation, any_value(score) as score, any_value(score_low) as score_low,
       any_value(score_high) as score_high, avg(num_frames) as frames,
       case when count(prompt_tokens) = count(*)
            then avg(prompt_tokens + coalesce(completion_tokens, 0)) end as tokens,
       case when count(cost_dollars) = count(*) then avg(cost_dollars) end as dollars
from scored_questions join headlines using (benchmark, evaluation)
where list_contains(?, evaluation)
group by evaluation
order by score desc, evaluation
"""


@commands.command(
    epilog="Example: videomme sweep smoke-embedded --sampling uniform_n-4 --sampling uniform_n-16"
)
def sweep(
    evaluation: Annotated[str, evaluation_argument("EVALUATION", "The evaluation to vary.")],
    sampling: Annotated[
        list[str] | None, typer.Option(help="A sampling, or none. Repeatable.")
    ] = None,
    subtitles: Annotated[
        list[str] | None, typer.Option(help="An alignment, or none. Repeatable.")
    ] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt. Repeatable.")] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(metavar="USD", min=0.0, help="Stop once all settings have cost this much."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an evaluation with every combination of settings, and name the cheapest good one.

    Writes an evaluation file for each combination. All frames of a video are
    extracted in one pass, and what is stored is not asked again. The cheapest
    setting within one point of the best is the one with the lowest cost per
    question: dollars, else tokens, else frames.
    """
    announce(PLANNING)
    axes = {"sampling": sampling, "subtitles": subtitles, "prompt": prompt}
    names = _written(evaluation, {key: values for key, values in axes.items() if values})
    project, refreshed = run_evaluations(names, max_cost)
    rows = _rows(project.store, names)
    cheapest, cost = _cheapest(rows)
    if as_json:
        print_json({"settings": rows, "cheapest": cheapest, "cost": cost})
    elif cheapest is not None:
        _show(rows, cheapest, cost)
    end_if_not_fresh(refreshed)


def _written(evaluation: str, axes: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of all combinations, whose evaluation files are written unless they exist."""
    from videomme_pipeline.configuration import read_yaml
    from videomme_pipeline.evaluation.writing import write_evaluation

    configuration = open_project().configuration
    folder = configuration.folder / "evaluations"
    base = read_yaml(folder / f"{configuration.evaluation(evaluation).name}.yaml")
    names = []
    for values in product(*axes.values()):
        name = "-".join([evaluation, *values])
        write_evaluation(configuration, name, base | dict(zip(axes, values, strict=True)))
        names.append(name)
    note(f"{len(names)} evaluations in {folder}")
    return names


def _rows(store: "Store", names: Sequence[str]) -> list[dict[str, Any]]:
    """The scored settings with the means of a question, the best one first."""
    from videomme_pipeline.warehouse.database import connect, query

    with connect(store) as connection:
        return query(connection, _QUERY, [list(names)])


def _cheapest(rows: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """The cheapest evaluation with a score near the best one, and what its cost is."""
    good = [row for row in rows if row["score"] >= rows[0]["score"] - _GOOD_ENOUGH]
    cost = next((c for c in _COSTS if good and all(row[c] is not None for row in rows)), None)
    return (min(good, key=lambda row: row[cost])["evaluation"], cost) if cost else (None, None)


def _show(rows: Sequence[Mapping[str, Any]], cheapest: str, cost: str | None) -> None:
    from videomme_pipeline.reports.terminal.tables import interval, show_rows

    shown = [
        {
            "evaluation": row["evaluation"],
            "score": f"{100 * row['score']:.1f}",
            "95% CI": interval(row["score_low"], row["score_high"]),
            **{name: None if row[name] is None else f"{row[name]:.4g}" for name in _COSTS},
        }
        for row in rows
    ]
    show_rows(out, shown)
    write(f"Cheapest within 1 point of the best, by {cost} per question: {cheapest}\n")
