"""`videomme sweep`: a grid of settings on real videos and a real HTTP server."""

from pathlib import Path

import pytest

from tests.support.cli import use, videomme
from tests.support.model_server import ModelServer
from tests.support.projects import WriteServed


@pytest.mark.slow
def test_a_sweep_asks_each_setting_once_and_names_the_cheapest_good_one(
    write_served: WriteServed, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, root)
    evaluations = root / "configuration" / "evaluations"
    with ModelServer(answer=lambda _: "The answer is B.") as server:
        write_served(server.base_url)
        grid = ("--sampling", "uniform_n-8", "--sampling", "uniform_n-4", "--subtitles", "none")
        both = (*grid, "--subtitles", "window-500")
        planned = videomme("sweep", "served", *both, "--dry-run", "--json").json
        assert {build["asset"] for build in planned["build"]} >= {"videomme/responses"}
        assert len(planned["requests"]) == 4
        assert server.request_count == 0
        assert [path.name for path in evaluations.iterdir()] == ["served.yaml"]
        swept = videomme("sweep", "served", *both, "--json")
        assert swept.status == 0
        settings = {row["evaluation"]: row for row in swept.json["settings"]}
        names = [
            f"served-{sampling}-{subtitles}"
            for sampling in ("uniform_n-8", "uniform_n-4")
            for subtitles in ("none", "window-500")
        ]
        names[2] = "served"  # which has these settings
        assert settings.keys() == set(names)
        assert [settings[name]["frames"] for name in names] == [8, 8, 4, 4]
        assert swept.json["cost"] == "tokens"
        assert swept.json["cheapest"] == {
            "without_subtitles": "served",
            "with_subtitles": "served-uniform_n-4-window-500",
        }
        assert not any(row["is_worse"] for row in settings.values())
        questions = server.request_count / 4
        assert questions == int(questions) > 0
        again = videomme("sweep", "served", *grid)
        assert server.request_count == 4 * questions
    assert again.err.count("Everything is fresh") == 1
    last = again.out.splitlines()[-1]
    assert last == (
        "Cheapest without subtitles that is not detectably worse, by tokens per question: served"
    )
    assert "sampling: uniform_n-4" in (evaluations / f"{names[3]}.yaml").read_text()
    assert not (evaluations / "served-uniform_n-4-none.yaml").exists()


def test_a_sweep_needs_an_evaluation_with_a_file(
    write_served: WriteServed, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, root)
    write_served("http://127.0.0.1:9/v1")
    ended = videomme("sweep", "serve", "--sampling", "uniform_n-4")
    assert ended.status == 1
    assert "did you mean `served`" in ended.err
