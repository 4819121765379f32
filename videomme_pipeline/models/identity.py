"""The identity of a server, with every known fact that can change an answer, and what is public."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

from blake3 import blake3

HASH_BYTES = 12
"""Length of a hash in an identity."""
_OF_MODEL = ("kind", "profile", "name", "model", "revision", "engine", "version")
"""The keys that identify the model. The others have addresses, paths, prices, names of variables
with keys, and limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerIdentity:
    """Facts that a server and the files of the weights report. None means unknown.

    `model` is the path or name of the weights, and `revision` their commit. The hashes are of
    `config.json`, samples of the weights, the chat template, and the configuration of the
    processor. `generation_config` has the defaults of parameters that a request does not set.
    `system_fingerprint` is vLLM's hash of its own configuration.
    """

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    revision: str | None = None
    config_hash: str | None = None
    weights_hash: str | None = None
    chat_template_hash: str | None = None
    processor_hash: str | None = None
    generation_config: str | None = None
    system_fingerprint: str | None = None
    dtype: str | None = None
    quantization: str | None = None

    @property
    def known(self) -> dict[str, str]:
        """The values that are known, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def completed_by(self, other: "ServerIdentity") -> "ServerIdentity":
        """This identity, with the values of `other` where its own are unknown."""
        return ServerIdentity(**{**other.known, **self.known})

    def differences(self, other: "ServerIdentity") -> dict[str, tuple[str, str]]:
        """By name: the two values (own, other) that are both known and differ."""
        mine, others = self.known, other.known
        return {
            name: (mine[name], others[name])
            for name in mine
            if name in others and mine[name] != others[name]
        }

    def __str__(self) -> str:
        values = asdict(self)
        return ", ".join(f"{_title(name)} {values[name] or 'unknown'}" for name in values)


def text_hash(text: str) -> str:
    """Hash of a text, such as a chat template."""
    return blake3(text.encode()).hexdigest(length=HASH_BYTES)


def release_of(version: str | None) -> tuple[int, int] | None:
    """Major and minor number of a version such as `0.24.1rc1+cpu`, or None."""
    numbers = re.match(r"(\d+)\.(\d+)\.\d", version or "")
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def read_identity(stored: str) -> ServerIdentity:
    """The identity that is stored with a response."""
    return ServerIdentity(**json.loads(stored))


def shown_differences(differences: Mapping[str, tuple[str, str]]) -> str:
    """Differences between two servers as text."""
    return ", ".join(
        f"{_title(name)} {other} instead of {own}" for name, (own, other) in differences.items()
    )


def _title(name: str) -> str:
    return name.replace("_", " ")


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
