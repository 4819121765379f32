"""Results of a data folder in a notebook, from queries on its DuckDB file.

marimo edit docs/notebooks/results.py -- --data data
"""

import marimo

app = marimo.App(width="medium", app_title="Results")


@app.cell
def _():
    import marimo as mo

    from videomme_pipeline.reports.charts import breakdown_chart
    from videomme_pipeline.storage.layout import Store
    from videomme_pipeline.warehouse.database import connect

    return Store, breakdown_chart, connect, mo


@app.cell
def _(Store, connect, mo):
    folder = mo.cli_args().get("data") or "data"
    connection = connect(Store.at(folder))
    mo.md(f"# Results in `{folder}`\n\nThe DuckDB file is rebuilt if scores have changed.")
    return (connection,)


@app.cell
def _(connection, mo):
    leaderboard = connection.execute(
        """
        select benchmark, evaluation, questions, accuracy, accuracy_low, accuracy_high,
               unreadable, failed, cost_dollars
        from leaderboard order by benchmark, accuracy desc
        """
    ).df()
    mo.vstack([mo.md("## All evaluations, with 95% CIs"), mo.ui.table(leaderboard)])
    return (leaderboard,)


@app.cell
def _(breakdown_chart, connection, leaderboard, mo):
    benchmark = leaderboard["benchmark"].iloc[0]
    chart = breakdown_chart(connection, benchmark, "task_type")
    mo.vstack([mo.md(f"## {benchmark} by task type"), chart])
    return benchmark, chart


@app.cell
def _(benchmark, connection, mo):
    missed = connection.execute(
        """
        select question_id, any_value(question) as question,
               any_value(questions.task_type) as task_type,
               count(*) as answers, count(*) filter (outcome = 'correct') as correct
        from scored_questions join questions using (benchmark, question_id)
        where benchmark = ? and sampling <> 'none'
        group by question_id having correct = 0
        order by question_id
        """,
        [benchmark],
    ).df()
    mo.vstack(
        [mo.md("## Questions that no model with frames answered correctly"), mo.ui.table(missed)]
    )
    return (missed,)


@app.cell
def _(connection, mo):
    gain = connection.execute(
        """
        select with_subtitles, without_subtitles, duration, responses,
               difference, difference_low, difference_high
        from track_against_track order by all
        """
    ).df()
    mo.vstack([mo.md("## Effect of subtitles (with minus without)"), mo.ui.table(gain)])
    return (gain,)


if __name__ == "__main__":
    app.run()
