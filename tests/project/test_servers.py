"""Answers that become stale because another server answers."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.journal_rows import answer
from videomme_pipeline.errors import DamagedFileError
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.identity import ServerIdentity
from videomme_pipeline.project.servers import ServerRecord
from videomme_pipeline.responses.response import Served
from videomme_pipeline.storage.layout import Store

START = datetime(2026, 11, 1, tzinfo=UTC)
SPEC = EndpointSpec.model_validate(
    {"name": "served", "profile": "vllm", "base_url": "http://localhost:8000/v1"}
)
OLD = ServerIdentity(engine="vllm", version="0.33.0")
NEW = ServerIdentity(engine="vllm", version="0.34.0")


@pytest.fixture
def record(tmp_path: Path) -> ServerRecord:
    return ServerRecord(Store.at(tmp_path))


def fingerprint_with(record: ServerRecord, identity: ServerIdentity, day: int = 0) -> str:
    """Fingerprint of the model when its server reports `identity`."""
    record.record(SPEC, identity, START + timedelta(days=day))
    record.invalidate()
    return record.with_server(SPEC).fingerprint


def test_the_first_server_keeps_the_fingerprint_of_the_entry(record: ServerRecord) -> None:
    assert record.with_server(SPEC).fingerprint == SPEC.fingerprint
    assert fingerprint_with(record, OLD) == SPEC.fingerprint


def test_another_server_changes_the_fingerprint_until_the_first_returns(
    record: ServerRecord,
) -> None:
    fingerprint_with(record, OLD)
    changed = fingerprint_with(record, NEW, day=1)
    assert changed != SPEC.fingerprint
    assert fingerprint_with(record, OLD, day=2) == SPEC.fingerprint
    assert fingerprint_with(record, NEW, day=3) == changed


def test_a_value_that_becomes_known_or_unknown_is_no_change(record: ServerRecord) -> None:
    fingerprint_with(record, ServerIdentity(engine="vllm"))
    changed = [
        fingerprint_with(record, identity)
        for identity in (OLD, ServerIdentity(), replace(OLD, dtype="bfloat16"), OLD)
    ]
    assert set(changed) == {SPEC.fingerprint}
    assert record.seen(SPEC)[0].identity == replace(OLD, dtype="bfloat16")
    second = fingerprint_with(record, NEW)
    assert fingerprint_with(record, replace(NEW, dtype="float16")) == second


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"servers": [{"key": 1}]}'], ids=str)
def test_the_error_names_a_damaged_record(
    record: ServerRecord, tmp_path: Path, content: bytes
) -> None:
    fingerprint_with(record, OLD)
    (path,) = Store.at(tmp_path).servers(SPEC.fingerprint).iterdir()
    path.write_bytes(content)
    record.invalidate()
    with pytest.raises(DamagedFileError, match="the record of a model's server is damaged"):
        record.with_server(SPEC)


def test_no_flipped_bit_of_a_record_is_taken_over(record: ServerRecord, tmp_path: Path) -> None:
    fingerprint_with(record, OLD)
    fingerprint_with(record, NEW)
    (folder,) = Store.at(tmp_path).servers(SPEC.fingerprint).parent.iterdir()
    path = max(folder.iterdir())
    content, servers = path.read_bytes(), record.seen(SPEC)
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(flipped))
        record.invalidate()
        try:
            assert record.seen(SPEC) == servers, "a blank between two values"
        except DamagedFileError:
            continue


def test_an_answer_has_the_server_that_was_seen_before_the_answer(
    record: ServerRecord,
) -> None:
    def label(hours: int) -> str | None:
        answered = Served(answered_at=START + timedelta(hours=hours))
        response = replace(answer("f"), served=answered)
        return record.label(record.with_server(SPEC), response).server

    assert record.server_of(SPEC) is None
    fingerprint_with(record, OLD)
    assert label(-1) is None
    assert label(1) == '{"engine":"vllm","version":"0.33.0"}'
    fingerprint_with(record, NEW, day=1)
    assert label(30) == '{"engine":"vllm","version":"0.34.0"}'


def test_the_key_of_the_first_server_is_in_the_names_of_files(record: ServerRecord) -> None:
    assert record.keys(SPEC) == [None]
    fingerprint_with(record, OLD)
    (first,) = record.keys(SPEC)
    fingerprint_with(record, NEW, day=1)
    assert first is not None
    assert record.keys(SPEC) != [first]


def test_the_records_of_two_folders_describe_one_server_under_both_keys(tmp_path: Path) -> None:
    little, more = ServerIdentity(engine="vllm"), replace(OLD, dtype="bfloat16")
    folders = [tmp_path / name for name in ("a", "b")]
    for folder, identity in zip(folders, (little, more), strict=True):
        ServerRecord(Store.at(folder)).record(SPEC, identity, START)
    a, b = (Path(Store.at(folder).servers(SPEC.fingerprint).path) for folder in folders)
    for path in b.iterdir():
        shutil.copy(path, a)
    merged = ServerRecord(Store.at(folders[0]))
    merged.record(SPEC, more, START + timedelta(days=1))
    assert len(merged.keys(SPEC)) == 2
