"""The notebook in the docs runs on a data folder."""

import runpy
import sys

import pytest

from tests.support.paths import ROOT
from videomme_pipeline.storage.layout import Store

NOTEBOOK = ROOT / "docs" / "notebooks" / "results.py"


@pytest.mark.slow
def test_the_notebook_runs_and_shows_the_views(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(NOTEBOOK), "--data", str(store.root)])
    app = runpy.run_path(str(NOTEBOOK))["app"]
    outputs, definitions = app.run()
    assert len(outputs) == 6
    assert set(definitions["leaderboard"]["evaluation"]) >= {"model-a", "model-b", "groups-a"}
    assert set(definitions["missed"]["correct"]) <= {0}
    assert len(definitions["gain"]) > 0
    assert "vega" in definitions["chart"].to_json()
