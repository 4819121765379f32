"""The server of the results page, over real connections and in Chromium."""

import io
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.support.made_up_results import (
    MadeUpEvaluation,
    made_up_video,
    store_evaluation,
    store_frames,
    store_questions,
    v1_questions,
)
from tests.support.page_server import running_page
from tests.support.paths import ROOT
from tests.support.stored_files import made_up_file, write_made_up
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.reports.server import PageServer
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.probe import Video

VIDEO = bytes(range(256)) * 1_000


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes


def get(server: PageServer, path: str, method: str = "GET", **headers: str) -> Answer:
    """The answer to one request; `path` is sent as it is."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    answer = Answer(response.status, dict(response.getheaders()), response.read())
    connection.close()
    return answer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two videos with an evaluation; the first one has frames and a file that is no video."""
    store = Store.at(tmp_path_factory.mktemp("served"))
    questions = v1_questions(2)
    store_questions(store, questions)
    store_evaluation(store, questions, MadeUpEvaluation(name="model-a"))
    store_frames(store, questions[0], "uniform_n-8")
    path = Path(str(store.root)) / "a video.mp4"
    path.write_bytes(VIDEO)
    row = replace(made_up_video(questions[0]), path=str(path))
    write_made_up(made_up_file(store, "videos", "videomme", video="001"), [row], Video)
    return store


@pytest.fixture(scope="module")
def server(data: Store) -> Iterator[PageServer]:
    with running_page(data) as server:
        yield server


def sheet_url(server: PageServer) -> str:
    (url,) = server.sheets
    return url


def test_a_sheet_has_the_frames_in_cells_of_one_size(server: PageServer) -> None:
    answer = get(server, sheet_url(server))
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/jpeg")
    with Image.open(io.BytesIO(answer.content)) as sheet:
        assert sheet.size == (8 * 256, 144)
        for number in range(8):
            red, _, blue = sheet.getpixel((256 * number + 128, 72))  # type: ignore[misc]
            assert abs(red - 30 * number) < 12
            assert abs(blue - (255 - 30 * number)) < 12


@pytest.mark.parametrize(
    ("requested", "status", "span"),
    [
        ("bytes=0-99", 206, range(100)),
        ("bytes=255000-", 206, range(255_000, 256_000)),
        ("bytes=-10", 206, range(255_990, 256_000)),
        ("bytes=255990-999999999", 206, range(255_990, 256_000)),
        ("bytes=256000-", 416, range(0)),
        ("bytes=9-1", 416, range(0)),
        ("bytes=-0", 206, range(256_000)),
        ("bytes=0-1,5-6", 416, range(0)),
        (f"bytes={'9' * 5_000}-", 416, range(0)),
        ("lines=1-2", 416, range(0)),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_video_is_served_in_ranges(
    server: PageServer, requested: str, status: int, span: range
) -> None:
    answer = get(server, "/videos/videomme/001", Range=requested)
    assert (answer.status, answer.content) == (status, VIDEO[span.start : span.stop])
    if status == 206:
        assert answer.headers["Content-Range"] == f"bytes {span.start}-{span.stop - 1}/256000"


def test_only_known_urls_are_served(server: PageServer) -> None:
    for path in (
        *("/videos/videomme/002", "/videos/videomme/", "/videos/", "/frames/", "/index.html"),
        *("/videos/videomme/../../../etc/passwd", "/../../etc/passwd", "//etc/passwd"),
        *("/videos/videomme/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/a%20video.mp4", "/frames/x.jpg"),
    ):
        assert get(server, path).status == 404, path
    assert get(server, "/", "POST").status == 405


def test_a_stored_page_is_served_as_it_is_now(tmp_path: Path) -> None:
    with running_page(Store.at(tmp_path)) as server:
        server.show_stored(tmp_path / "index.html")
        missing = get(server, "/")
        assert (missing.status, missing.content) == (404, b"no page yet; build it: videomme run")
        for text in ("first", "second"):
            (tmp_path / "index.html").write_text(text)
            assert get(server, "/").content == text.encode()
        assert get(server, "/", Host="example.org").status == 421


def test_other_host_names_are_refused(server: PageServer) -> None:
    for host in ("example.com", "127.0.0.1", f"example.com:{server.port}"):
        answer = get(server, "/", Host=host)
        assert answer.status == 421
        assert b"model-a" not in answer.content
    assert get(server, "/", Host=f"localhost:{server.port}").status == 200
    assert server.url == f"http://127.0.0.1:{server.port}/"


@pytest.mark.parametrize(
    "request_line", [b"GARBAGE", b"GET / HTTP/9.9", b"\x16\x03\x01", b"GET /\x00 HTTP/1.1"]
)
def test_a_bad_request_has_an_answer_and_no_traceback(
    server: PageServer, request_line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request_line + b"\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.0 400")
    assert "Traceback" not in caplog.text


def test_a_head_request_has_no_content(server: PageServer) -> None:
    answer = get(server, "/videos/videomme/001", "HEAD")
    assert (answer.status, answer.content) == (200, b"")
    assert answer.headers["Content-Length"] == str(len(VIDEO))


def test_a_used_port_is_an_error_with_advice(server: PageServer, data: Store) -> None:
    with pytest.raises(ConfigurationError, match="choose another one with --port"):
        PageServer(data, server.port)


def test_frames_that_are_gone_are_not_found(data: Store, server: PageServer) -> None:
    (key,) = server.sheets.values()
    path = data.frames(key.video_hash, key.settings)
    aside = path.rename(path.with_name("aside"))
    server.sheet.cache_clear()
    assert get(server, sheet_url(server)).status == 404
    aside.rename(path)
    assert get(server, sheet_url(server)).status == 200


def test_a_frame_plays_the_video_from_its_time(chromium: Browser, server: PageServer) -> None:
    context = chromium.new_context()
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.goto(f"{server.url}#question?id=001-1")
    expect(page.get_by_role("img", name="Frame 8 at 0:30.0")).to_be_visible()
    pictures = page.get_by_role("img", name="Frame ")
    expect(pictures).to_have_count(8)
    assert [pictures.nth(number).get_attribute("viewBox") for number in (0, 7)] == [
        *("0 0 256 144", "1792 0 256 144"),
    ]
    assert page.evaluate(
        """async () => {
            const image = new Image();
            image.src = document.querySelector("image").getAttribute("href");
            await image.decode();
            return [image.naturalWidth, image.naturalHeight];
        }"""
    ) == [2048, 144]
    assert problems == []
    with page.expect_response("**/videos/videomme/001") as response:
        page.get_by_role("button", name="Play from 0:10.0").click()
    assert response.value.status == 206
    assert page.evaluate("document.querySelector('video').currentTime") == 10
    expect(page.get_by_text("This browser cannot play the video.")).to_be_visible()
    context.close()


@pytest.mark.slow
def test_ctrl_c_ends_the_server(data: Store, tmp_path: Path) -> None:
    code = "from videomme_pipeline.cli.app import main; main()"
    command = [sys.executable, "-c", code, "report", "--serve", "--port=0"]
    process = subprocess.Popen(
        command,
        env={
            **{"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
            "VIDEOMME_DATA": str(data.root),
            "VIDEOMME_CONFIGURATION": str(ROOT / "assets"),
        },
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stderr is not None
    address = next(match for line in process.stderr if (match := re.search(r":(\d+)/", line)))
    connection = HTTPConnection("127.0.0.1", int(address[1]), timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert process.stderr.read() == "Stopped.\n"
