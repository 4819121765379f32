"""The servers that each model had, and those that a run starts and stops at its end.

The first server that is seen for a model is that of the answers that are already stored: requests
to it have the fingerprints that they had before. Any other server changes the fingerprints of
requests, so that its answers are separate. If an earlier server returns, its answers are valid
again. A value that is unknown is no difference.

The names of files contain the key of every server, the first one included. So two folders with
different servers never share a name.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from pydantic import TypeAdapter, ValidationError

from videomme_pipeline.errors import DamagedFileError, ModelError
from videomme_pipeline.fingerprint import canonical_json, fingerprint
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.connection_check import CheckedModel
from videomme_pipeline.models.endpoint.managed import RunningServers, ServeSpec
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.identity import ServerIdentity, shown_differences
from videomme_pipeline.models.spec import AnyModelSpec, ModelSpec
from videomme_pipeline.models.video_llm import ModelPool, VideoLLM, members_of
from videomme_pipeline.project.runs.locks import Locks, local_gpus
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.responses.response import Response
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.records import append_record, read_record, sequence

_IDENTITY = TypeAdapter(ServerIdentity)
_SHOWN_CHARACTERS = 100
OnStageProgress = Callable[[StageProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenServer:
    """A server of a model. `key` is the hash of its identity when it was first seen, at `since`."""

    key: str
    since: datetime
    identity: ServerIdentity


class ServerRecord:
    """A sequence of records per model in the data folder, one for each change of its server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read: dict[str, list[SeenServer]] = {}
        """The servers that were read or observed, by the fingerprint of the model."""

    def invalidate(self) -> None:
        """Drop what was read, because files may have changed."""
        self.read = {}

    def seen(self, spec: EndpointSpec) -> list[SeenServer]:
        """The servers of a model, the current one first. Raises DamagedFileError."""
        model = _fingerprint(spec)
        if model not in self.read:
            self.read[model] = self._read(model)
        return self.read[model]

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

    def label(self, spec: ModelSpec, response: Response) -> Response:
        """`response` with the facts of the server of `spec`, unless its answer is from before."""
        server, answered_at = self.server_of(spec), response.served.answered_at
        if server is None or answered_at is None or answered_at < server.since:
            return response
        return replace(response, server=canonical_json(server.identity.known))

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
        self.read[model] = [current, *others]

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


class ModelServers(AbstractContextManager["ModelServers"]):
    """The servers of one model at a time, since another model may need the same GPUs.

    They run until another model needs servers, or until the block of `with` ends. Only one run at
    a time has servers on this machine, or servers of one model elsewhere; the others wait.
    """

    def __init__(self, store: Store, record: ServerRecord, locks: Locks) -> None:
        self._store = store
        self._record = record
        self._locks = locks
        self._lock = ExitStack()
        self._running: RunningServers | None = None
        self._spec: EndpointSpec | None = None
        """The model of the servers that run now."""

    def __exit__(self, *_: object) -> None:
        self.stop()

    def observe(self, specs: Iterable[EndpointSpec], *, is_stored: bool = True) -> None:
        """Record what the servers of these models are now, as far as they answer."""
        by_name = {spec.name: spec for spec in specs}
        if not by_name:
            return
        with ThreadPoolExecutor(len(by_name)) as threads:
            looks = [(spec, threads.submit(_identity, spec)) for spec in by_name.values()]
            for spec, look in looks:
                # Every plan of a model with a damaged record has the error.
                with suppress(DamagedFileError, ModelError):
                    if identity := look.result():
                        self._record.record(spec, identity, datetime.now(UTC), is_stored=is_stored)

    def check(self, spec: EndpointSpec, member: EndpointSpec) -> None:
        """Check that the endpoint `member` reports the server that is recorded for `spec`.

        Raises ModelError if `member` reports another server. If the model has one endpoint, the new
        server is recorded, so that the next run asks it every question.
        """
        running = self._running
        if running is not None and running.failure:
            raise ModelError(f"model {spec.name}: all servers have died: {running.failure}")
        identity = _identity(member, running.weights if running else None)
        if identity is None:
            return
        expected = self._record.server_of(spec)
        different = expected.identity.differences(identity) if expected else {}
        if not different:
            self._record.record(spec, identity, datetime.now(UTC))
            return
        report = f"model {spec.name}: {member.endpoint} reports {shown_differences(different)}"
        if len(spec.members) > 1:
            raise ModelError(f"{report}; serve the same model at all of its endpoints")
        self._record.record(spec, identity, datetime.now(UTC))
        raise ModelError(
            f"{report}. The stored answers are those of another server: run again to ask this one "
            "all questions"
        )

    def model(self, spec: AnyModelSpec, *, on_progress: OnStageProgress | None) -> VideoLLM:
        """The model of `spec`, which checks its servers.

        With `on_progress`, the servers of a model with `serve` are started first. Raises ModelError
        as `start` does, or if the key of the endpoint is not set.
        """
        served = spec if on_progress is None else self.start(spec, on_progress)
        built = build_model(served.working_in(self._store.server_logs))
        if (
            isinstance(spec, EndpointSpec)
            and isinstance(served, EndpointSpec)
            and served.reports_server
        ):
            members = zip(members_of(built).items(), served.members, strict=True)
            checked = {
                title: CheckedModel(model, partial(self.check, spec, member))
                for (title, model), member in members
            }
            return ModelPool(checked) if len(checked) > 1 else next(iter(checked.values()))
        return built

    def start(self, spec: AnyModelSpec, on_progress: OnStageProgress) -> AnyModelSpec:
        """`spec` at the URLs of its servers, which are started if they do not run yet.

        A model without `serve` is returned unchanged. Raises ModelError if there are no weights, or
        a server does not start.
        """
        if not isinstance(spec, EndpointSpec) or spec.serve is None:
            return spec
        running = self._running
        if running is None or self._spec != spec:
            self.stop()
            running = self._running = self._started(spec, spec.serve, on_progress)
            self._spec = spec
        return spec.served_at(running.urls, running.served_name, self._store.server_logs)

    def _started(
        self, spec: EndpointSpec, serve: ServeSpec, on_progress: OnStageProgress
    ) -> RunningServers:
        """Start the servers of `spec`, once no other run has the same GPUs or their logs."""

        def show(answering: int, total: int, output: str) -> None:
            on_progress(
                StageProgress(
                    what=f"{spec.name}: servers",
                    done=answering,
                    total=total,
                    stored="Everything built so far is stored.",
                    wait=output[:_SHOWN_CHARACTERS],
                )
            )

        self._lock.enter_context(self._locks.using(local_gpus()))
        try:
            return serve.start(spec.served_name, self._store.server_logs, show)
        except BaseException:
            self._lock.close()
            raise

    def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()
        self._lock.close()


def _identity(spec: EndpointSpec, weights: str | None = None) -> ServerIdentity | None:
    """The current identity of the server of `spec`, or None if it is unknown.

    A managed server has loaded `weights`. Its engine and the contents of its weights have priority
    over what the server reports, so that the identity is the same before and after the start.
    """
    reported = spec.reported_server()
    if spec.serve is None:
        return reported
    return spec.serve.server_identity(weights).completed_by(reported or ServerIdentity())
