"""The instance: whose dagster.yaml rules, and what becomes of runs whose process was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from assets.instance import POSTGRES_VARIABLE, end_dead_runs, open_instance, prepare_home
from videomme_pipeline.errors import ConfigurationError

SLEEPS = """
import time
import dagster as dg
from assets.instance import open_instance

@dg.op
def sleep():
    print("asleep", flush=True)
    time.sleep(600)

@dg.job
def sleeping():
    sleep()

with open_instance() as instance:
    sleeping.execute_in_process(instance=instance)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    return tmp_path / "home"


@pytest.mark.slow
def test_a_killed_run_ends_and_a_living_one_goes_on(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPS],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asleep\n"
    with open_instance() as instance:
        assert end_dead_runs(instance) == []
        process.send_signal(signal.SIGKILL)
        process.wait()
        (run,) = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.STARTED
        assert end_dead_runs(instance) == [run.run_id]
        assert [r.status for r in instance.get_runs()] == [dg.DagsterRunStatus.FAILURE]
        assert end_dead_runs(instance) == []


def test_a_changed_setting_takes_effect_and_a_file_of_ones_own_is_left_alone(home: Path) -> None:
    prepare_home()
    settings = home / "dagster.yaml"
    written = settings.read_text()
    settings.write_text(written.replace("max_concurrent_runs: 1", "max_concurrent_runs: 7"))
    prepare_home()
    assert settings.read_text() == written
    settings.write_text("# mine\ntelemetry:\n  enabled: false\n")
    prepare_home()
    assert settings.read_text().startswith("# mine")


def test_postgres_is_named_by_one_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql+psycopg2://me:secret@host/dagster")
    prepare_home()
    text = (home / "dagster.yaml").read_text()
    assert f"env: {POSTGRES_VARIABLE}" in text
    assert "secret" not in text
    monkeypatch.delenv(POSTGRES_VARIABLE)
    prepare_home()
    assert "postgres" not in (home / "dagster.yaml").read_text()
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://host/dagster")
    with pytest.raises(ConfigurationError, match=r"write postgresql\+psycopg2://"):
        prepare_home()
