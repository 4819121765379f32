"""The check `up_to_date` of every stage: what a refresh would build, from the planner.

Dagster compares data versions and code versions of events. It does not know about lost files and
edited configuration files. The check shows them in the asset graph. It runs after its asset and
when a user executes it. A sensor reports its result again whenever that changes. It plans only if
something that a plan reads has changed, or if the last plan is ten minutes old. It also ends dead
runs, because every sensor needs CPU time.
"""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import quote

import dagster as dg
from upath import UPath

from videomme_pipeline.assets.dagster_internals import evaluation_of_newest, is_shown
from videomme_pipeline.assets.keys import asset_key, key_in, partition_key
from videomme_pipeline.assets.processes import end_dead_runs
from videomme_pipeline.assets.runner import shown_versions
from videomme_pipeline.assets.stages.checks import LISTED_PARTITIONS
from videomme_pipeline.assets.stages.metadata import table_of
from videomme_pipeline.assets.stages.nightly import assess_age
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB, REPORT_JOB
from videomme_pipeline.errors import ConfigurationError, StorageError, VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.project.checkpoints import read_training_runs
from videomme_pipeline.project.nightly.alerts import ui_address
from videomme_pipeline.project.nightly.tracked import TrackedEvaluation, refused_files
from videomme_pipeline.project.project import Project
from videomme_pipeline.stages.chain import all_stages
from videomme_pipeline.stages.explain import Cause, Explanation
from videomme_pipeline.stages.plan import Freshness, PartitionState, plan_project
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage
from videomme_pipeline.storage.layout import LOCAL
from videomme_pipeline.storage.objects import file_names, file_states
from videomme_pipeline.storage.records import sequence

UP_TO_DATE = "up_to_date"
_DESCRIPTION = (
    "Passes if a refresh would build nothing. The metadata lists what is stale. The check of "
    "`scores` also lists configuration files that cannot be used."
)
_SEVERITIES = {"error": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}
_PLAN = "plan"
"""Metadata key of the fingerprint of what is not fresh, and of the files that cannot be used."""
_PLAN_SECONDS = 600
"""The longest time between two plans, for changes such as a run that was deleted in Dagster."""


def up_to_date_check(project: Project) -> dg.AssetChecksDefinition:
    """The check of every stage, in one step that plans the whole project."""

    @dg.multi_asset_check(
        name=UP_TO_DATE,
        specs=[
            dg.AssetCheckSpec(UP_TO_DATE, asset=asset_key(stage), description=_DESCRIPTION)
            for stage in all_stages(project)
        ],
        can_subset=True,
    )
    def up_to_date(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        plans = _Plans(project)
        for check in context.selected_asset_check_keys:
            yield plans.result(check.asset_key)

    return up_to_date


def up_to_date_sensor(
    project: Project, tracked: Sequence[TrackedEvaluation] = ()
) -> dg.SensorDefinition:
    """Ends dead runs, and reports the changed results of the checks `up_to_date` and `recent`."""
    keys = [asset_key(stage) for stage in all_stages(project)]
    opened: list[dg.DagsterInstance] = []  # for all ticks, because opening it takes 80 ms

    @dg.sensor(
        name="upkeep_checks",
        job_name=REPORT_JOB,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="End dead runs, and show stale partitions and overdue nightly runs.",
    )
    def report_plan(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        now = datetime.now(UTC)
        if not opened and (ref := context.instance_ref):
            opened.append(dg.DagsterInstance.from_ref(ref))
        instance = opened[0] if opened else context.instance
        for run_id in end_dead_runs(instance, now):
            context.log.warning(f"ended {run_id}, whose process died")
        ages = [assess_age(entry, instance, now) for entry in tracked]
        reopened = project.reopened()
        inputs = _hash_of_inputs(reopened, instance, ages)
        planned, _, planned_at = (context.cursor or "").partition(" ")
        if planned == inputs and now.timestamp() - float(planned_at) < _PLAN_SECONDS:
            return dg.SkipReason("nothing has changed since the last plan")
        plans = _Plans(reopened)
        results = (*map(plans.result, keys), *ages)
        current = [evaluation_of_newest(result, instance) for result in results]
        changed = [result for result in current if not is_shown(result, instance, _PLAN)]
        not_shown = plans.not_shown(instance)
        del plans, reopened
        gc.collect()  # or the next plan would need as much memory again
        context.update_cursor(f"{inputs} {now.timestamp()}")
        if not changed and not not_shown:
            return dg.SkipReason("every check shows the current plan")
        requests = [dg.RunRequest(run_key=not_shown, job_name=REPORT_JOB)] if not_shown else []
        return dg.SensorResult(run_requests=requests, asset_events=changed)

    return report_plan


def _hash_of_inputs(
    project: Project, instance: dg.DagsterInstance, ages: Sequence[dg.AssetCheckResult]
) -> str:
    """Hash of everything that a plan reads, and of this process, because another may have new code.

    No table is ever replaced, so the names of the stored files are enough. A folder that cannot be
    listed may have changed.
    """
    project.observe_servers(_evaluations(project), is_stored=False)
    store, folders = project.store, [UPath(project.configuration.folder)]
    for benchmark in project.benchmarks.values():
        with suppress(VideoMMEError):  # without its license or folder, it has no files
            folders += map(UPath, benchmark.open_source().roots)
    try:
        local = file_states(UPath(store.local(LOCAL))).items()
        files: list[frozenset[object]] = [
            # A plan opens and closes the database of hashes, which changes its files.
            frozenset(item for item in local if ".sqlite" not in item[0]),
            frozenset(project.hashes.load().items()),
            frozenset(name for name in file_names(store.root) if not name.startswith(f"{LOCAL}/")),
            frozenset(file_names(store.path("failures"))),  # which are in deeper folders
            *(frozenset(file_states(folder).items()) for folder in folders),
        ]
    except StorageError:
        return str(datetime.now(UTC))
    return fingerprint(
        ProcessIdentity.here(),
        instance.event_log_storage.get_maximum_record_id(),
        [(age.passed, age.description) for age in ages],
        [(s.key, s.identity) for seen in project.server_record.read.values() for s in seen],
        list(map(hash, files)),
    )


class _Plans:
    def __init__(self, project: Project) -> None:
        states = plan_project(project, _evaluations(project))
        self._project = project
        self._severity = _SEVERITIES[project.runs.stale]
        self._explanation = Explanation(states)
        self._causes = self._explanation.causes()
        self._stages = {asset_key(stage): stage for stage in all_stages(project)}
        # A benchmark without evaluations has stages without partitions to build.
        self._states: dict[dg.AssetKey, list[PartitionState]] = {key: [] for key in self._stages}
        for state in states:
            self._states[asset_key(state.stage)].append(state)

    def result(self, key: dg.AssetKey) -> dg.AssetCheckResult:
        """The result of the check of an asset. Its metadata lists what is not fresh, and why."""
        not_fresh, refused = self._not_fresh(key), self._refused_for(key)
        unused = [f"this file is not used: {problem}" for problem in refused]
        counted = Counter(state.freshness for state in self._states[key])
        return dg.AssetCheckResult(
            passed=not not_fresh and not refused,
            check_name=UP_TO_DATE,
            asset_key=key,
            severity=self._severity,
            description="; ".join([self._plan_summary(key), *unused]),
            metadata={
                **{f.value: counted[f] for f in Freshness if counted[f] or f is Freshness.FRESH},
                **(self._details(not_fresh) if not_fresh else {}),
                _PLAN: fingerprint([(s.name, s.freshness, s.reason) for s in not_fresh], refused),
            },
        )

    def not_shown(self, instance: dg.DagsterInstance) -> str | None:
        """Fingerprint of the stored partitions that Dagster does not show; None without any."""
        names = []
        for key, states in self._states.items():
            shown = shown_versions(instance, self._stages[key])
            names += [
                f"{state.name} {state.fingerprint}"
                for state in states
                if state.freshness is Freshness.FRESH
                and shown.get(state.partition) != state.fingerprint
            ]
        newest_event = instance.event_log_storage.get_maximum_record_id()
        return fingerprint(names, newest_event) if names else None

    def _not_fresh(self, key: dg.AssetKey) -> list[PartitionState]:
        return [s for s in self._states[key] if s.freshness is not Freshness.FRESH]

    def _refused_for(self, key: dg.AssetKey) -> Sequence[str]:
        stage = self._stages[key]
        if not stage.is_cited or not isinstance(stage, BenchmarkStage):
            return ()
        return refused_files(self._project.configuration, stage.benchmark.name)

    def _plan_summary(self, key: dg.AssetKey) -> str:
        causes = self._causes.get(self._stages[key].label, Counter[Cause]())
        total = len(self._states[key])
        if not causes:
            return f"{total:,} fresh"
        first: dict[Cause, str] = {}
        for state in self._not_fresh(key):
            reason = self._explanation.reasons(state)[0]
            detailed = reason.cause in (Cause.SETTING, Cause.READER_VERSION, Cause.CODE_VERSION)
            first.setdefault(reason.cause, str(reason) if detailed else reason.cause)
        named = ", ".join(f"{first.get(cause, cause)} ({n:,})" for cause, n in causes.items())
        return f"{sum(causes.values()):,} of {total:,} not fresh: {named}"

    def _details(self, not_fresh: Sequence[PartitionState]) -> dict[str, dg.MetadataValue]:
        records = [
            {
                "partition": partition_key(state.stage, state.partition),
                "state": state.freshness,
                "because": "; ".join(map(str, self._explanation.reasons(state))),
            }
            for state in not_fresh[:LISTED_PARTITIONS]
        ]
        link = launchpad(self._project, self._stale_evaluations(not_fresh[0].stage))
        return {"not_fresh": table_of(records), "to_do": dg.MetadataValue.url(link)}

    def _stale_evaluations(self, stage: AnyStage) -> list[str]:
        """The evaluations of the benchmark of a stage whose scores are not fresh."""
        if not isinstance(stage, BenchmarkStage):
            return []
        scores = key_in(self._project, f"{stage.benchmark.name}/scores")
        return [str(state.partition.variant) for state in self._not_fresh(scores)]


def launchpad(project: Project, evaluations: Sequence[str]) -> str:
    """URL of the Launchpad of `refresh_stale` with some evaluations, or all without any."""
    location = f"{ui_address()}/locations/{project.runs.code_location}"
    config = quote(f"evaluations: [{', '.join(evaluations)}]")
    return f"{location}/jobs/{REFRESH_JOB}/playground/setup?config={config}"


def _evaluations(project: Project) -> list[str]:
    """All evaluations but templates of training runs that were never run themselves."""
    templates = set[str]()
    with suppress(ConfigurationError):
        for run in read_training_runs(project.configuration).values():
            templates.update(run.templates)
    return [
        name
        for name, evaluation in project.configuration.files.items()
        if name not in templates or sequence(project.store.shown(evaluation.benchmark, name))
    ]
