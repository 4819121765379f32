"""The weights that a managed server loads, and what identifies them."""

import json
from pathlib import Path

import pytest

from videomme_pipeline.errors import ModelError
from videomme_pipeline.serving.weights import find_weights, weights_identity


def find(weights: Path | str) -> str:
    return find_weights(str(weights))


def checkpoint(folder: Path, content: bytes = b"weights") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"torch_dtype": "bfloat16"}))
    (folder / "model.safetensors").write_bytes(content)
    return folder


def test_a_folder_or_a_repository_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    assert find(folder) == str(folder)
    assert find("Qwen/Qwen3-VL-8B-Instruct") == "Qwen/Qwen3-VL-8B-Instruct"
    with pytest.raises(ModelError, match="no such file or folder"):
        find(tmp_path / "missing")


def test_every_file_of_the_weights_that_changes_answers_is_in_their_identity(
    tmp_path: Path,
) -> None:
    first = checkpoint(tmp_path / "a", content=b"x" * 3_000_000)
    identity = weights_identity(str(first), None)
    assert (identity.model, identity.dtype) == (str(first), "bfloat16")
    same = weights_identity(str(first), None)
    assert not identity.differences(same)
    (first / "model.safetensors").write_bytes(b"y" * 3_000_000)
    assert identity.differences(weights_identity(str(first), None)).keys() == {"weights_hash"}
    (first / "chat_template.jinja").write_text("{{ messages }}")
    (first / "preprocessor_config.json").write_text('{"max_pixels": 1}')
    (first / "config.json").write_text('{"quantization_config": {"quant_method": "awq"}}')
    defaults = {"top_k": 20, "transformers_version": "5.19.0"}
    (first / "generation_config.json").write_text(json.dumps(defaults))
    changed = weights_identity(str(first), None)
    assert (changed.quantization, changed.generation_config) == ("awq", '{"top_k": 20}')
    assert None not in (changed.chat_template_hash, changed.processor_hash)
    assert identity.differences(changed).keys() == {"config_hash", "weights_hash"}


def test_a_repository_that_is_not_in_the_cache_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = weights_identity("org/no-such-model", "v1")
    assert identity.known == {"model": "org/no-such-model", "revision": "v1"}


def test_an_engine_gets_the_url_of_weights_in_an_object_store() -> None:
    url = "s3://bucket/run/checkpoint-20"
    assert find_weights(url) == url
    assert weights_identity(url, None).model == url
