"""The servers of models: what they are, and those that a run starts and stops at its end."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime
from functools import partial

from videomme_pipeline.errors import DamagedFileError, ModelError
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.connection_check import CheckedModel
from videomme_pipeline.models.endpoint.managed import RunningServers, ServeSpec
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.identity import ServerIdentity, shown_differences
from videomme_pipeline.models.pool import ModelPool, members_of
from videomme_pipeline.models.spec import AnyModelSpec, ModelSpec
from videomme_pipeline.models.video_llm import VideoLLM
from videomme_pipeline.project.runs.locks import Locks, local_gpus
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.project.servers.record import ServerRecord
from videomme_pipeline.responses.response import Response
from videomme_pipeline.storage.layout import Store

_SHOWN_CHARACTERS = 100

OnStageProgress = Callable[[StageProgress], None]


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
            identities = threads.map(self._look, by_name.values())
            for spec, identity in zip(by_name.values(), identities, strict=True):
                if identity is not None:
                    with suppress(DamagedFileError):  # every plan of this model has the error
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

    def label(self, spec: ModelSpec, response: Response) -> Response:
        """`response` with what is known about the server of `spec`."""
        server = self._record.server_of(spec)
        return response if server is None else server.label(response)

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

    def _look(self, spec: EndpointSpec) -> ServerIdentity | None:
        with suppress(ModelError):
            return _identity(spec)
        return None


def _identity(spec: EndpointSpec, weights: str | None = None) -> ServerIdentity | None:
    """The current identity of the server of `spec`, or None if it is unknown.

    A managed server has loaded `weights`. Its engine and the contents of its weights have priority
    over what the server reports, so that the identity is the same before and after the start.
    """
    reported = spec.reported_server()
    if spec.serve is None:
        return reported
    return spec.serve.server_identity(weights).completed_by(reported or ServerIdentity())
