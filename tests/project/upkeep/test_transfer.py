"""Copies between stores: by content, resumable, verified, and never a silent replacement."""

from pathlib import Path

import pytest
from upath import UPath

from tests.support.cli import use, videomme
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.project.upkeep.transfer import Copied, check_license, copy_tables
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.layout import Store


def table(path: UPath, footer: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    empty = arrow_schema(Question).empty_table().replace_schema_metadata({"fingerprint": footer})
    path.write_bytes(parquet.encode(empty))


@pytest.fixture
def source(tmp_path: Path) -> Store:
    store = Store.at(tmp_path / "source")
    table(store.questions("smoke"))
    table(store.frames("abc", "def"))
    table(store.scores("smoke", "a"))
    return store


def copy(source: Store, target: Store, *, overwrite: bool = False) -> Copied:
    return copy_tables(source, target, overwrite=overwrite, on_progress=ignore)


@pytest.mark.parametrize("url", ["{tmp}/target", "memory://transfer{tmp}"])
def test_a_copy_contains_every_table_and_resumes(tmp_path: Path, source: Store, url: str) -> None:
    target = Store.at(url.format(tmp=tmp_path))
    first = copy(source, target)
    assert (first.copied, first.same) == (3, 0)
    target.scores("smoke", "a").unlink()
    assert copy(source, target) == Copied(copied=1, bytes=first.bytes // 3, same=2)
    for file in source.tables():
        parts = file.relative_to(source.root).parts
        assert target.path(*parts).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "key",
    [
        "../scores/a.parquet",
        "../smoke/scores/a.parquet",
        "frames/../a.parquet",
        "frames/abc/../../videos/a.parquet",
        "smoke/scores/..parquet",
        "smoke/scores/.a.parquet",
        "smoke/scores/a\nb.parquet",
        "smoke/scores/a\x1bb.parquet",
        "smoke/../questions.parquet",
    ],
)
def test_a_key_that_no_table_has_is_not_copied(tmp_path: Path, source: Store, key: str) -> None:
    bucket = UPath(f"memory://keys{tmp_path}/evil")
    for file in source.tables():
        bucket.joinpath(*file.relative_to(source.root).parts).write_bytes(file.read_bytes())
    bucket.fs.pipe_file(f"{bucket.path}/{key}", source.questions("smoke").read_bytes())
    target = Store.at(tmp_path / "outer" / "data")
    assert copy(Store.at(bucket), target).copied == 3
    files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert files == {
        f"{folder}/{name}"
        for folder in ("source", "outer/data")
        for name in ("smoke/questions.parquet", "frames/abc/def.parquet", "smoke/scores/a.parquet")
    }


def test_another_content_is_replaced_only_on_request(tmp_path: Path, source: Store) -> None:
    target = Store.at(tmp_path / "target")
    table(target.scores("smoke", "a"), footer="newer")
    kept = target.scores("smoke", "a").read_bytes()
    assert copy(source, target).different == ("smoke/scores/a.parquet",)
    assert target.scores("smoke", "a").read_bytes() == kept
    assert copy(source, target, overwrite=True).copied == 1
    assert target.scores("smoke", "a").read_bytes() != kept


def test_a_damaged_table_is_not_copied_and_a_damaged_copy_is_replaced(
    tmp_path: Path, source: Store
) -> None:
    target = Store.at(tmp_path / "target")
    copy(source, target)
    copied, original = target.frames("abc", "def"), source.questions("smoke")
    copied.write_bytes(copied.read_bytes()[:-1])
    assert copy(source, target).copied == 1
    target.questions("smoke").unlink()
    data = bytearray(original.read_bytes())
    data[5] ^= 1
    original.write_bytes(bytes(data))
    (problem,) = copy(source, target).problems
    assert "questions.parquet: the file is damaged" in problem
    assert not target.questions("smoke").exists()


def test_tables_of_a_restricted_benchmark_are_copied_only_to_a_private_place(
    source: Store,
) -> None:
    check_license(source, is_private=False)
    table(source.questions("videomme"))
    with pytest.raises(ConfigurationError, match="of videomme may not be shared: the license"):
        check_license(source, is_private=False)
    check_license(source, is_private=True)


def test_the_commands_copy_and_verify(
    tmp_path: Path, source: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configuration").mkdir()
    (tmp_path / "configuration" / "benchmarks.yaml").write_text("smoke:\n")
    use(monkeypatch, tmp_path)
    assert videomme("store", "pull", str(source.root)).status == 0
    pushed = videomme("store", "push", str(tmp_path / "target"))
    assert (pushed.status, "Copied 3 files" in pushed.err) == (0, True), pushed.err
    assert "3 tables are intact" in videomme("cache", "verify", str(tmp_path / "target")).err
    commands = {
        "target": ("store", "push"),
        "source": ("store", "pull"),
        "store": ("cache", "verify"),
    }
    for title, command in commands.items():
        refused = videomme(*command, "unknown://bucket").failed_with
        assert refused.startswith(f"{title} unknown://bucket: ")
    (tmp_path / "target" / "smoke" / "questions.parquet").write_bytes(b"PAR1")
    verified = videomme("cache", "verify", str(tmp_path / "target"))
    assert (verified.status, "1 are not" in verified.err) == (1, True)
