"""Token rules of families, compared with the processors of transformers.

VIDEOMME_VLLM is the folder of a virtual environment with torch, torchvision and transformers, such
as that of vLLM.
"""

import json
import random
import subprocess

import pytest

from tests.support.paths import ROOT
from tests.support.real_vllm import ENVIRONMENT, is_installed
from videomme_pipeline.models.endpoint.endpoints import FramesAs
from videomme_pipeline.models.endpoint.frame_tokens import frame_tokens

pytestmark = [pytest.mark.slow, pytest.mark.engine]

USUAL = [(1920, 1080), (1080, 1920), (1280, 720), (640, 360), (448, 252), (448, 448), (100, 1400)]
MARKS = {"kimi_k25": 4, "minicpmv4_6": 6, "smolvlm2-500m": 0, "smolvlm2-2.2b": 0}
"""Tokens around a picture, which are two in the other families."""


def test_frames_cost_the_tokens_that_the_processors_count() -> None:
    if not is_installed():
        pytest.skip("VIDEOMME_VLLM does not name an environment with vLLM")
    chance = random.Random(1)
    sizes = [*USUAL, *((chance.randint(64, 2_000), chance.randint(64, 2_000)) for _ in range(60))]
    script = str(ROOT / "tests" / "support" / "processor_tokens.py")
    command = [f"{ENVIRONMENT}/bin/python", script, json.dumps(sizes)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    counted = json.loads(ended.stdout.splitlines()[-1])
    assert {"qwen3_vl", "qwen2_5_vl", "internvl"} <= counted.keys()
    videos = counted.pop("llava_onevision")
    as_video = FramesAs.FRAME_SEQUENCE
    ours = [frame_tokens("llava_onevision", size, 8, frames_as=as_video) for size in sizes]
    assert ours == videos
    for family, tokens in counted.items():
        ours = [(frame_tokens(family, size) or 0) - MARKS.get(family, 2) for size in sizes]
        assert dict(zip(sizes, ours, strict=True)) == dict(zip(sizes, tokens, strict=True)), family
