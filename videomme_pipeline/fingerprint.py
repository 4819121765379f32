"""Fingerprints: short hashes of everything that a result depends on.

Equal fingerprints mean equal results. A fingerprint leaves out everything that cannot change a
result, such as paths, timeouts and concurrency.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, ClassVar

from blake3 import blake3
from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

FINGERPRINT_BYTES = 12

ADDED = "added"
"""Key in the metadata of a dataclass field that was added after results had been stored. At its
default, such a field is not in fingerprints, so that earlier results remain valid."""


class Spec(BaseModel):
    """A frozen piece of configuration. Unknown keys, infinity and NaN are errors."""

    added: ClassVar[frozenset[str]] = frozenset()
    """Fields that were added after results had been stored. At its default, such a field is in
    neither fingerprints nor stored settings, so that earlier results remain valid."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def fingerprint(self) -> str:
        """Hash of every value in this spec, defaults included."""
        return fingerprint(self)

    @property
    def identifying_fields(self) -> list[str]:
        """The names of the fields that are in fingerprints and stored settings."""
        return [
            name
            for name, field in type(self).model_fields.items()
            if name not in self.added or getattr(self, name) != field.default
        ]

    @model_serializer(mode="wrap")
    def _serialize(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values = serialize(self)
        return {name: values[name] for name in self.identifying_fields if name in values}


def canonical_json(value: Any) -> str:
    """JSON that is the same for equal values: sorted keys, no spaces, no NaN.

    Raises:
        TypeError: for a value that has no canonical form, such as a set or an open file.
        ValueError: for NaN or infinity.
    """
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def fingerprint(*parts: Any, **named: Any) -> str:
    """Hash of `parts` and `named`, as 24 hexadecimal digits.

    Parts may be specs, row dataclasses, enums, mappings, sequences and JSON scalars.
    """
    text = canonical_json([list(parts), named])
    return blake3(text.encode()).hexdigest(length=FINGERPRINT_BYTES)


_SCALARS = frozenset({str, int, float, bool, type(None)})
"""The types of most values. Subclasses, such as members of enums, are handled below."""


def _plain(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str | int | float):
        return value
    return {name: _plain(getattr(value, name)) for name in _fields(value)}


def _fields(value: Any) -> list[str]:
    if isinstance(value, Spec):
        return value.identifying_fields
    if isinstance(value, BaseModel):
        return list(type(value).model_fields)
    if is_dataclass(value) and not isinstance(value, type):
        return [
            field.name
            for field in fields(value)
            if ADDED not in field.metadata or getattr(value, field.name) != field.default
        ]
    raise TypeError(f"no canonical form for {type(value).__name__}: {value!r}")
