"""Endpoints that take the frames from videos: one that is down is down, and nothing else."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.builders import write_video
from tests.support.made_up_requests import frame_set, letters, videos
from tests.support.model_server import ModelServer
from tests.support.ports import free_port
from tests.support.video_requests import rejection
from videomme_pipeline.errors import EndpointDownError, ModelError
from videomme_pipeline.frames.cache import FrameSet, WholeVideo
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.responses.collect import AskingProgress, collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.responses.response import Response

VERSION = {"/version": {"version": "0.32.0"}}


@pytest.fixture
def video(tmp_path: Path) -> WholeVideo:
    path = write_video(tmp_path / "video.mp4", frames=20)
    return WholeVideo(path=path, size=(320, 240), sampling=parse_sampling("fps_based-1"))


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    """A function that starts a server of vLLM, which the test may stop itself."""
    with ExitStack() as stack:

        def start(port: int = 0, **reports: object) -> ModelServer:
            server = ModelServer(port=port, check=rejection, reports=reports or dict(VERSION))
            return stack.enter_context(server)

        yield start


def entry(urls: Sequence[str], **values: object) -> EndpointSpec:
    fields = {"name": "served", "profile": "vllm", "frames_as": "video_file", "base_url": urls}
    return EndpointSpec.model_validate({**fields, "limits": {"concurrency": 2}, **values})


def ask(
    spec: EndpointSpec,
    video: WholeVideo,
    folder: Path,
    on_progress: Callable[[AskingProgress], None] | None = None,
) -> list[Response]:
    def load(number: int) -> FrameSet:
        return replace(frame_set(number), video=video)

    plan = RequestPlan(evaluation="test", limits=spec.limits)
    with Journal(folder / "journal") as journal:
        model = build_model(spec, {})
        asked = collect(videos(12, load=load), model, journal, plan, on_progress=on_progress)
        return list(asked)


def test_a_server_that_restarts_answers_all_questions(
    video: WholeVideo, tmp_path: Path, serve: Callable[..., ModelServer]
) -> None:
    first = ModelServer(check=rejection, reports=dict(VERSION)).__enter__()
    restarted: list[ModelServer] = []
    was_down = False

    def restart(progress: AskingProgress) -> None:
        nonlocal was_down
        if progress.answered >= 10 and not was_down:
            was_down = True
            first.__exit__(None, None, None)
        elif progress.outage_seconds and not restarted:
            restarted.append(serve(first.port))

    responses = ask(entry([first.base_url]), video, tmp_path, restart)
    assert len(letters(responses)) == 36
    assert all(response.raw_output for response in responses)
    assert restarted[0].answered


def test_one_of_two_endpoints_that_is_never_up_is_not_asked(
    video: WholeVideo, tmp_path: Path, serve: Callable[..., ModelServer]
) -> None:
    server = serve()
    urls = [f"http://127.0.0.1:{free_port()}/v1", server.base_url]
    responses = ask(entry(urls), video, tmp_path)
    assert all(response.raw_output for response in responses)
    assert server.answered.total() == 36


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_endpoints_that_are_all_down_are_said_to_be_down(
    video: WholeVideo, tmp_path: Path, count: int
) -> None:
    urls = [f"http://127.0.0.1:{free_port()}/v1" for _ in range(count)]
    with pytest.raises(EndpointDownError, match="is the server up") as raised:
        ask(entry(urls), video, tmp_path)
    assert "version" not in str(raised.value)


def test_the_version_behind_a_gateway_can_be_stated(
    video: WholeVideo, tmp_path: Path, serve: Callable[..., ModelServer]
) -> None:
    gateway = serve(**{"/version": {"name": "a gateway"}})
    with pytest.raises(ModelError, match=r"reports no version.*`engine_version`"):
        ask(entry([gateway.base_url]), video, tmp_path)
    stated = entry([gateway.base_url], engine_version="0.32.0")
    assert len(letters(ask(stated, video, tmp_path))) == 36
    sent = gateway.requests[-1].body["media_io_kwargs"]["video"]
    assert sent["video_backend"] == "opencv", "as versions from 0.24 on need"
    old = entry([gateway.base_url], engine_version="0.20.0")
    assert old.fingerprint != stated.fingerprint
