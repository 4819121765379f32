"""A newer version of the package raises code versions, and an older one then replaces nothing."""

from pathlib import Path

import pytest

from tests.support.cli import use, videomme
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.project.state.written import refuse_older_version
from videomme_pipeline.storage.layout import Store


def newer(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(CODE_VERSIONS, "prompts", (99,))
    return monkeypatch


def test_an_older_version_names_what_it_would_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.at(tmp_path)
    refuse_older_version(store)
    with monkeypatch.context() as patch:
        newer(patch)
        refuse_older_version(store)
        refuse_older_version(store)
    with pytest.raises(ConfigurationError, match=r"would replace it \(prompts\); install"):
        refuse_older_version(store)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"versions": 1', '{"package": "1", "versions": []}']
)
def test_a_damaged_record_is_one_sentence(tmp_path: Path, content: str) -> None:
    store = Store.at(tmp_path)
    store.versions.write_text(content)
    with pytest.raises(ConfigurationError, match="is damaged; delete it"):
        refuse_older_version(store)


def test_a_run_of_an_older_version_changes_no_file(
    project: Project, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, root)
    with monkeypatch.context() as patch:
        newer(patch)
        assert videomme("run", "few").status == 0
    before = {path: path.stat().st_mtime_ns for path in project.store.tables()}
    ended = videomme("run", "few")
    assert ended.status == 1
    assert "a newer videomme-pipeline" in ended.err
    assert {path: path.stat().st_mtime_ns for path in project.store.tables()} == before
