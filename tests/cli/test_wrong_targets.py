"""Commands that cannot write or listen where they are told to."""

import socket
from pathlib import Path

import pytest
import yaml

from tests.support.cli import use, videomme
from tests.support.ports import free_port


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "configuration").mkdir()
    (tmp_path / "configuration" / "benchmarks.yaml").write_text("smoke: {}")
    use(monkeypatch, tmp_path)
    return tmp_path


def test_a_report_creates_no_folder_of_a_mistyped_path(root: Path) -> None:
    target = root / "typo" / "report.html"
    message = videomme("report", "--output", str(target)).failed_with
    assert f"there is no folder {target.parent}" in message
    assert not target.parent.exists()


def test_a_second_ui_on_the_same_port_ends_with_one_sentence(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        ended = videomme("ui", "--port", str(port))
    assert ended.status == 1
    assert f"127.0.0.1:{port} cannot be used (Address already in use)" in ended.err
    assert not (root / "home").exists(), "nothing was started"


def test_a_ui_without_a_workspace_ends_with_one_sentence(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "workspace.yaml: no such file; write it with" in videomme("ui").failed_with
    assert not (root / "home").exists(), "nothing was started"


@pytest.mark.parametrize("entries", [None, 3, {}, [{"python_file": "a.py"}]])
def test_a_ui_with_an_odd_workspace_ends_with_one_sentence(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: object
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump({"load_from": entries}))
    ended = videomme("ui", "--port", str(free_port()))
    assert ended.status == 1
    _, message = ended.err.splitlines()
    assert message.startswith("Error: workspace.yaml: an entry is neither `grpc_server` nor")
    assert not (root / "home").exists(), "nothing was started"
