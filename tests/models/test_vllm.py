"""Real vLLM as a managed server, with a tiny Qwen2.5-VL and a tiny Qwen3-VL.

The weights are random, so the answers are meaningless. Frames, tokens, errors and reports are those
of vLLM. VIDEOMME_VLLM is the folder of a virtual environment with vLLM, such as its build for CPUs.
"""

import asyncio
import io
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.builders import write_video
from tests.support.made_up_requests import request, videos
from tests.support.paths import ROOT
from tests.support.servers import server_at
from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import Frame
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import (
    Decoding,
    FailureKind,
    Reply,
    Request,
    ResponseFailure,
)
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan
from videomme_pipeline.serving.configuration import LocalServers
from videomme_pipeline.videos.container import index_packets

pytestmark = pytest.mark.slow

CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
ARGS: dict[str, Any] = {
    "dtype": "float32",
    "enforce-eager": True,
    "max-model-len": 32_768,
    "max-num-seqs": 16,
    "enable-prompt-tokens-details": True,
}
SQUARES = {"qwen2_5_vl": 28, "qwen3_vl": 32}
"""Side in pixels of the square that costs one token."""
FAMILIES = {"qwen2_5_vl": "qwen2_vl", "qwen3_vl": "qwen3_vl"}
"""The rule by which the video processor of a model takes frames."""
FPS, SECONDS, SIZE = 10, 40, (160, 120)


@dataclass(frozen=True)
class Served:
    """A running vLLM with a tiny model."""

    family: str
    name: str
    urls: tuple[str, ...]
    folder: Path
    serve: LocalServers

    def spec(self, **values: object) -> EndpointSpec:
        entry = {"name": self.name, "base_url": self.urls[0], "profile": "vllm", **values}
        return EndpointSpec.model_validate(entry)

    async def ask(self, example: Request, **values: object) -> Reply:
        (reply,) = await self.ask_all([example], **values)
        return reply

    async def ask_all(self, examples: Sequence[Request], **values: object) -> list[Reply]:
        """The replies to requests that are sent at the same time."""
        model = OpenAICompatibleModel(self.spec(**values))
        try:
            return await asyncio.gather(*map(model.respond, examples))
        finally:
            await model.close()


def start(
    folder: Path, family: str, args: Mapping[str, object] = {}, *, replicas: int = 1
) -> Iterator[Served]:
    """Servers of a tiny model, with weights and logs in `folder`."""
    environment = os.environ.get("VIDEOMME_VLLM")
    if environment is None or not Path(environment, "bin", "vllm").exists():
        pytest.skip("VIDEOMME_VLLM does not name an environment with vLLM")
    weights = folder / "weights"
    maker = ROOT / "tests" / "support" / "tiny_qwen_vl.py"
    command = [f"{environment}/bin/python", str(maker), family, str(weights)]
    subprocess.run(command, check=True, capture_output=True)
    serve = LocalServers.model_validate(
        {
            "engine": "vllm",
            "weights": str(weights),
            "replicas": replicas,
            "gpus_per_replica": 0,
            "command": [f"{environment}/bin/vllm", "serve"],
            "args": {**ARGS, **args},
            "start_seconds": 500,
        }
    )
    name = f"{family.replace('2_5', '2.5').replace('_', '-')}-tiny"
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in CPU.items():
            patch.setenv(variable, value)
        servers = serve.start(name, folder, lambda _healthy, _total, _output: None)
    try:
        yield Served(family, name, servers.urls, folder, serve)
    finally:
        servers.close()


@pytest.fixture(scope="module", params=sorted(SQUARES))
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """vLLM as `serve` starts it, once with each model."""
    folder = tmp_path_factory.mktemp("vllm")
    limits = {
        "limit-mm-per-prompt": {"image": 8, "video": 1},
        "allowed-local-media-path": str(folder),
    }
    yield from start(folder, request.param, limits)


@pytest.fixture(scope="module")
def distrustful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """vLLM without the options for settings of frames, pictures and local files."""
    args = {"trust-request-mm-kwargs": False, "limit-mm-per-prompt": {"image": 4, "video": 0}}
    yield from start(tmp_path_factory.mktemp("vllm"), "qwen3_vl", args)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    width, height = SIZE
    return write_video(
        folder / "moving.mp4", frames=SECONDS * FPS, fps=FPS, width=width, height=height
    )


def with_frames(count: int, seconds_apart: float = 2.0) -> Request:
    """A request with real pictures."""
    width, height = SIZE
    example = request(frames=count)
    picture = _picture(width, height)
    frames = tuple(
        Frame(
            requested_seconds=number * seconds_apart,
            pts_seconds=number * seconds_apart,
            index=round(number * seconds_apart * FPS),
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
        decoding=Decoding(max_tokens=4, constrain_answer=True),
    )


def _picture(width: int, height: int) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(sink, "JPEG")
    return sink.getvalue()


def with_video(video: Path, sampling: str) -> Request:
    """A request with a video, whose frames are those that the sampling plans."""
    choice = parse_sampling(sampling).choose(index_packets(video))
    example = with_frames(len(choice.frames))
    return replace(example, frames=replace(example.frames, source=video, sampling=sampling))


def text_and_frames(reply: Reply) -> tuple[int, int]:
    assert reply.usage.prompt_tokens is not None
    assert reply.usage.text_tokens is not None
    return reply.usage.text_tokens, reply.usage.prompt_tokens - reply.usage.text_tokens


def squares(served: Served) -> int:
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
    served: Served, video: Path, sampling: str
) -> None:
    example = with_video(video, sampling.format(rule=FAMILIES[served.family]))
    reply = await served.ask(example, frames_as="native")
    pairs = ceil(len(example.frames.frames) / 2)
    _, tokens = text_and_frames(reply)
    if served.family == "qwen2_5_vl":
        assert tokens == pairs * squares(served) + 2
    else:
        shortest, longest = len("<0.0 seconds>"), len("<39.0 seconds>")
        assert pairs * (squares(served) + 2 + shortest) <= tokens - 2
        assert tokens - 2 <= pairs * (squares(served) + 2 + longest)
    assert reply.warning is None
    assert reply.text in "ABCD"


@pytest.mark.parametrize("frames_as", ["images", "video", "files"])
async def test_frames_arrive_in_each_form(served: Served, frames_as: str) -> None:
    folder = served.folder / "100% of #1"
    folder.mkdir(exist_ok=True)
    values: dict[str, Any] = {"frames_as": frames_as}
    if frames_as == "files":
        values["shared_folder"] = folder
    reply = await served.ask(with_frames(8), **values)
    _, tokens = text_and_frames(reply)
    least = served.spec(**values).frame_tokens(SIZE, 8)
    assert least is not None
    assert least < tokens <= least + 8 * 10
    assert reply.warning is None


async def test_dropped_frames_are_counted(served: Served, video: Path) -> None:
    example = with_video(video, "uniform_n-32-endpoints")
    ignored = {"media_io_kwargs": {"video": {"num_frames": 32, "fps": -1}}}
    reply = await served.ask(example, frames_as="native", extra_body=ignored)
    assert "32 frames of 160 × 120 pixels" in (reply.warning or "")


async def test_the_server_reports_itself_and_the_options_of_serve_are_known(
    served: Served,
) -> None:
    reported = served.spec().reported_server()
    assert reported is not None
    known = served.serve.server_identity(None)
    assert (reported.version or "").startswith("0.")
    assert (known.version or "").startswith(reported.version or "?")
    assert (known.dtype, reported.model) == ("float32", known.model)


TOO_LARGE: list[tuple[Request, dict[str, Any], str]] = [
    (with_frames(9), {}, "At most 8 image"),
    (
        replace(with_frames(1), prompt=replace(request().prompt, text="long " * 9_000)),
        {},
        "maximum context length",
    ),
]


@pytest.mark.parametrize(("example", "values", "text"), TOO_LARGE)
async def test_prompts_that_are_too_large_are_never_asked_again(
    served: Served, example: Request, values: dict[str, Any], text: str
) -> None:
    with pytest.raises(ResponseFailure, match=text) as raised:
        await served.ask(example, max_model_len=10**9, **values)
    assert raised.value.kind is FailureKind.TOO_LARGE


async def test_frames_that_are_too_large_are_never_asked_again(served: Served, video: Path) -> None:
    side, with_videos = SQUARES[served.family], with_video(video, "fps_based-10")
    # All pictures of a video share the limits of Qwen3-VL.
    of_video = 400 if served.family == "qwen3_vl" else 1
    context = "exceeds model's maximum context length"
    for example, pictures, frames_as, text in [
        (
            with_videos,
            250 * of_video,
            "native",
            f"{context}|exceeds the pre-allocated encoder cache",
        ),
        (with_frames(8), 6_000, "images", context),
    ]:
        size = {"shortest_edge": pictures * side**2, "longest_edge": 2 * pictures * side**2}
        with pytest.raises(ResponseFailure, match=text) as raised:
            await served.ask(
                example,
                frames_as=frames_as,
                extra_body={"mm_processor_kwargs": {"size": size}},
                max_model_len=10**9,
            )
        assert raised.value.kind is FailureKind.TOO_LARGE


async def test_what_no_question_can_pass_ends_the_run(served: Served, tmp_path: Path) -> None:
    sound = replace(with_frames(1).frames, sound=b"RIFF")
    cases: list[tuple[Request, dict[str, Any], str]] = [
        (replace(with_frames(1), decoding=Decoding(max_tokens=40_000)), {}, "a shorter context"),
        (replace(with_frames(1), frames=sound), {"audio": True}, "accepts no sound"),
        (with_frames(1), {"model": "another"}, "has no model 'another'"),
        (with_frames(1), {"frames_as": "files", "shared_folder": tmp_path}, "cannot read"),
    ]
    for example, values, text in cases:
        with pytest.raises(ModelError, match=text):
            await served.ask(example, **values)


async def test_a_server_without_the_options_says_which_ones(
    distrustful: Served, video: Path, tmp_path: Path
) -> None:
    cases: list[tuple[Request, dict[str, Any], str]] = [
        (with_video(video, "fps_based-1"), {"frames_as": "native"}, "--trust-request-mm-kwargs"),
        (with_frames(4), {"frames_as": "video"}, "--trust-request-mm-kwargs"),
        (
            with_frames(4),
            {"extra_body": {"mm_processor_kwargs": {"size": {"longest_edge": 10**6}}}},
            "--trust-request-mm-kwargs",
        ),
        (
            with_frames(4),
            {"frames_as": "files", "shared_folder": tmp_path},
            "HTTP 500.*--allowed-local-media-path",
        ),
    ]
    for example, values, text in cases:
        with pytest.raises(ModelError, match=text):
            await distrustful.ask(example, **values)


async def test_concurrent_questions_about_a_video_are_answered(served: Served) -> None:
    examples = [replace(with_frames(8), repeat=repeat) for repeat in range(16)]
    replies = await served.ask_all(examples)
    assert {reply.text for reply in replies} <= set("ABCD")
    assert max(reply.usage.cached_tokens or 0 for reply in replies) > 0


@pytest.fixture
def two_replicas(tmp_path: Path) -> Iterator[Served]:
    yield from start(tmp_path, "qwen3_vl", replicas=2)


def test_a_replica_that_is_killed_in_the_middle_of_a_run_loses_no_answer(
    two_replicas: Served, tmp_path: Path
) -> None:
    model = build_model(two_replicas.spec(base_url=two_replicas.urls), {})
    plan = RequestPlan(
        evaluation="test",
        decoding=Decoding(max_tokens=4, constrain_answer=True),
        limits=Limits(concurrency=4),
    )
    requests = videos(20, frames=4, load=lambda _: with_frames(4).frames)
    responses = []
    with Journal(tmp_path / "journal") as journal:
        for response in collect(requests, model, journal, plan):
            responses.append(response)
            if len(responses) == 10:
                server_at(two_replicas.urls[0]).kill()
    assert len(responses) == len({response.question_id for response in responses}) == 60
    assert [response.error for response in responses if response.error] == []
    assert {response.warning for response in responses} == {None}
