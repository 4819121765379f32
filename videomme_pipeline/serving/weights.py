"""The weights that a managed server loads: which files they are, and what identifies them."""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from blake3 import blake3

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.identity import HASH_BYTES, ServerIdentity, text_hash

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pth", ".pt")
_PROCESSOR_FILES = (
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)
_SAMPLES, _SAMPLE_BYTES = 16, 1 << 16
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def find_weights(weights: str) -> str:
    """The absolute path of existing weights, or a repository or URL. Raises ModelError."""
    path = Path(weights).expanduser()
    if "://" in weights:
        return weights  # some engines load from object stores
    if path.exists():
        return str(path.resolve())
    if _HUB_NAME.fullmatch(weights):
        return weights
    raise ModelError(f"weights {weights}: no such file or folder; correct `serve: weights`")


def weights_identity(weights: str, revision: str | None) -> ServerIdentity:
    """Facts in the files of the weights. Files of the hub are read if they are cached."""
    folder, commit = _files_of(weights, revision)
    if folder is None or not folder.exists():
        return ServerIdentity(model=weights, revision=revision)
    if folder.is_file():
        return ServerIdentity(model=weights, weights_hash=_sampled_hash([folder]))
    weight_files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    config = _json(folder / "config.json")
    nested = _mapping(config.get("text_config"))
    method = _mapping(config.get("quantization_config")).get("quant_method")
    dtype = config.get("dtype") or config.get("torch_dtype") or nested.get("dtype")
    return ServerIdentity(
        model=weights,
        revision=commit,
        config_hash=_hash_of_files([folder / "config.json"]),
        weights_hash=None if commit else _sampled_hash(weight_files),
        chat_template_hash=_template_hash(folder),
        processor_hash=_hash_of_files([folder / name for name in _PROCESSOR_FILES]),
        generation_config=_generation_defaults(folder),
        dtype=str(dtype) if dtype else None,
        quantization=None if method is None else str(method),
    )


@lru_cache
def model_type_of(weights: str, revision: str | None) -> str:
    """The `model_type` in the `config.json` of weights, or "" if it is not known."""
    folder, _ = _files_of(weights, revision)
    return "" if folder is None else str(_json(folder / "config.json").get("model_type", ""))


def _files_of(weights: str, revision: str | None) -> tuple[Path | None, str | None]:
    """The path of weights, or the folder and commit of a repository in the cache of the hub."""
    path = Path(weights).expanduser()
    if path.exists() or not _HUB_NAME.fullmatch(weights):
        return path, None
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - slow to import

    config = try_to_load_from_cache(weights, "config.json", revision=revision)
    folder = Path(config).parent if isinstance(config, str) else None
    return folder, None if folder is None else folder.name


def _template_hash(folder: Path) -> str | None:
    for name in ("chat_template.jinja", "chat_template.json"):
        if (folder / name).exists():
            return _hash_of_files([folder / name])
    template = _json(folder / "tokenizer_config.json").get("chat_template")
    return None if template is None else text_hash(json.dumps(template))


def _generation_defaults(folder: Path) -> str | None:
    """The JSON of `generation_config.json` without the version of its writer, or None."""
    values = _json(folder / "generation_config.json")
    values.pop("transformers_version", None)
    return json.dumps(values, sort_keys=True) if values else None


def _hash_of_files(paths: Iterable[Path]) -> str | None:
    """Hash of the names and contents of the files that exist, or None if there are none."""
    existing = [path for path in paths if path.exists()]
    if not existing:
        return None
    digest = blake3()
    for path in existing:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest(length=HASH_BYTES)


def _sampled_hash(paths: Sequence[Path]) -> str | None:
    """Hash of the names, sizes and evenly spaced parts of files. Weights have many gigabytes."""
    digest = blake3()
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path.name} {size} ".encode())
        with path.open("rb") as file:
            for number in range(_SAMPLES):
                file.seek(max(size - _SAMPLE_BYTES, 0) * number // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest(length=HASH_BYTES) if paths else None


def _json(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        return _mapping(json.loads(path.read_text(encoding="utf-8")))
    return {}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
