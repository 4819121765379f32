"""The command lines of engines, and the versions of installed ones."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.models.catalog import Catalog
from videomme_pipeline.models.endpoint.endpoints import ENGINES, Engine
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.serving.configuration import LocalServers
from videomme_pipeline.serving.engines import installed_version, options


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (
            "vllm",
            "vllm serve org/m --served-model-name mine --revision v1 --tensor-parallel-size 2 "
            "--host 127.0.0.1 --port 8000 --max-model-len 4096",
        ),
        (
            "sglang",
            "python -m sglang.launch_server --model-path org/m --served-model-name mine "
            "--revision v1 --tp-size 2 --host 127.0.0.1 --port 8000 --max-model-len 4096",
        ),
        (
            "lmdeploy",
            "lmdeploy serve api_server org/m --model-name mine --revision v1 --tp 2 "
            "--server-name 127.0.0.1 --server-port 8000 --max-model-len 4096",
        ),
        (
            "llama_cpp",
            "llama-server --model org/m --alias mine --host 127.0.0.1 --port 8000 "
            "--max-model-len 4096",
        ),
        (
            "transformers",
            "transformers serve org/m --host 127.0.0.1 --port 8000 --max-model-len 4096",
        ),
    ],
)
def test_the_command_of_each_engine(engine: str, expected: str) -> None:
    serve = LocalServers(
        engine=engine,
        weights="org/m",
        revision="v1",
        gpus_per_replica=2,
        args={"max-model-len": 4096},
    )
    assert " ".join(serve.command_line("org/m", "mine", 8000)) == expected


def test_transformers_with_one_gpu_does_not_use_the_cpu_instead() -> None:
    serve = LocalServers(engine="transformers", weights="org/m", args={"device": "xpu"})
    command = serve.command_line("org/m", "mine", 8000)
    devices = [after for name, after in pairwise(command) if name == "--device"]
    assert devices == ["cuda", "xpu"], "the last one is used"


def test_the_values_of_options_can_be_lists_and_mappings() -> None:
    args = {"a": True, "b": False, "c": None, "d": [1, 2], "e": {"image": 3}, "f": 0.5}
    assert list(options(args)) == ["--a", "--d", "1", "2", "--e", '{"image": 3}', "--f", "0.5"]


def test_the_version_is_that_of_the_package_of_the_program() -> None:
    pytest_engine = Engine(command=("pytest",), package="pytest")
    script = str(Path(sys.executable).parent / "pytest")
    assert installed_version(pytest_engine, script) == pytest.__version__
    assert installed_version(pytest_engine, sys.executable) == pytest.__version__
    assert installed_version(pytest_engine, "no-such-program") is None
    other = Engine(command=("pytest",), package="no-such-package")
    assert installed_version(other, script) is None


def test_a_program_that_starts_vllm_elsewhere_is_asked_for_its_version(tmp_path: Path) -> None:
    def command_of(printed: str) -> list[str]:
        wrapper = tmp_path / "start.sh"
        wrapper.write_text(f"#!/bin/sh\n{printed}\n")
        wrapper.chmod(0o755)
        serve = LocalServers(engine="vllm", weights="org/m", command=(str(wrapper), "serve"))
        return serve.command_line("org/m", "mine", 8000)

    assert "--trust-request-mm-kwargs" in command_of("echo vllm 0.32.0+cpu")
    assert "--trust-request-mm-kwargs" not in command_of("echo 0.30.2")
    assert "--trust-request-mm-kwargs" not in command_of("echo no such option >&2; exit 2")


def test_the_family_of_a_managed_model_is_that_of_its_weights(tmp_path: Path) -> None:
    def tokens(weights: str, **values: object) -> int | None:
        serve = {"engine": "vllm", "weights": weights}
        entry = EndpointSpec.model_validate({"name": "mine", "serve": serve, **values})
        return entry.frame_tokens((448, 252))

    tuned = tmp_path / "step-500"
    tuned.mkdir()
    (tuned / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    assert tokens(str(tuned)) == tokens("Qwen/Qwen2.5-VL-7B-Instruct") == 16 * 9 + 2
    assert tokens(str(tuned), family="qwen3_vl") == 14 * 8 + 2
    assert tokens("org/unknown") is None
    with pytest.raises(ValueError, match="did you mean"):
        tokens("org/unknown", family="qwen2_5_v")


def test_an_entry_has_the_profile_of_its_engine() -> None:
    for engine in ENGINES:
        serve = {"engine": engine, "weights": "org/m"}
        entry = EndpointSpec.model_validate({"name": "mine", "serve": serve})
        assert entry.profile == engine
    serve = {"engine": "vllm", "weights": "org/m"}
    entry = EndpointSpec.model_validate({"name": "mine", "serve": serve})
    assert entry.profile == "vllm"
    assert entry.key_variables == ()
    other = EndpointSpec.model_validate({"name": "mine", "serve": serve, "profile": "generic"})
    assert other.profile == "generic"
    with pytest.raises(ValueError, match="remove one"):
        EndpointSpec.model_validate({"name": "mine", "serve": serve, "base_url": "http://a/v1"})


def test_the_error_for_a_wrong_key_names_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("mine:\n  serve: {engin: vllm, weights: org/m}\n")
    with pytest.raises(ConfigurationError, match=r"model mine: `serve` .* did you mean `engine`"):
        Catalog.read(path).find("mine")


def test_everything_about_a_server_that_can_change_an_answer_is_in_the_identity() -> None:
    def fingerprint(**changes: object) -> str:
        serve = {"engine": "vllm", "weights": "org/m", **changes}
        return EndpointSpec.model_validate({"name": "mine", "serve": serve}).fingerprint

    assert fingerprint(replicas=2, command=["/opt/vllm", "serve"], start_seconds=5) == fingerprint()
    changes: list[dict[str, object]] = [
        {"engine": "sglang"},
        {"weights": "org/n"},
        {"revision": "v1"},
        {"gpus_per_replica": 2},
        {"args": {"dtype": "float16"}},
    ]
    assert len({fingerprint(), *(fingerprint(**change) for change in changes)}) == 6
