"""Facts that a running server reports: its models, version and settings.

A field in the JSON of an endpoint that is not needed is None if its value has a wrong type. NUL
characters are removed from text, because databases and terminals end a text there.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, TypeVar

import orjson
import pydantic
from pydantic import AfterValidator, AliasPath, BaseModel, Field, ValidationError, WrapValidator

from videomme_pipeline.errors import ModelError
from videomme_pipeline.models.endpoint.endpoints import PROFILES, Profile
from videomme_pipeline.models.identity import ServerIdentity, text_hash
from videomme_pipeline.processes.secrets import Redaction

TIMEOUT_SECONDS = 5.0
CONNECT_SECONDS = 1.5
"""A run checks its endpoints first. An endpoint that is down must not delay the run."""
SILENT_SECONDS = 3.5
"""Time for the list of models, after which a server counts as silent. A run asks twice."""
LOOK_SECONDS = 2.0
"""Time for a report of a server. A plan must not wait long for a server that is down."""
MAX_BYTES = 2**20
_MAX_CHARACTERS = 500
MAX_TOKENS = 2**63 - 1
"""The largest token count that a database stores."""


def _or_none(value: object, validate: pydantic.ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        return None


AnyType = TypeVar("AnyType")
Text = Annotated[str, AfterValidator(lambda text: text.replace("\0", ""))]
OrNone = Annotated[AnyType | None, WrapValidator(_or_none)]
Tokens = OrNone[Annotated[int, Field(ge=0, le=MAX_TOKENS)]]


class Fields(BaseModel):
    """Fields of a JSON object. Values of another type are not converted."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True)


class ServerDownError(ModelError):
    """A server cannot be reached, answers too late, or only with an internal error (5xx)."""


class SilentServerError(ServerDownError):
    """A server that accepted a connection did not answer in time."""


class ServedModel(BaseModel):
    """One model in the list of an endpoint."""

    id: str
    owned_by: OrNone[Text] = None
    """The name of the engine, at engines that report it."""
    root: OrNone[Text] = None
    """The path or name of the weights that vLLM reports."""
    max_model_len: OrNone[int] = None
    """The context that vLLM and SGLang report."""
    max_input_tokens: OrNone[int] = None
    """The context that a LiteLLM proxy reports."""
    n_ctx: OrNone[int] = Field(default=None, validation_alias=AliasPath("meta", "n_ctx"))
    """The context that llama.cpp reports."""

    @property
    def context_tokens(self) -> int | None:
        """The most tokens of prompt and answer together, or None if no limit is reported."""
        return self.max_model_len or self.max_input_tokens or self.n_ctx


class _List(BaseModel):
    data: list[ServedModel]


def list_models(base_url: str, api_key: str | None) -> list[ServedModel]:
    """The models of `GET {base_url}/models`, sorted by name. Raises ModelError without a list."""
    try:
        models = _List.model_validate_json(get(f"{base_url.rstrip('/')}/models", api_key)).data
    except (ModelError, ValidationError) as error:
        problem = Redaction(api_key).redact(str(error).partition("\n")[0])
        raise ModelError(
            f"{base_url} does not list its models ({problem}); is the server up, and does base_url "
            "end in /v1?"
        ) from None  # the error may contain the key
    return sorted(models, key=lambda model: model.id)


def is_silent(base_url: str, api_key: str | None) -> bool:
    """True if a server accepts a connection and then sends nothing."""
    try:
        get(f"{base_url.rstrip('/')}/models", api_key, SILENT_SECONDS)
    except ModelError as error:
        return isinstance(error, SilentServerError)
    return False


def get(
    url: str,
    api_key: str | None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    *,
    posted: Mapping[str, object] | None = None,
) -> bytes:
    """The content of `url`, without the key, and cut after `MAX_BYTES`. JSON can be `posted`.

    Raises ModelError if it cannot be read, which is a ServerDownError if the server is down.
    """
    import httpx2  # noqa: PLC0415 - takes 0.3 s, and only few commands need it

    redaction = Redaction(api_key)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx2.stream(
            "GET" if posted is None else "POST",
            url,
            headers=headers,
            json=posted,
            timeout=httpx2.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            follow_redirects=True,
        ) as response:
            response.raise_for_status()
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_BYTES:
                    break  # JSON that was cut is not JSON
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        problem = redaction.redact(f"{type(error).__name__}: {error}".partition("\n")[0])
        kind: type[ModelError] = ModelError
        if isinstance(error, httpx2.ReadTimeout):
            kind = SilentServerError
        elif isinstance(error, httpx2.TransportError) or (
            isinstance(error, httpx2.HTTPStatusError) and error.response.is_server_error
        ):
            kind = ServerDownError
        raise kind(problem) from None  # the error may contain the key
    return redaction.redact_bytes(content)


def reported_values(base_url: str, profile: Profile, api_key: str | None) -> dict[str, str]:
    """The values that a server reports, by name. Raises ServerDownError if it is down."""
    root, values = base_url.rstrip("/").removesuffix("/v1"), dict[str, str]()
    for path, keys in PROFILES[profile].reports.items():
        try:
            content = orjson.loads(get(root + path, api_key, LOOK_SECONDS))
        except ServerDownError:
            raise
        except (ModelError, orjson.JSONDecodeError):
            continue
        if isinstance(content, dict):
            values |= _read(keys, content)
    return values


def reported_identity(
    base_url: str, profile: Profile, served_name: str, api_key: str | None
) -> ServerIdentity | None:
    """Facts that the server at `base_url` reports, or None without an answer or without facts."""
    try:
        values = reported_values(base_url, profile, api_key)
    except ServerDownError:
        return None
    if PROFILES[profile].reports_in_answers and values:
        with suppress(ModelError):
            weights = {served.id: served.root for served in list_models(base_url, api_key)}
            if root := weights.get(served_name):
                values["model"] = root[:_MAX_CHARACTERS]
        # The hash of the configuration comes with each answer, so ask for one token.
        question = {"role": "user", "content": "."}
        body = {"model": served_name, "messages": [question], "max_tokens": 1}
        url = f"{base_url.rstrip('/')}/chat/completions"
        with suppress(ModelError, orjson.JSONDecodeError):
            answer = orjson.loads(get(url, api_key, LOOK_SECONDS, posted=body))
            values |= _read({"system_fingerprint": "system_fingerprint"}, answer)
    return ServerIdentity(engine=profile, **values) if values else None


def _read(keys: Mapping[str, str], content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, key in keys.items():
        value = content.get(key)
        if isinstance(value, dict):
            value = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        if isinstance(value, str) and value:
            yield name, text_hash(value) if name.endswith("_hash") else value[:_MAX_CHARACTERS]
