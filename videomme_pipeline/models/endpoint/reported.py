"""Facts that a running server reports about itself, at the paths of its profile."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

import orjson

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.endpoints import PROFILES, Profile
from videomme_pipeline.models.endpoint.served import SilentServerError, get, list_models
from videomme_pipeline.models.identity import ServerIdentity, text_hash

LOOK_SECONDS = 2.0
"""A plan must not wait long for a server that is down."""
_MAX_CHARACTERS = 500


def reported_identity(
    base_url: str, profile: Profile, served_name: str, api_key: str | None
) -> ServerIdentity | None:
    """Facts that the server at `base_url` reports, or None without an answer or without facts."""
    root = base_url.rstrip("/").removesuffix("/v1")
    values: dict[str, str] = {}
    for path, keys in PROFILES[profile].reports.items():
        try:
            content = orjson.loads(get(root + path, api_key, LOOK_SECONDS))
        except SilentServerError:
            return None
        except (ModelError, orjson.JSONDecodeError):
            continue
        if isinstance(content, dict):
            values |= dict(_read(keys, content))
    if profile is Profile.VLLM and values:
        values |= _served_weights(base_url, served_name, api_key)
    return ServerIdentity.of({"engine": profile.value, **values}) if values else None


def _read(keys: Mapping[str, str], content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, key in keys.items():
        value = content.get(key)
        if isinstance(value, str) and value:
            yield name, text_hash(value) if name.endswith("_hash") else value[:_MAX_CHARACTERS]


def _served_weights(base_url: str, served_name: str, api_key: str | None) -> dict[str, str]:
    """The weights that vLLM lists for a model."""
    with suppress(ModelError):
        for served in list_models(base_url, api_key):
            if served.id == served_name and served.root:
                return {"model": served.root[:_MAX_CHARACTERS]}
    return {}
