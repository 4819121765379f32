"""Real vLLM as a managed server, with a tiny Qwen2.5-VL and a tiny Qwen3-VL.

The weights are random, so the answers are meaningless. Frames, tokens, errors and reports are those
of vLLM. VIDEOMME_VLLM is the folder of a virtual environment with vLLM, such as its build for CPUs.
"""

import ast
import io
import json
import re
import wave
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from tests.support.builders import write_video
from tests.support.made_up_requests import request, videos
from tests.support.paths import ROOT
from tests.support.real_vllm import VllmServer, is_installed, running_vllm
from tests.support.servers import server_at
from videomme_pipeline.errors import ModelError, Status
from videomme_pipeline.frames.cache import Frame, WholeVideo
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint import client
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.frame_tokens import TIME_TOKENS
from videomme_pipeline.models.endpoint_probe import probe
from videomme_pipeline.models.identity import release_of
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import (
    FailureKind,
    Generation,
    Reply,
    Request,
    ResponseFailure,
)
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.serving.replicas import free_ports
from videomme_pipeline.videos.container import index_packets

pytestmark = [pytest.mark.slow, pytest.mark.engine]

SQUARES = {"qwen2_5_vl": 28, "qwen3_vl": 32}
"""Side in pixels of the square that costs one token."""
FAMILIES = {"qwen2_5_vl": "qwen2_vl", "qwen3_vl": "qwen3_vl"}
"""The rule by which the video processor of a model takes frames."""
TOKENS_PER_SECOND = 25
"""Tokens of sound, as Qwen2.5-Omni hears it."""
FPS, SECONDS, SIZE, LARGE = 10, 40, (160, 120), (854, 480)


def start(folder: Path, family: str, **options: Any) -> Iterator[VllmServer]:
    if not is_installed():
        pytest.skip("VIDEOMME_VLLM does not name an environment with vLLM")
    with running_vllm(folder, family, **options) as served:
        yield served


@pytest.fixture(scope="module", params=sorted(SQUARES))
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    """vLLM as `serve` starts it, once with each model."""
    folder = tmp_path_factory.mktemp("vllm")
    limits = {
        "limit-mm-per-prompt": {"image": 8, "video": 1},
        "allowed-local-media-path": str(folder),
    }
    yield from start(folder, request.param, args=limits)


@pytest.fixture(scope="module")
def distrustful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """vLLM with a limit of pixels, without options for settings of frames and for local files."""
    args = {"trust-request-mm-kwargs": False, "limit-mm-per-prompt": {"image": 4, "video": 1}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES", "1000000")
        yield from start(tmp_path_factory.mktemp("vllm"), "qwen3_vl", args=args)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    width, height = SIZE
    return write_video(
        folder / "moving.mp4", frames=SECONDS * FPS, fps=FPS, width=width, height=height
    )


@pytest.fixture(scope="module")
def large_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    width, height = LARGE
    return write_video(folder / "large.mp4", frames=20, fps=FPS, width=width, height=height)


def with_frames(count: int, size: tuple[int, int] = SIZE) -> Request:
    """A request with real pictures, which are 2 seconds apart."""
    width, height = size
    example = request(frames=count)
    picture = _picture(width, height)
    frames = tuple(
        Frame(
            requested_seconds=number * 2.0,
            pts_seconds=number * 2.0,
            index=number * 2 * FPS,
            is_keyframe=True,
            width=width,
            height=height,
            picture=picture,
        )
        for number in range(count)
    )
    return replace(
        example,
        frames=replace(example.frames, frames=frames),
        generation=Generation(max_tokens=4, constrain_answer=True),
    )


def _picture(width: int, height: int) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(sink, "JPEG")
    return sink.getvalue()


def with_video(video: Path, sampling: str, size: tuple[int, int] = SIZE) -> Request:
    """A request with a video, whose frames are those that the sampling plans."""
    index = index_packets(video)
    chosen = parse_sampling(sampling)
    numbers = chosen.choose(index.times).frames
    example = with_frames(len(numbers))
    frames = tuple(
        replace(frame, index=number, pts_seconds=float(index.seconds[number]))
        for frame, number in zip(example.frames.frames, numbers, strict=True)
    )
    whole = WholeVideo(path=video, size=size, sampling=chosen)
    return replace(example, frames=replace(example.frames, frames=frames, video=whole))


def text_and_frames(reply: Reply) -> tuple[int, int]:
    assert reply.usage.prompt_tokens is not None
    assert reply.usage.text_tokens is not None
    return reply.usage.text_tokens, reply.usage.prompt_tokens - reply.usage.text_tokens


def squares(served: VllmServer) -> int:
    side = SQUARES[served.family]
    return round(SIZE[0] / side) * round(SIZE[1] / side)


@pytest.mark.parametrize(
    "sampling",
    [
        "uniform_n-8-endpoints",
        "uniform_n-32-endpoints",
        "fps_based-1",
        "fps_based-1-max-8",
        "fps_based-0.5-max-64",
        "{rule}-1",
        "{rule}-2-max-16",
        "{rule}-0.1-min-6-max-64",
    ],
)
async def test_a_video_costs_exactly_the_tokens_of_the_planned_frames(
    served: VllmServer, video: Path, sampling: str
) -> None:
    example = with_video(video, sampling.format(rule=FAMILIES[served.family]))
    reply = await served.ask(example, frames_as="video_file")
    pairs = ceil(len(example.frames.frames) / 2)
    _, tokens = text_and_frames(reply)
    of_time = TIME_TOKENS if served.family == "qwen3_vl" else 0
    assert tokens == pairs * (squares(served) + of_time) + len(("start", "end"))
    assert reply.warning is None
    assert reply.text in "ABCD"


@pytest.mark.parametrize("limits", ["", ".patches-{side}-min-4096-max-200000"])
async def test_frames_of_a_large_video_have_the_size_that_the_engine_gives_them(
    served: VllmServer, large_video: Path, limits: str
) -> None:
    side = "28" if served.family == "qwen2_5_vl" else "32-video"
    sampling = "uniform_n-8-endpoints" + limits.format(side=side)
    example = with_video(large_video, sampling, LARGE)
    reply = await served.ask(example, frames_as="video_file")
    _, tokens = text_and_frames(reply)
    assert tokens == served.spec(frames_as="video_file").tokens_of(example.frames)
    assert reply.warning is None


async def test_the_probe_counts_the_frames_of_each_sampling(served: VllmServer) -> None:
    samplings = [f"{FAMILIES[served.family]}-1", "uniform_n-8-endpoints", "fps_based-2-max-30"]
    spec = served.spec(frames_as="video_file")
    findings = await probe(spec, OpenAICompatibleModel(spec), samplings)
    counted = {finding.check: finding.status for finding in findings}
    checks = ["text", *(f"frames of {sampling}" for sampling in samplings)]
    assert [counted[check] for check in checks] == [Status.OK] * 4


@pytest.mark.parametrize("frames_as", ["images", "frame_sequence"])
async def test_frames_arrive_in_each_form(served: VllmServer, frames_as: str) -> None:
    example = with_frames(8)
    reply = await served.ask(example, frames_as=frames_as)
    _, tokens = text_and_frames(reply)
    assert tokens == served.spec(frames_as=frames_as).tokens_of(example.frames)
    assert reply.warning is None


async def test_dropped_frames_are_counted(served: VllmServer, video: Path) -> None:
    example = with_video(video, "uniform_n-32-endpoints")
    ignored = {"media_io_kwargs": {"video": {"num_frames": 32, "fps": -1}}}
    reply = await served.ask(example, frames_as="video_file", extra_body=ignored)
    assert "32 frames of 160 × 120 pixels" in (reply.warning or "")


async def test_vllm_reports_the_model_and_version_it_was_started_with(
    served: VllmServer,
) -> None:
    reported = served.spec().reported_server()
    assert reported is not None
    from_options = served.serve.server_identity(None)
    assert (reported.version or "").startswith("0.")
    assert (from_options.version or "").startswith(reported.version or "?")
    assert (from_options.dtype, reported.model) == ("float32", from_options.model)
    assert (reported.system_fingerprint or "").startswith(f"vllm-{reported.version}")


def test_the_defaults_that_vllm_takes_from_the_weights_are_known(served: VllmServer) -> None:
    settings = json.loads(served.serve.server_identity(None).generation_config or "{}")
    (log,) = served.folder.glob("*.log")
    overridden = re.search(r"overridden by .*?(\{.*?\})", log.read_text("utf-8"))
    assert overridden is not None
    defaults = ast.literal_eval(overridden[1])
    assert defaults == {"repetition_penalty": 1.05, "top_k": 20}
    assert defaults.items() <= settings.items()


@dataclass(frozen=True)
class Provocation:
    """A request that the real server answers with a known error."""

    text: str
    """Part of the server's message in `known_errors.yaml`."""
    hint: str
    """Part of our own message."""
    example: Request
    values: Mapping[str, Any] = field(default_factory=dict)
    ends_run: bool = True
    since: tuple[int, int] = (0, 0)
    """The first release that does not answer the request."""
    model: type[OpenAICompatibleModel] = OpenAICompatibleModel


class ForgetfulModel(OpenAICompatibleModel):
    """A model whose shared folder is not that of the server."""

    async def _ask(self, request: Request) -> Reply:
        with mock.patch.object(client, "share_video"):
            return await super()._ask(request)


def provocations(
    served_folder: Path, elsewhere: Path, video: Path, family: str
) -> list[Provocation]:
    """The errors of a server that was started with all options."""
    sound = replace(with_frames(1).frames, sound=b"RIFF")
    many_words = replace(request().prompt, text="long " * 9_000)
    frames = "choose fewer or smaller frames"
    short = write_video(elsewhere / "one.mp4", frames=1, fps=FPS, width=SIZE[0], height=SIZE[1])
    as_file = {"frames_as": "video_file"}
    of_family = {
        "qwen2_5_vl": [
            Provocation(
                "division by zero",
                "at least two frames",
                with_video(short, "qwen2_vl-1"),
                as_file,
                ends_run=False,
            ),
        ],
        "qwen3_vl": [
            Provocation(
                "failed to apply",
                "at least two frames",
                with_video(short, "fps_based-1"),
                as_file,
                ends_run=False,
            ),
            # All pictures of a video share the limits. Qwen2.5-VL has a larger cache.
            Provocation(
                "exceeds the pre-allocated encoder cache size",
                "--max-num-batched-tokens",
                with_video(video, "fps_based-10"),
                as_file | sized(pixels=52_000 * SQUARES["qwen3_vl"] ** 2),
                ends_run=False,
            ),
        ],
    }
    return [
        *of_family[family],
        Provocation(
            "cannot be greater than max_model_len",
            "lower `max_tokens`",
            replace(with_frames(1), generation=Generation(max_tokens=40_000)),
        ),
        Provocation(
            "at most 0 audio",
            "remove `audio`",
            replace(with_frames(1), frames=sound),
            {"audio": True},
        ),
        Provocation(
            "must be a subpath of",
            "--allowed-local-media-path",
            with_video(video, "fps_based-1"),
            {"frames_as": "video_file", "shared_folder": elsewhere},
        ),
        Provocation(
            "[errno 2] no such file or directory",
            "the same path on the machine of the server",
            with_video(video, "fps_based-1"),
            {"frames_as": "video_file", "shared_folder": served_folder / "of another machine"},
            model=ForgetfulModel,
        ),
        Provocation(
            "may be provided in one prompt",
            "--limit-mm-per-prompt",
            with_frames(9),
            ends_run=False,
        ),
        Provocation(
            "maximum context length is",
            frames,
            replace(with_frames(1), prompt=many_words),
            ends_run=False,
        ),
        Provocation(
            "exceeds model's maximum context length",
            frames,
            with_frames(8),
            sized(pixels=6_000 * SQUARES[family] ** 2),
            ends_run=False,
        ),
    ]


def provocations_of_distrustful(video: Path, folder: Path) -> list[Provocation]:
    """The errors of a server that was started without options."""
    return [
        Provocation(
            "per-request media_io_kwargs are disabled",
            "--trust-request-mm-kwargs",
            with_video(video, "fps_based-1"),
            {"frames_as": "video_file"},
        ),
        Provocation(
            "per-request media_io_kwargs are disabled",
            "--trust-request-mm-kwargs",
            with_frames(4),
            {"frames_as": "frame_sequence"},
        ),
        Provocation(
            "per-request mm_processor_kwargs are disabled",
            "--trust-request-mm-kwargs",
            with_frames(4),
            sized(pixels=10**6),
        ),
        Provocation(
            "request decoded media exceeds",
            "VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES=0",
            with_frames(1, LARGE),
            ends_run=False,
            since=(0, 33),
        ),
        Provocation(
            "cannot load local files without",
            "HTTP 500.*--allowed-local-media-path",
            with_video(video, "fps_based-1"),
            {
                "frames_as": "video_file",
                "shared_folder": folder,
                "extra_body": {"media_io_kwargs": None},
            },
        ),
    ]


def provocation_without_videos() -> Provocation:
    """The error of a server for pictures and sound."""
    return Provocation(
        "at most 0 video", "--limit-mm-per-prompt", with_frames(4), {"frames_as": "frame_sequence"}
    )


def sized(pixels: int) -> dict[str, Any]:
    """Settings that enlarge pictures to at least this number of pixels."""
    size = {"shortest_edge": pixels, "longest_edge": 2 * pixels}
    return {"extra_body": {"mm_processor_kwargs": {"size": size}}}


async def provoke(served: VllmServer, provoked: Provocation) -> None:
    release = release_of(served.serve.server_identity(None).version)
    assert release is not None
    if release < provoked.since:
        assert (await served.ask(provoked.example, **provoked.values)).warning is None
        return
    error = ModelError if provoked.ends_run else ResponseFailure
    model = provoked.model(served.spec(max_model_len=10**9, **provoked.values))
    try:
        with pytest.raises(error, match=f"(?is){re.escape(provoked.text)}") as raised:
            await model.respond(provoked.example)
    finally:
        await model.close()
    assert re.search(provoked.hint, str(raised.value), re.DOTALL), str(raised.value)
    if isinstance(raised.value, ResponseFailure):
        assert raised.value.kind in (FailureKind.TOO_LARGE, FailureKind.REJECTED)


async def test_errors_of_the_table(served: VllmServer, video: Path, tmp_path: Path) -> None:
    for provoked in provocations(served.folder, tmp_path, video, served.family):
        await provoke(served, provoked)
    with pytest.raises(ModelError, match="has no model 'another'"):
        await served.ask(with_frames(1), model="another")


async def test_errors_of_a_server_without_options(
    distrustful: VllmServer, video: Path, tmp_path: Path
) -> None:
    for provoked in provocations_of_distrustful(video, tmp_path):
        await provoke(distrustful, provoked)


def test_every_text_of_vllm_in_the_table_is_provoked(video: Path, tmp_path: Path) -> None:
    table = (ROOT / "videomme_pipeline/models/endpoint/known_errors.yaml").read_text("utf-8")
    marked = {text.strip('"') for text in re.findall(r"- (.*?)  # vLLM .*0\.3[23]", table)}
    cases = [case for name in SQUARES for case in provocations(tmp_path, tmp_path, video, name)]
    cases += [*provocations_of_distrustful(video, tmp_path), provocation_without_videos()]
    assert marked == {provoked.text for provoked in cases}


async def test_concurrent_questions_about_a_video_are_answered(served: VllmServer) -> None:
    examples = [replace(with_frames(8), repeat=repeat) for repeat in range(16)]
    replies = await served.ask_all(examples)
    assert {reply.text for reply in replies} <= set("ABCD")
    assert max(reply.usage.cached_tokens or 0 for reply in replies) > 0


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """vLLM with a model that hears. Its environment needs `soundfile`."""
    args = {"limit-mm-per-prompt": {"image": 8, "audio": 1, "video": 0}}
    yield from start(tmp_path_factory.mktemp("vllm"), "qwen2_5_omni", args=args)


async def test_sound_arrives_beside_the_frames(hearing: VllmServer) -> None:
    silent = with_frames(4)
    reply = await hearing.ask(silent)
    _, tokens = text_and_frames(reply)
    pictures = hearing.spec().frame_tokens(SIZE, 4)
    assert tokens == pictures
    counts = []
    for seconds in (1, 2, 4):
        heard = replace(silent.frames, sound=sound_of(seconds))
        reply = await hearing.ask(replace(silent, frames=heard), audio=True)
        counts.append(reply.usage.prompt_tokens or 0)
        assert text_and_frames(reply)[1] == pictures
        assert reply.warning is None
    one_second, two, four = counts
    assert (two - one_second, four - two) == (TOKENS_PER_SECOND, 2 * TOKENS_PER_SECOND)


async def test_a_server_for_pictures_and_sound_rejects_videos(hearing: VllmServer) -> None:
    await provoke(hearing, provocation_without_videos())


def sound_of(seconds: int) -> bytes:
    """A WAV file with a tone."""
    sink = io.BytesIO()
    tone = np.sin(np.arange(16_000 * seconds) / 20) * 9_000
    with wave.open(sink, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(tone.astype("<i2").tobytes())
    return sink.getvalue()


@pytest.fixture(scope="module")
def two_replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    yield from start(tmp_path_factory.mktemp("vllm"), "qwen3_vl", replicas=2)


@pytest.mark.parametrize("frames_as", ["images", "frame_sequence", "video_file"])
def test_servers_that_are_killed_in_the_middle_of_a_run_lose_no_answer(
    two_replicas: VllmServer, video: Path, tmp_path: Path, frames_as: str
) -> None:
    """Both are killed, and are started again. A third endpoint of the model is never up."""
    (port,) = free_ports(1)
    urls = [*two_replicas.urls, f"http://127.0.0.1:{port}/v1"]
    model = build_model(two_replicas.spec(base_url=urls, frames_as=frames_as), {})
    plan = RequestPlan(
        evaluation="test",
        generation=Generation(max_tokens=4, constrain_answer=True),
        limits=Limits(concurrency=4),
    )
    frames = with_video(video, "qwen3_vl-1-max-4").frames
    if frames_as != "video_file":
        frames = with_frames(4).frames
    requests = videos(20, frames=4, load=lambda _: frames)
    responses = []
    with Journal(tmp_path / "journal") as journal:
        for response in collect(requests, model, journal, plan):
            responses.append(response)
            if len(responses) == 10:
                for url in two_replicas.urls:
                    server_at(url).kill()
    assert len(responses) == len({response.question_id for response in responses}) == 60
    assert [response.error for response in responses if response.error] == []
    assert {response.warning for response in responses} == {None}
    assert None not in {response.usage.text_tokens for response in responses}
