"""`deploy/evaluate.sbatch`: PostgreSQL and a run in one Slurm job, which is requeued."""

import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.support.commands import CONCURRENCY, VIDEOMME, write_served_project
from tests.support.dagster_ui import wait_until
from tests.support.model_server import ModelServer
from tests.support.paths import ROOT
from tests.support.postgres_server import USER, find_postgres
from tests.support.slurm import CAN_RUN, slurm
from tests.support.users import needs_users, python_of_all_users

REQUESTS = 15
"""Two evaluations of nine questions, of which three are the same on both tracks."""

SCRIPT = ROOT / "deploy" / "evaluate.sbatch"

pytestmark = [
    pytest.mark.slow,
    needs_users,
    pytest.mark.skipif(find_postgres() is None, reason="needs PostgreSQL"),
]
needs_slurm = pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users can read, because PostgreSQL refuses to run as root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.cluster
@needs_slurm
def test_a_requeued_job_asks_no_stored_answer_again(folder: Path) -> None:
    root, cluster = folder / 'it\'s a "project"', folder / "slurm"
    cluster.mkdir()
    with (
        ModelServer(delay_seconds=0.5, answer=lambda _: "The answer is B.") as server,
        slurm(cluster) as variables,
    ):
        write_served_project(root, server)
        program = root / "videomme"
        program.write_text(f'#!/bin/sh\nexec {python_of_all_users()} {VIDEOMME} "$@"\n')
        program.chmod(0o755)
        for path in [root, *root.rglob("*")]:
            shutil.chown(path, USER)
        postgres = find_postgres()
        environment = variables | {
            "PATH": f"{postgres}:{variables['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
            "HOME": str(root),
            "VIDEOMME": str(program),
            "VIDEOMME_CONFIGURATION": str(root / "configuration"),
            "DAGSTER_HOME": str(root / "dagster"),
        }

        def state(job: str) -> str:
            return submit("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")

        def submit(*command: str) -> str:
            return subprocess.run(
                command, cwd=root, env=environment, user=USER, group=USER, check=True,
                capture_output=True, text=True,
            ).stdout.strip()  # fmt: skip

        script = root / "evaluate.sbatch"
        shutil.copy(SCRIPT, script)
        script.chmod(0o755)
        job = submit("sbatch", "--parsable", "--output=log.txt", str(script), "run")
        try:
            wait_until(lambda: server.request_count >= 4)
            submit("scontrol", "requeue", job)
            # Slurm starts a requeued job after two minutes. This starts it at once.
            wait_until(lambda: state(job) == "PENDING")
            submit("scontrol", "update", f"JobId={job}", "StartTime=now")
            wait_until(lambda: state(job) == "COMPLETED")
        finally:
            log = (root / "log.txt").read_text()
            print(log)  # noqa: T201 - shown if the test fails
        assert log.count("Planning…") == 2
        scores = (root / "data" / "videomme" / "scores").rglob("*.parquet")
        assert sorted(pq.read_metadata(path).num_rows for path in scores) == [9, 9]
        assert REQUESTS <= server.request_count <= REQUESTS + CONCURRENCY


def test_a_job_waits_for_a_server_whose_machine_was_cut_off(folder: Path) -> None:
    root = folder / 'it\'s a "project"'
    root.mkdir()
    program = root / "videomme"
    program.write_text('#!/bin/sh\necho "$1" >> started && [ "$1" != first ] || exec sleep 600\n')
    program.chmod(0o755)
    shutil.copy(SCRIPT, root / "job")
    shutil.chown(root, USER)
    path = f"{find_postgres()}:{os.environ['PATH']}"

    def start(name: str) -> psutil.Popen:
        return psutil.Popen(
            ["bash", "job", name], cwd=root, user=USER, group=USER,
            env={"PATH": path, "VIDEOMME": str(program)},
        )  # fmt: skip

    def started() -> list[str]:
        log = root / "started"
        return log.read_text().split() if log.exists() else []

    first = start("first")
    wait_until(lambda: started() == ["first"])
    run = first.children()
    server = psutil.Process(int((root / "postgres" / "postmaster.pid").read_text().split()[0]))
    for process in (first, *run):
        process.kill()
    second = start("second")
    wait_until(lambda: [child for child in second.children() if child.name() == "flock"])
    assert started() == ["first"]
    server.send_signal(signal.SIGQUIT)
    assert second.wait(60) == 0
    assert started() == ["first", "second"]
    assert not (root / "postgres" / "postmaster.pid").exists()
