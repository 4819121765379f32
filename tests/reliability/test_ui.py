"""Runs that the UI launches: they can be terminated, and work beside runs of the command line."""

import signal
from contextlib import suppress
from pathlib import Path

import dagster as dg
import psutil
import pytest

from tests.support.commands import (
    CONCURRENCY,
    QuickCommand,
    members_of,
    runs_of,
    write_served_project,
)
from tests.support.dagster_ui import running_ui, wait_until
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


def code_server(ui: psutil.Process, words: list[str]) -> psutil.Process:
    """The descendant of the UI whose command begins with these words of Dagster."""
    (process,) = [p for p in ui.children(recursive=True) if p.cmdline()[3:5] == words]
    return process


@pytest.mark.slow
def test_the_ui_ends_with_one_sentence_if_its_code_server_was_killed(tmp_path: Path) -> None:
    with ModelServer() as server:
        write_served_project(tmp_path, server)
    with running_ui(tmp_path) as ui:
        dagster_dev = psutil.Process(ui.process.pid).children()[0]
        code_server(psutil.Process(ui.process.pid), ["api", "grpc"]).send_signal(signal.SIGKILL)
        assert ui.process.wait(timeout=300) == 1
        assert "the code server of the UI has ended" in (tmp_path / "ui.log").read_text("utf-8")
        assert members_of(dagster_dev.pid) == ()


@pytest.mark.slow
def test_the_ui_goes_on_if_dagster_starts_its_code_server_again(tmp_path: Path) -> None:
    with ModelServer() as server:
        write_served_project(tmp_path, server)
    with running_ui(tmp_path) as ui:
        process = psutil.Process(ui.process.pid)
        first = code_server(process, ["code-server", "start"])
        first.kill()
        wait_until(lambda: any(_serves_beside(p, first) for p in process.children(recursive=True)))
        assert ui.process.poll() is None


def _serves_beside(process: psutil.Process, first: psutil.Process) -> bool:
    """True if the process is a code server that `first` did not start."""
    with suppress(psutil.NoSuchProcess):  # a zombie, too
        return process.cmdline()[3:5] == ["api", "grpc"] and process.ppid() != first.pid
    return False
