"""Facts that a running server reports about itself, at the endpoints of the engine.

Sources: the references of vLLM, SGLang, llama.cpp and Ollama. Other servers report nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import orjson

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.endpoints import Profile
from videomme_pipeline.models.endpoint.served import SilentServerError, get, list_models
from videomme_pipeline.models.identity import ServerIdentity, text_hash

LOOK_SECONDS = 2.0
"""A plan must not wait long for a server that is down."""
_MAX_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class _Report:
    """A path of an engine, and the values in its JSON object, by their names in an identity."""

    path: str
    values: Mapping[str, str]


_REPORTS: Mapping[Profile, tuple[_Report, ...]] = {
    Profile.VLLM: (_Report("/version", {"version": "version"}),),
    Profile.SGLANG: tuple(
        _Report(
            path,
            {
                "version": "version",
                "model": "model_path",
                "revision": "revision",
                "dtype": "dtype",
                "quantization": "quantization",
            },
        )
        for path in ("/server_info", "/get_server_info")  # newer and older versions
    ),
    Profile.LLAMA_CPP: (
        _Report(
            "/props",
            {
                "version": "build_info",
                "model": "model_path",
                "chat_template_hash": "chat_template",
            },
        ),
    ),
    Profile.OLLAMA: (_Report("/api/version", {"version": "version"}),),
}


def reports_identity(profile: Profile) -> bool:
    """True if servers of this family report what they are."""
    return profile in _REPORTS


def reported_identity(
    base_url: str, profile: Profile, served_name: str, api_key: str | None
) -> ServerIdentity | None:
    """Facts that the server at `base_url` reports, or None without an answer or without facts."""
    root = base_url.rstrip("/").removesuffix("/v1")
    values: dict[str, str] = {}
    for report in _REPORTS.get(profile, ()):
        try:
            content = orjson.loads(get(root + report.path, api_key, LOOK_SECONDS))
        except SilentServerError:
            return None
        except (ModelError, orjson.JSONDecodeError):
            continue
        if isinstance(content, dict):
            values |= dict(_read(report, content))
    if profile is Profile.VLLM and values:
        values |= _served_weights(base_url, served_name, api_key)
    return ServerIdentity.of({"engine": profile.value, **values}) if values else None


def _read(report: _Report, content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, key in report.values.items():
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
