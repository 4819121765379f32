"""The servers that each model had, as far as they report what they are.

The first server that is seen for a model is that of the answers that are already stored: it does
not change the identity of the model. Any other server does, so that its answers are separate. If
an earlier server returns, its answers are valid again. A value that is unknown is no difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import AwareDatetime, TypeAdapter, ValidationError
from upath import UPath

from videomme_pipeline.errors import DamagedFileError
from videomme_pipeline.fingerprint import canonical_json, fingerprint
from videomme_pipeline.models.endpoint.remote import RemoteSpec
from videomme_pipeline.models.identity import ServerIdentity
from videomme_pipeline.models.spec import AnyModelSpec, ModelSpec
from videomme_pipeline.responses.response import Response
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.publish import publish


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenServer:
    """A server of a model. `key` is the hash of its identity when it was first seen, at `since`."""

    key: str
    since: AwareDatetime
    identity: ServerIdentity

    def label(self, response: Response) -> Response:
        """`response` with what is known about this server, if it is the one that answered.

        Nothing is known about the server of an answer from before this one was first seen.
        """
        answered_at = response.served.answered_at
        if answered_at is None or answered_at < self.since:
            return response
        return replace(response, server=canonical_json(self.identity.known))


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The file of a model, with its servers, the current one first."""

    model: str
    servers: list[SeenServer]
    checksum: str = ""

    def checked(self) -> "_File":
        """This content with its checksum."""
        content = _FILE.dump_json(replace(self, checksum=""), exclude_none=True)
        return replace(self, checksum=fingerprint(content.decode()))


_FILE = TypeAdapter(_File)


class ServerRecord:
    """One small file per model in the data folder with the model's servers, current one first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, list[SeenServer]] = {}
        """By the fingerprint of the model."""

    def invalidate(self) -> None:
        """Drop what was read, because files may have changed."""
        self._seen = {}

    def seen(self, spec: RemoteSpec) -> list[SeenServer]:
        """The servers of a model, the current one first.

        Raises:
            DamagedFileError: if their file is damaged. It cannot be rebuilt.
        """
        model = _fingerprint(spec)
        if model not in self._seen:
            self._seen[model] = _read(self._store.servers(model))
        return self._seen[model]

    def with_server(self, spec: AnyModelSpec) -> AnyModelSpec:
        """`spec` with its current server in the identity.

        The first server ever seen is left out, so that stored answers stay valid.
        """
        if not isinstance(spec, RemoteSpec):
            return spec
        seen = self.seen(spec)
        if not seen or seen[0] is _first(seen):
            return spec.with_server(None)
        return spec.with_server(seen[0].key)

    def server_of(self, spec: ModelSpec) -> SeenServer | None:
        """The server in the identity of `spec`, or the first server. None if none was seen."""
        if not isinstance(spec, RemoteSpec):
            return None
        seen = self.seen(spec)
        if not seen or spec.server is None:
            return _first(seen) if seen else None
        return next(server for server in seen if server.key == spec.server)

    def record(
        self, spec: RemoteSpec, identity: ServerIdentity, now: datetime, *, is_stored: bool = True
    ) -> None:
        """Record that the server of `spec` is now the one with this identity.

        A plan does not store it, since a plan writes nothing. It is valid until `invalidate` then.
        """
        seen = self.seen(spec)
        same = (server for server in seen if not server.identity.differences(identity))
        recorded = next(same, None)
        if recorded is None:
            current = SeenServer(key=fingerprint(identity), since=now, identity=identity)
        else:
            current = replace(recorded, identity=recorded.identity.completed_by(identity))
        others = [server for server in seen if server is not recorded]
        model, now_seen = _fingerprint(spec), [current, *others]
        self._seen[model] = now_seen
        path = self._store.servers(model)
        if is_stored and now_seen != _read(path):
            file = _File(model=spec.name, servers=now_seen).checked()
            publish(path, _FILE.dump_json(file, indent=2, exclude_none=True))


def _fingerprint(spec: RemoteSpec) -> str:
    """The fingerprint of a model with its first server."""
    return spec.with_server(None).fingerprint


def _read(path: UPath) -> list[SeenServer]:
    if not path.exists():
        return []
    problem = "its checksum does not match"
    try:
        file = _FILE.validate_json(path.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
    else:
        if file == file.checked():
            return file.servers
    raise DamagedFileError(
        f"{path}: the record of the model's servers is damaged ({problem}); "
        "if the server is still the first one that this model had, delete the file; otherwise "
        "restore it"
    )


def _first(seen: Sequence[SeenServer]) -> SeenServer:
    return min(seen, key=lambda server: server.since)
