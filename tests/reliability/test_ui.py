"""Runs that the UI launches: they can be terminated, and work beside runs of the command line."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import dagster as dg
import psutil
import pytest

from tests.support.commands import CONCURRENCY, QuickCommand, runs_of, write_served_project
from tests.support.dagster_ui import DagsterUI, running_ui, wait_until
from tests.support.model_server import ModelServer
from tests.support.projects import VIDEOS

CANCELED, SUCCESS = dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS
FINISHED = {CANCELED, SUCCESS, dg.DagsterRunStatus.FAILURE}
EVALUATIONS = ("served", "served-subtitles")


@pytest.mark.slow
def test_a_terminated_run_keeps_its_answers_and_a_backfill_runs_beside_two_commands(
    tmp_path: Path,
) -> None:
    with ModelServer(delay_seconds=0.5) as server:
        write_served_project(tmp_path, server)
        with running_ui(tmp_path) as ui:
            assert "no page yet" in ui.results_page()
            terminated = ui.launch_run("refresh_stale", {"evaluations": ["served"]})
            wait_until(lambda: server.answered.total() >= 3)
            ui.terminate(terminated)
            wait_until(lambda: runs_of(tmp_path)[terminated].value not in ("STARTED", "CANCELING"))
            assert runs_of(tmp_path)[terminated] is CANCELED
            wait_until(lambda: server.connections == 0)

            backfill = ui.launch_backfill(
                [["videomme", "prompts"], ["videomme", "responses"]],
                [f"served|{video}" for video in VIDEOS],
            )
            commands = [QuickCommand(tmp_path, "run", evaluation) for evaluation in EVALUATIONS]
            for ended in [command.finish() for command in commands]:
                assert ended.status == 0, ended
                assert "locked" not in ended.err
            wait_until(lambda: ui.backfill_status(backfill) != "REQUESTED")
            assert ui.backfill_status(backfill) == "COMPLETED_SUCCESS"
            # The sensor may have started a run that builds the results.
            wait_until(lambda: FINISHED.issuperset(runs_of(tmp_path).values()))
            assert "<html" in ui.results_page()
        # Only what was in flight when the first run was terminated is asked again.
        assert server.request_count - len(server.request_counts) <= CONCURRENCY
    statuses = runs_of(tmp_path)
    assert statuses.pop(terminated) is CANCELED
    assert set(statuses.values()) == {SUCCESS}
    log = (tmp_path / "ui.log").read_text(encoding="utf-8")
    assert "locked" not in log
    assert "DEBUG" not in log


@pytest.mark.slow
@pytest.mark.parametrize("words", [("api", "grpc"), ("code-server", "start"), ("run",)])
def test_the_ui_ends_with_one_sentence_if_one_of_its_processes_was_killed(
    words: Sequence[str], tmp_path: Path
) -> None:
    with ModelServer() as server:
        write_served_project(tmp_path, server)
    with running_ui(tmp_path) as ui:
        wait_until(lambda: processes_of(ui, ["run"]))  # the daemon is the last one to start
        family = psutil.Process(ui.process.pid).children(recursive=True)
        (killed,) = processes_of(ui, words)
        killed.kill()
        assert ui.process.wait(timeout=300) == 1
    last = (tmp_path / "ui.log").read_text("utf-8").splitlines()[-1]
    assert last.startswith("Error: a process of the UI has ended")
    assert {p.status() for p in family if p.is_running()} <= {psutil.STATUS_ZOMBIE}


def processes_of(ui: DagsterUI, words: Sequence[str]) -> list[psutil.Process]:
    """The descendants of the UI whose command begins with these words of Dagster."""
    processes = []
    for process in psutil.Process(ui.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a zombie, too
            if tuple(process.cmdline()[3 : 3 + len(words)]) == tuple(words):
                processes.append(process)
    return processes
