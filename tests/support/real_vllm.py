"""Real vLLM as a managed server, with a tiny random Qwen2.5-VL, Qwen3-VL or Qwen2.5-Omni.

VIDEOMME_VLLM is the folder of a virtual environment with vLLM, such as its build for CPUs.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import Reply, Request
from videomme_pipeline.serving.configuration import LocalServers

ENVIRONMENT = os.environ.get("VIDEOMME_VLLM")
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


@dataclass(frozen=True)
class VllmServer:
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


def is_installed() -> bool:
    return ENVIRONMENT is not None and Path(ENVIRONMENT, "bin", "vllm").exists()


@contextmanager
def running_vllm(
    folder: Path, family: str, args: Mapping[str, object] = {}, **changes: object
) -> Iterator[VllmServer]:
    """Servers of a tiny model, with weights and logs in `folder`. `changes` are other settings."""
    weights = folder / "weights"
    maker = ROOT / "tests" / "support" / "tiny_qwen_vl.py"
    command = [f"{ENVIRONMENT}/bin/python", str(maker), family, str(weights)]
    subprocess.run(command, check=True, capture_output=True)
    serve = LocalServers.model_validate(
        {
            "engine": "vllm",
            "weights": str(weights),
            "gpus_per_replica": 0,
            "command": [f"{ENVIRONMENT}/bin/vllm", "serve"],
            "args": {**ARGS, **args},
            "start_seconds": 500,
            **changes,
        }
    )
    name = f"{family.replace('2_5', '2.5').replace('_', '-')}-tiny"
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in CPU.items():
            patch.setenv(variable, value)
        servers = serve.start(name, folder, lambda _healthy, _total, _output: None)
    try:
        yield VllmServer(family, name, servers.urls, folder, serve)
    finally:
        servers.close()
