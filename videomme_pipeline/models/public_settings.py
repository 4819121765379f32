"""Settings for texts and files that other people read."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from videomme_pipeline.models.identity import read_identity

_OF_MODEL = ("kind", "profile", "name", "model", "revision", "engine", "version")
"""The keys that identify the model. The others have addresses, paths, prices, names of variables
with keys, and limits."""


def public_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an evaluation that are safe to publish: of models, only `_OF_MODEL`."""
    return {key: _public(key, value) for key, value in settings.items()}


def public_server(stored: str) -> str:
    """The identity of a server as text, with the name of the folder for a path of weights."""
    identity = read_identity(stored)
    return str(replace(identity, model=identity.model and _name(identity.model)))


def _public(key: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if key != "model":
        return public_settings(value)
    kept = {name: value[name] for name in _OF_MODEL if value.get(name) is not None}
    return kept | ({"model": _name(kept["model"])} if "model" in kept else {})


def _name(weights: str) -> str:
    """The name of a model on a hub, such as `Qwen/Qwen3-VL-8B`, or the last part of a path."""
    path = PurePath(weights)
    return path.name if path.is_absolute() or weights.startswith((".", "~")) else weights
