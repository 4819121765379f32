"""The chain with its data in an object store.

The store is in the memory of this process, where frame extraction cannot write: it runs in others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.projects import WriteProject
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.project.project import open_project
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.stages.plan import plan_project
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse import database

URL = "memory://chain/data"


@contextmanager
def requested() -> Iterator[list[str]]:
    """Yield the paths of the objects whose state or content is requested in the block."""
    paths: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("info", "cat_file", "get_file"):
            method = getattr(MemoryFileSystem, name)

            def recorded(
                files: Any, path: str, *rest: Any, method: Any = method, **more: Any
            ) -> Any:
                paths.append(path)
                return method(files, path, *rest, **more)

            patch.setattr(MemoryFileSystem, name, recorded)
        yield paths


@pytest.mark.slow
def test_everything_is_built_in_an_object_store_and_stays_fresh(
    root: Path,
    write_project: WriteProject,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(root))
    write_project({"blind": {"benchmark": "videomme", "model": "random"}})
    project = open_project(root / "configuration", URL)
    assert refresh_project(project, instance, ["blind"]).not_fresh == []

    again = open_project(root / "configuration", URL)
    assert refresh_project(again, instance, ["blind"]).run_id is None
    with requested() as paths:
        plan_project(open_project(root / "configuration", URL))
    assert paths, "questions, for example"
    assert not [path for path in paths if "002" in path], "tables of videos are only listed"
    store = Store.at(URL)
    assert len(read_rows(stored_file(store, "scores", "videomme", "blind"), ScoredQuestion)) == 9
    with database.connect(store) as connection:
        assert database.query(connection, "select evaluation, questions from overall") == [
            {"evaluation": "blind", "questions": 9}
        ]
    local = {path.name for path in (root / ".cache" / "videomme").glob("*/local/*")}
    assert {"journal.sqlite", "videomme.duckdb", "reports"} <= local
    assert not list((root / "data").rglob("*.parquet"))
