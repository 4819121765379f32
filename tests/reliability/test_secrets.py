"""A key is planted in the environment, and nothing that is written or started may contain it."""

import base64
import gzip
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.made_up_requests import videos
from tests.support.model_server import ModelServer, always
from tests.support.odd_replies import Completion, OddReply, http
from tests.support.paths import ROOT
from tests.support.projects import WriteServed
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.processes.secrets import Redaction
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan

KEY = "sk-canary-Zm9v/bar+0123456789"
VARIABLE = "WHERE_MY_MODEL_LIVES"
"""A name that does not look like that of a key: only models.yaml says that it is one."""

_ERROR = b'{"error": {"message": "Incorrect API key provided: %s", "code": "%s"}}'
_IN_JSON = KEY.replace("/", "\\/").encode()
_IN_BASE64 = base64.b64encode(b"Authorization: Bearer " + KEY.encode())


def _error(status: str, key: bytes = KEY.encode()) -> OddReply:
    return OddReply(status, lambda _: http(_ERROR % (key, key), status), is_answer=False)


def _repeat_in_answer(completion: Completion) -> bytes:
    message = {"content": f"B, as {KEY} says", "reasoning": KEY}
    choice = {"message": message, "finish_reason": KEY}
    fields = {"choices": [choice], "model": KEY, "system_fingerprint": KEY, "usage": {KEY: KEY}}
    return http(str(fields).replace("'", '"').encode(), headers={"X-Key": KEY})


ENDPOINTS: Mapping[str, OddReply] = {
    "bad-request": _error("400 Bad Request"),
    "bad-request-in-json": _error("400 Bad Request", _IN_JSON),
    "bad-request-in-base64": _error("400 Bad Request", _IN_BASE64),
    "unauthorized": _error("401 Unauthorized"),
    "forbidden": _error("403 Forbidden"),
    "unknown": _error("404 Not Found"),
    "broken": _error("500 Error"),
    "busy": _error("429 Too Many Requests"),
    "answered": OddReply("answered", _repeat_in_answer, is_answer=True),
    "no-json": OddReply("no JSON", lambda _: http(KEY.encode()), is_answer=False),
    "moved": OddReply(
        "moved",
        lambda _: http(b"", "302 Found", {"Location": f"http://127.0.0.1:9/{KEY}"}),
        is_answer=False,
    ),
    "no-http": OddReply("no HTTP", lambda _: f"HTTP {KEY}\r\n\r\n".encode(), is_answer=False),
}


def test_the_journal_does_not_contain_a_key_that_an_endpoint_repeats(tmp_path: Path) -> None:
    plan = RequestPlan(evaluation="test", limits=Limits(max_attempts=2))
    for name in ("bad-request", "answered", "no-http"):
        with ModelServer(faults=always(ENDPOINTS[name])) as server:
            spec = EndpointSpec(name="served", base_url=server.base_url, limits=plan.limits)
            model = OpenAICompatibleModel(spec, api_key=KEY)
            with Journal(tmp_path / "journal.sqlite") as journal:
                responses = list(collect(videos(1), model, journal, plan))
        assert not re.search(re.escape(KEY), repr(responses))
        assert "[key removed]" in repr(responses)
        assert where_the_key_is(tmp_path) == []


@pytest.mark.slow
def test_the_search_finds_a_key_in_compressed_files(tmp_path: Path) -> None:
    text = f"a line with {KEY} " * 50
    pq.write_table(pa.table({"text": [text]}), tmp_path / "a.parquet", compression="zstd")
    with duckdb.connect(str(tmp_path / "b.duckdb")) as database:
        database.execute("create table words as select ? as text", [text])
    packed = base64.b64encode(gzip.compress(text.encode() + os.urandom(500)))
    (tmp_path / "c.html").write_bytes(b"<script>" + packed + b"</script>")
    assert {name.partition(":")[0] for name in where_the_key_is(tmp_path)} == {
        "a.parquet",
        "b.duckdb",
        "c.html",
    }


@pytest.mark.slow
def test_the_key_is_in_nothing_that_a_run_writes_prints_or_starts(
    root: Path, write_served: WriteServed, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(ModelServer(faults=always(reply)))
            for name, reply in ENDPOINTS.items()
        }
        write_project(root, write_served, {n: server.base_url for n, server in servers.items()})
        environment = {
            **os.environ,
            VARIABLE: KEY,
            "OPENAI_API_KEY": KEY,
            "VIDEOMME_CONFIGURATION": str(root / "configuration"),
            "VIDEOMME_DATA": str(root / "data"),
            "DAGSTER_HOME": str(root / "home"),
            "PYTHONPATH": str(ROOT),
        }
        printed = b""
        for number, command in enumerate(COMMANDS):
            with (root / f"printed-{number}").open("wb") as output:
                process = subprocess.Popen(
                    [
                        str(Path(sys.executable).with_name("videomme")),
                        *command.format(root).split(),
                    ],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=root,
                )
                children_with_the_key = watch_children(process)
            printed += (root / f"printed-{number}").read_bytes()
            assert children_with_the_key == set(), command
        assert all(server.request_count for server in servers.values())
        assert {
            received.headers["authorization"] for s in servers.values() for received in s.requests
        } == {f"Bearer {KEY}"}
    assert printed.count(b"[key removed]") > len(ENDPOINTS)
    assert b"Traceback" not in printed
    assert where_the_key_is(root) == []


COMMANDS = (
    "run",
    "status --reasons",
    "doctor",
    "report --output {}/page.html",
    "report --share --output {}/share.html",
    "export answered",
)


def write_project(root: Path, write_served: WriteServed, urls: Mapping[str, str]) -> None:
    """One evaluation per endpoint, of which two show frames."""
    with_frames = ("answered", "bad-request")
    write_served(
        "http://127.0.0.1:9/v1",
        {
            name: {"benchmark": "videomme", "model": name}
            | ({"sampling": "uniform_n-4"} if name in with_frames else {})
            for name in urls
        },
    )
    limits = "limits: {max_attempts: 1}"
    (root / "configuration" / "models.yaml").write_text(
        "".join(
            f"{name}: {{base_url: '{url}', api_key_env: {VARIABLE}, {limits}}}\n"
            for name, url in urls.items()
        )
    )


STARTED_BY_OTHERS = ("tail -F", "watch_orphans.py", "uname -p", "file -b")
"""Dagster starts the first two to copy the log of a step, and Python's `platform` the others. They
have the environment of the step, which asks models."""


def watch_children(process: "subprocess.Popen[bytes]") -> set[str]:
    """Wait for `process`. Return the command lines of its children that had the key."""
    commands = set()
    parent = psutil.Process(process.pid).cmdline()
    while process.poll() is None:
        for child in _children(process.pid):
            try:
                arguments, variables = child.cmdline(), child.environ()
            except psutil.Error:
                continue
            command = " ".join(arguments)
            is_ours = not any(name in command for name in STARTED_BY_OTHERS)
            is_started = arguments != parent  # a new process is a copy of its parent for a moment
            if KEY in command or (KEY in str(variables) and is_ours and is_started):
                commands.add(command)
        time.sleep(0.02)
    return commands


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def where_the_key_is(folder: Path) -> list[str]:
    """Names of the files in `folder` that contain the key, also if it is compressed."""
    redaction = Redaction(KEY)
    return [
        f"{path.relative_to(folder)}: {part}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for part, data in contents_of(path)
        if KEY.encode() in data or redaction.redact_bytes(data) != data
    ]


def contents_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """The bytes of a file, and what it contains in other forms."""
    data = path.read_bytes()
    yield "bytes", data
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        yield "table", repr(table.to_pylist()).encode()
        yield "footer", repr(table.schema.metadata).encode()
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as connection:
            yield from _rows_of(connection, "select table_name from information_schema.tables")
    elif data.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
            yield from _rows_of(file, "select name from sqlite_master where type = 'table'")
    for blob in re.findall(rb"[A-Za-z0-9+/=]{200,}", data):
        packed = base64.b64decode(blob[: len(blob) // 4 * 4])
        if packed.startswith(b"\x1f\x8b"):
            yield "packed", gzip.decompress(packed)


def _rows_of(connection: Any, tables: str) -> Iterator[tuple[str, bytes]]:
    for (name,) in connection.execute(tables).fetchall():
        yield name, repr(connection.execute(f'select * from "{name}"').fetchall()).encode()
