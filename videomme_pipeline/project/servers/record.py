"""The servers that each model had, as far as they report what they are.

The first server that is seen for a model is that of the answers that are already stored: requests
to it have the fingerprints that they had before. Any other server changes the fingerprints of
requests, so that its answers are separate. If an earlier server returns, its answers are valid
again. A value that is unknown is no difference.

The names of files contain the key of every server, the first one included. So two folders with
different servers never share a name.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import TypeAdapter, ValidationError

from videomme_pipeline.errors import DamagedFileError
from videomme_pipeline.fingerprint import canonical_json, fingerprint
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.identity import ServerIdentity
from videomme_pipeline.models.spec import AnyModelSpec, ModelSpec
from videomme_pipeline.responses.response import Response
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.records import append_record, read_record, sequence

_IDENTITY = TypeAdapter(ServerIdentity)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenServer:
    """A server of a model. `key` is the hash of its identity when it was first seen, at `since`."""

    key: str
    since: datetime
    identity: ServerIdentity

    def label(self, response: Response) -> Response:
        """`response` with what is known about this server, unless its answer is from before."""
        answered_at = response.served.answered_at
        if answered_at is None or answered_at < self.since:
            return response
        return replace(response, server=canonical_json(self.identity.known))


class ServerRecord:
    """A sequence of records per model in the data folder, one for each change of its server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, list[SeenServer]] = {}
        """By the fingerprint of the model."""

    def invalidate(self) -> None:
        """Drop what was read, because files may have changed."""
        self._seen = {}

    def seen(self, spec: EndpointSpec) -> list[SeenServer]:
        """The servers of a model, the current one first. Raises DamagedFileError."""
        model = _fingerprint(spec)
        if model not in self._seen:
            self._seen[model] = self._read(model)
        return self._seen[model]

    def with_server(self, spec: AnyModelSpec) -> AnyModelSpec:
        """`spec` with its current server, unless it is the first: stored answers stay valid."""
        if not isinstance(spec, EndpointSpec):
            return spec
        seen = self.seen(spec)
        if not seen or seen[0] is _first(seen):
            return spec.with_server(None)
        return spec.with_server(seen[0].key)

    def keys(self, spec: ModelSpec) -> list[str | None]:
        """The keys of the records that describe the current server, for the names of files.

        The current record comes first. Others are from folders in which the same server reported
        more or less when it was first seen. [None] if no server of the model was ever seen.
        """
        seen = self.seen(spec) if isinstance(spec, EndpointSpec) else []
        if not seen:
            return [None]
        current = seen[0].identity
        return [server.key for server in seen if not server.identity.differences(current)]

    def server_of(self, spec: ModelSpec) -> SeenServer | None:
        """The server in the identity of `spec`, or the first server. None if none was seen."""
        if not isinstance(spec, EndpointSpec):
            return None
        seen = self.seen(spec)
        if not seen or spec.server is None:
            return _first(seen) if seen else None
        return next(server for server in seen if server.key == spec.server)

    def record(
        self, spec: EndpointSpec, identity: ServerIdentity, now: datetime, *, is_stored: bool = True
    ) -> None:
        """Record the current server of `spec`. A plan stores nothing, and `invalidate` ends it."""
        seen = self.seen(spec)
        same = (server for server in seen if not server.identity.differences(identity))
        recorded = next(same, None)
        if recorded is None:
            current = SeenServer(key=fingerprint(identity), since=now, identity=identity)
        else:
            current = replace(recorded, identity=recorded.identity.completed_by(identity))
        others = [server for server in seen if server is not recorded]
        model = _fingerprint(spec)
        if is_stored and [current, *others] != self._read(model):
            identified = _IDENTITY.dump_python(current.identity, mode="json", exclude_none=True)
            content = {"model": spec.name, "identity": identified}
            append_record(self._store.servers(model), current.key, content, now)
        self._seen[model] = [current, *others]

    def _read(self, model: str) -> list[SeenServer]:
        """The recorded servers of a model, the newest record first."""
        servers: dict[str, SeenServer] = {}
        for time, key, path in sequence(self._store.servers(model)):
            try:
                identity = _IDENTITY.validate_python(read_record(path)["identity"])
            except (DamagedFileError, KeyError, ValidationError) as error:
                raise DamagedFileError(
                    f"{path}: the record of a model's server is damaged ({error}); restore it, or "
                    "delete it if the server is the same as in the record before"
                ) from error
            earlier = servers.pop(key, None)
            since = earlier.since if earlier else time
            servers[key] = SeenServer(key=key, since=since, identity=identity)
        return [*reversed(servers.values())]


def _fingerprint(spec: EndpointSpec) -> str:
    """The fingerprint of a model with its first server."""
    return spec.with_server(None).fingerprint


def _first(seen: Iterable[SeenServer]) -> SeenServer:
    return min(seen, key=lambda server: server.since)
