"""Requests with the video itself, for servers that accept only the documented forms."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import write_video
from tests.support.made_up_requests import request
from tests.support.model_server import ModelServer
from tests.support.video_requests import rejection, video_of
from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import WholeVideo
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.endpoint.body import request_body
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.reply import frames_warning
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.video_file import video_fields
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure, Usage

SENT = [
    "qwen3_vl-2-max-128.patches-32-video-min-4096-max-25165824",
    "qwen2_vl-1",
    "fps_based-1-max-64",
    "uniform_n-32-endpoints",
]


VERSION = "0.32.0"
REPORTS = {"/version": {"version": VERSION}}


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("videos") / "a video.mp4", frames=20)


def spec(**values: object) -> EndpointSpec:
    entry = {"name": "served", "profile": "vllm", "frames_as": "video_file", **values}
    return EndpointSpec.model_validate(entry).with_version(VERSION)


def with_video(video: Path, sampling: str, **values: Any) -> Request:
    example = request(**values)
    first = example.frames.frames[0]
    size = first.width, first.height
    whole = WholeVideo(path=video, size=size, sampling=parse_sampling(sampling))
    return replace(example, frames=replace(example.frames, video=whole))


async def ask(entry: EndpointSpec, example: Request) -> Reply:
    model = OpenAICompatibleModel(entry)
    try:
        return await model.respond(example)
    finally:
        await model.close()


@pytest.mark.parametrize("sampling", SENT)
def test_bodies_have_the_documented_form_and_the_video(video: Path, sampling: str) -> None:
    body = json.loads(b"".join(request_body(spec(), with_video(video, sampling)).chunks()))
    assert rejection(body) is None
    assert video_of(body) == video.read_bytes()
    assert rejection(body | {"fps": 1})


async def test_a_video_on_a_shared_disk_is_sent_as_a_path(video: Path, tmp_path: Path) -> None:
    with ModelServer(check=rejection, reports=REPORTS) as server:
        for folder in (video.parent, tmp_path / "shared"):
            entry = spec(base_url=server.base_url, shared_folder=folder)
            await ask(entry, with_video(video, "qwen2_vl-2"))
        own, copied = (received.body for received in server.requests)
        assert video_of(own) == video_of(copied) == video.read_bytes()
    (link,) = (tmp_path / "shared").iterdir()
    assert link.stem == request().frames.video_hash


def test_the_parameters_are_those_of_the_sampling() -> None:
    fields = video_fields(parse_sampling(SENT[0]), VERSION)
    limits = {"min_frames": 4, "max_frames": 128}
    assert fields == {
        "media_io_kwargs": {"video": {"num_frames": -1, "fps": 2.0, **limits}},
        "mm_processor_kwargs": {"size": {"shortest_edge": 4096, "longest_edge": 25165824}},
    }


@pytest.mark.parametrize(
    "sampling",
    [
        "keyframe-32",
        "uniform_n-32",
        "qwen2_vl-2.patches-28-total-19267584",
        "qwen_vl-2",
        "qwen2_vl-2-max-1024",
        "qwen3_vl-60",
    ],
)
def test_a_sampling_that_the_endpoint_cannot_apply_is_an_error(sampling: str) -> None:
    with pytest.raises(ModelError, match="has no parameters for these frames"):
        video_fields(parse_sampling(sampling), VERSION)


@pytest.mark.parametrize(
    ("model", "own", "other"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_vl-2", "qwen3_vl-2"),
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl-2", "qwen2_vl-2"),
    ],
)
async def test_vllm_takes_frames_by_the_rule_of_the_model_and_no_other(
    video: Path, model: str, own: str, other: str
) -> None:
    with ModelServer(check=rejection, reports=REPORTS) as server:
        entry = spec(base_url=server.base_url, model=model)
        with pytest.raises(ModelError, match="the rule of the model's processor"):
            await ask(entry, with_video(video, other))
        assert (await ask(entry, with_video(video, own))).text


@pytest.mark.parametrize("sampling", ["fps_based-1-max-8", "uniform_n-8-endpoints"])
def test_vllm_is_told_the_loader_that_counts_frames_if_it_chooses_loaders(sampling: str) -> None:
    old, new = (
        video_fields(parse_sampling(sampling), version) for version in ("0.23.0", "0.24.1rc1+cpu")
    )
    assert new["media_io_kwargs"]["video"]["video_backend"] == "opencv"
    assert "video_backend" not in old["media_io_kwargs"]["video"]


def test_old_versions_of_vllm_cannot_be_told_the_limits_of_a_rate() -> None:
    with pytest.raises(ModelError, match="has no parameters for these frames"):
        video_fields(parse_sampling("qwen2_vl-2"), "0.23.0")


@pytest.mark.parametrize("version", [None, "0.18.2", "0.1.dev1234+g0123", "main"])
def test_an_unknown_version_of_vllm_is_refused_with_the_reason(version: str | None) -> None:
    with pytest.raises(ModelError, match=r"only known for 0\.19 and later"):
        video_fields(parse_sampling("fps_based-1"), version)


async def test_frames_without_their_video_are_an_error() -> None:
    with pytest.raises(ModelError, match="without their video"):
        await ask(spec(), request())


async def test_a_video_that_is_too_large_is_never_sent(video: Path) -> None:
    with ModelServer(reports=REPORTS) as server:
        entry = spec(base_url=server.base_url, max_body_bytes=1000)
        with pytest.raises(ResponseFailure, match="shared_folder") as raised:
            await ask(entry, with_video(video, "qwen2_vl-2"))
    assert raised.value.kind is FailureKind.TOO_LARGE
    assert server.request_count == 0


@pytest.mark.parametrize(
    ("reported", "is_suspicious"), [(500, True), (1000, False), (1400, False), (5000, True)]
)
def test_a_server_that_shows_other_frames_is_reported_with_both_numbers(
    video: Path, reported: int, is_suspicious: bool
) -> None:
    example = with_video(video, "qwen2_vl-2", frames=10)
    reply = Reply(text="A", usage=Usage(prompt_tokens=reported))
    warning = frames_warning(spec(tokens_per_frame=100), example, reply)
    assert (warning is not None) == is_suspicious
    if warning is not None:
        assert "need 1,000 tokens" in warning
        assert f"reports {reported:,} prompt tokens" in warning


async def test_a_known_version_is_kept_until_another_one_is_reported(video: Path) -> None:
    example = with_video(video, "fps_based-1")
    with ModelServer(reports=dict(REPORTS)) as server:
        model = OpenAICompatibleModel(spec(base_url=server.base_url))
        for version, loader in [(None, "opencv"), ("0.20.0", None), (None, None)]:
            server.reports["/version"] = {"version": version}
            await model.close()
            await model.respond(example)
            sent = server.requests[-1].body["media_io_kwargs"]["video"]
            assert sent.get("video_backend") == loader
    with pytest.raises(ResponseFailure, match="is the server up") as raised:
        await model.respond(example)
    assert raised.value.kind is FailureKind.CONNECTION
    await model.close()
