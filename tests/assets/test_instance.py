"""The instance: whose dagster.yaml rules."""

from pathlib import Path

import pytest

from assets.instance import POSTGRES_VARIABLE, prepare_home
from videomme_pipeline.errors import ConfigurationError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    return tmp_path / "home"


def test_a_changed_setting_takes_effect_and_a_file_of_ones_own_is_left_alone(home: Path) -> None:
    prepare_home()
    settings = home / "dagster.yaml"
    written = settings.read_text()
    settings.write_text(written.replace("max_concurrent_runs: 4", "max_concurrent_runs: 7"))
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
    with pytest.raises(ConfigurationError, match=r"use postgresql\+psycopg2://"):
        prepare_home()
