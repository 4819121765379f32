"""Commands that show or publish stored results: report, scores, sql, export."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import open_project
from videomme_pipeline.cli.output import announce, note, out, show, write
from videomme_pipeline.errors import ConfigurationError, ScoringError, StorageError

if TYPE_CHECKING:
    from videomme_pipeline.formats.hugging_face import EvaluationResults
    from videomme_pipeline.storage.layout import Store

commands = typer.Typer()


@commands.command(epilog="Example: videomme report --share --output results.html")
def report(
    evaluations: arguments.EvaluationNames = None,
    output: arguments.Output = None,
    share: Annotated[
        bool, typer.Option("--share", help="Leave out question text, responses and frames.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page with frames and videos until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of --serve; 0 chooses a free one.")] = 8700,
    show_all: arguments.ShowAll = False,
) -> None:
    """Write or serve a results page that works offline.

    Without names, the page shows all evaluations.
    """
    announce("Reading the results…")
    from videomme_pipeline.cli.stored_scores import shown_scores
    from videomme_pipeline.reports.page import served_page, write_page

    if serve and (share or output):
        raise ConfigurationError(
            f"--serve and --{'share' if share else 'output'} exclude each other: a served page has "
            "frames and videos, and is not written; leave out one of the two"
        )
    store = _opened_store(show_all=show_all)
    for evaluation in evaluations or ():
        shown_scores(store, evaluation)
    if serve:
        import asyncio

        from videomme_pipeline.reports.server import PageServer

        server = PageServer(store, port)
        note("Collecting the results …")
        server.show(served_page(store, evaluations=evaluations or None))
        note(f"Open {server.url} (on this machine only). Ctrl-C ends the server.")
        asyncio.run(server.serve())
        return
    arguments.check_output(output)
    target = output or store.report("share.html" if share else "report.html")
    try:
        path = write_page(store, target, evaluations=evaluations or None, share=share)
    except StorageError as error:
        if output is None:
            raise StorageError(f"{error}. Or name a file elsewhere with --output") from error
        raise
    note(f"Wrote {path.resolve()}")


@commands.command(epilog="Example: videomme scores smoke")
def scores(
    benchmarks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BENCHMARK",
            help="One benchmark shows its evaluations. Default: all benchmarks, side by side.",
        ),
    ] = None,
    show_all: arguments.ShowAll = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Show stored scores. Nothing is built.

    For one benchmark, a row is an evaluation. For several, a row is a model with
    its settings, and a column has the headline scores of a benchmark.
    """
    announce("Reading the results…")
    from videomme_pipeline.cli.stored_scores import score_tables, show_score_tables
    from videomme_pipeline.reports.across import across_rows, with_settings
    from videomme_pipeline.reports.terminal.runs import show_across
    from videomme_pipeline.storage.results import Results
    from videomme_pipeline.storage.tables import stored_settings
    from videomme_pipeline.warehouse.database import connect, query

    store = _opened_store(show_all=show_all)
    with connect(store) as connection:
        stored = query(connection, "select * from across_benchmarks order by all")
    results = Results(store)
    settings = {(s.benchmark, s.evaluation): stored_settings(s.path) for s in results.scores()}
    cells = [
        with_settings(row, settings.get((row["benchmark"], row["evaluation"]), {}))
        for row in stored
    ]
    names = list(dict.fromkeys(cell["benchmark"] for cell in cells))
    for name in benchmarks or ():
        arguments.choice(names, name, "evaluated benchmark")
    if benchmarks and len(benchmarks) == 1:
        of_benchmark = [shown.evaluation for shown in results.scores(benchmarks[0])]
        show(score_tables(store, of_benchmark), show_score_tables, as_json=as_json)
        return
    show(across_rows(cells, benchmarks or names), show_across, as_json=as_json)


@commands.command(epilog='Example: videomme sql "select * from by_task_type limit 5"')
def sql(
    select: Annotated[str, typer.Argument(metavar="SELECT", help="Any DuckDB query.")],
    allow_files: Annotated[
        bool, typer.Option("--allow-files", help="Let the query use files, as in read_csv().")
    ] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Query the tables and views of the DuckDB file.

    `select view_name from duckdb_views() where not internal` lists the views.
    Any DuckDB client can open the same file, `videomme.duckdb` in the data
    folder.
    """
    announce("Reading the results…")
    import duckdb

    from videomme_pipeline.reports.terminal.tables import show_rows
    from videomme_pipeline.warehouse.database import connect, query

    with connect(open_project().store, allow_files=allow_files) as connection:
        try:
            rows = query(connection, select)
        except duckdb.PermissionException as error:
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(
                f"DuckDB: {reason}; with --allow-files, the query can use other files"
            ) from error
        except duckdb.Error as error:
            raise ConfigurationError(f"DuckDB: {error}") from error
    show(rows, show_rows, as_json=as_json)


@commands.command(epilog="Example: videomme export smoke-embedded --format official > results.json")
def export(
    evaluation: Annotated[
        str, arguments.evaluation_argument("EVALUATION", "Name of an evaluation that has scores.")
    ],
    form: Annotated[
        str,
        typer.Option("--format", help="Format of the file, for example lmms_eval or hugging_face."),
    ] = "official",
    to: Annotated[
        str | None,
        typer.Option(
            metavar="hub[:ORGANIZATION/MODEL]",
            help="Propose the score for the page of the model on the Hugging Face Hub: of this "
            "repository, or of the one that is evaluated.",
        ),
    ] = None,
    dry_run: arguments.DryRun = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --to: do not ask for confirmation.")
    ] = False,
) -> None:
    """Write an evaluation as a file of another tool, or propose its score to the hub.

    hugging_face is the file of a score for the Hugging Face Hub. With --to, the
    command shows what it will send, and opens a pull request with this file in
    .eval_results. It has the score and its settings, and no question, response or
    frame. --dry-run writes it here and sends nothing.
    """
    announce("Reading the results…")
    from videomme_pipeline.cli.stored_scores import print_findings
    from videomme_pipeline.formats.hugging_face import write_eval_results
    from videomme_pipeline.formats.registry import FORMATS, write_results

    results = [name for name, file_format in FORMATS.items() if file_format.rows is not None]
    name = arguments.choice([*results, "hugging_face"], form, "format")
    store = open_project().store
    scored = _scored(store, evaluation)
    if to is not None:
        _propose(store, evaluation, scored, to, dry_run=dry_run, is_confirmed=yes)
        return
    if name == "hugging_face":
        text = write_eval_results(scored)
    else:
        text = write_results(
            scored.questions, scored.rows, FORMATS[name], not_citable=scored.not_citable
        )
        if any(row.repeat for row in scored.rows):
            note("Note: this format has one answer per question; the file has the first repeat")
    print_findings(store, [evaluation])
    if out.is_terminal:
        write(text)
    else:
        sys.stdout.write(text)


def _propose(
    store: "Store",
    evaluation: str,
    scored: "EvaluationResults",
    to: str,
    *,
    dry_run: bool,
    is_confirmed: bool,
) -> None:
    from huggingface_hub import HfApi

    from videomme_pipeline.cli.stored_scores import print_findings
    from videomme_pipeline.fetch.hub import explained
    from videomme_pipeline.formats.hugging_face import model_repository, write_eval_results
    from videomme_pipeline.scoring.scored_question import too_few_answers

    site, _, repository = to.partition(":")
    arguments.choice(["hub"], site, "site")
    repository = model_repository(scored, repository)
    if problem := too_few_answers(scored.rows, scored.benchmark.size.questions):
        raise ScoringError(
            f"{evaluation}: {problem}, so its score is not that of the benchmark; run it whole"
        )
    path, text = f".eval_results/{evaluation}.yaml", write_eval_results(scored)
    print_findings(store, [evaluation])
    note(f"{path} of {repository}:")
    write(text)
    if dry_run:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
        note(f"Wrote {path}; nothing was sent")
        return
    if not is_confirmed:
        typer.confirm(f"Open a pull request in {repository}?", abort=True, err=True)
    with explained(repository):
        opened = HfApi(endpoint=os.environ.get("HF_ENDPOINT")).upload_file(
            path_or_fileobj=text.encode(),
            path_in_repo=path,
            repo_id=repository,
            commit_message=f"Add the score of {evaluation}",
            create_pr=True,
        )
    note(f"Opened {opened.pr_url}")


def _opened_store(*, show_all: bool) -> "Store":
    store = open_project().store
    return store.with_deleted() if show_all else store


def _scored(store: "Store", evaluation: str) -> "EvaluationResults":
    from videomme_pipeline.benchmarks.question import Question
    from videomme_pipeline.cli.stored_scores import open_findings, shown_scores
    from videomme_pipeline.formats.hugging_face import EvaluationResults
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.storage.tables import read_rows, stored_settings

    shown = shown_scores(store, evaluation)
    questions = shown.results.questions(shown.benchmark)
    blocked = [
        f"{finding['check_name']}: {finding['summary']}"
        for finding in open_findings(store, [evaluation])
        if finding["status"] == "blocked"
    ]
    return EvaluationResults(
        questions=[] if questions is None else read_rows(questions, Question),
        rows=read_rows(shown.path, ScoredQuestion),
        settings=stored_settings(shown.path),
        not_citable="; ".join(blocked),
    )
