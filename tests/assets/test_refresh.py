"""A refresh builds only stale partitions, and a bad video does not stop others."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.loader import LoadingContextForTest

from tests.support import stored_events
from tests.support.builders import write_video
from tests.support.projects import ALL, EVALUATIONS, EVERYTHING, VIDEOS, Copy, WriteProject, stage
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.planning.explain import Explanation, matching
from videomme_pipeline.assets.planning.freshness import (
    Freshness,
    failed_attempts,
    plan_project,
    wrongly_shown,
)
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.stages import scores
from videomme_pipeline.assets.stages.base import Failed
from videomme_pipeline.assets.stages.checks import COMPLETE
from videomme_pipeline.assets.stages.prompts import Prompts
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB, run_config
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state import versions
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.scoring.readers.read_answer import READERS, ReaderName
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.storage.tables import read_rows, write_rows
from videomme_pipeline.subtitles.align import AlignedLine

RESULTS = {"warehouse": 1, "report_page": 1}


def built(project: Project, instance: dg.DagsterInstance, *names: str) -> Counter[str]:
    """Refresh, check that everything is fresh, and return the built partitions by asset."""
    refreshed = refresh_project(project, instance, names or ALL)
    assert [(state.name, state.reason) for state in refreshed.not_fresh] == []
    return refreshed.built


def completeness(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    """The results of the check `complete` of a run."""
    checks = result.get_asset_check_evaluations()
    return [check for check in checks if check.check_name == COMPLETE]


def materializations(
    instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult
) -> list[dg.AssetMaterialization]:
    """The materializations of a run that Dagster stored."""
    entries = stored_events.materializations(instance, result.run_id)
    return [event for entry in entries if (event := entry.asset_materialization)]


def newest_checks(instance: dg.DagsterInstance, asset: str) -> dict[str | None, bool]:
    """The result of the newest check of each partition, and (None) of the whole asset."""
    key = dg.AssetCheckKey(dg.AssetKey(["videomme", asset]), COMPLETE)
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
    checks = [record.evaluation for record in reversed(history)]
    return {check.partition: check.passed for check in checks if check}


def test_the_first_refresh_builds_everything(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    assert built(write_project(), instance) == EVERYTHING


def test_a_second_refresh_starts_no_run(project: Project, instance: dg.DagsterInstance) -> None:
    runs = instance.get_runs_count()
    assert refresh_project(project, instance, ALL).run_id is None
    assert instance.get_runs_count() == runs


def test_a_changed_video_rebuilds_exactly_its_partitions(
    project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    """The partitions of the blind evaluation stay fresh, because its prompts depend on no video."""
    write_video(copy.video("003"), frames=44, width=64, height=48)
    stale = [s for s in plan_project(project, instance, ALL) if s.freshness is Freshness.STALE]
    assert {state.partition.video for state in stale} == {"003", None}
    assert built(project, instance) == RESULTS | {
        "videomme/videos": 1,
        "videomme/frames": 2,
        "videomme/subtitles": 1,
        "videomme/prompts": 3,
        "videomme/responses": 3,
        "videomme/scores": 3,
    }


def test_a_new_file_with_the_same_bytes_rebuilds_nothing(
    project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    video = copy.video("003")
    shutil.copy2(video, video.with_suffix(".new"))
    video.with_suffix(".new").replace(video)
    assert built(project, instance) == {}


def test_a_renamed_video_rebuilds_nothing(
    project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    copy.video("003").rename(copy.video("003").with_suffix(".MP4"))
    assert built(project, instance) == {}


def test_new_subtitles_rebuild_their_track_and_no_frame(
    project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    copy.subtitle("003").write_text("1\n00:00:00,000 --> 00:00:01,000\nother words\n")
    counted = built(project, instance)
    assert counted["videomme/frames"] == 0
    assert (counted["videomme/subtitles"], counted["videomme/responses"]) == (1, 1)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("few", {"reader": "official_v1"}, {"scores": 1}),
        ("few", {"prompt": "official_v1"}, {"prompts": 3, "responses": 3, "scores": 1}),
        pytest.param("few", {"repeats": 2}, {"responses": 3, "scores": 1}, marks=pytest.mark.slow),
        pytest.param(
            "more",
            {"sampling": "uniform_n-8.jpeg-60"},
            {"frames": 3, "prompts": 3, "responses": 3, "scores": 1},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "few-subtitles",
            {"subtitles": "full"},
            {"subtitles": 3, "prompts": 3, "responses": 3, "scores": 1},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "new",
            {"benchmark": "videomme", "model": "constant-C", "sampling": "keyframe-4"},
            {"frames": 3, "prompts": 3, "responses": 3, "scores": 1},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_changed_setting_rebuilds_everything_downstream_and_nothing_else(
    write_project: WriteProject,
    project: Project,
    instance: dg.DagsterInstance,
    name: str,
    change: dict[str, object],
    expected: dict[str, int],
) -> None:
    changed = dict(EVALUATIONS) | {name: dict(EVALUATIONS.get(name, {})) | change}
    counted = built(write_project(changed), instance, *changed)
    assert counted == RESULTS | {f"videomme/{key}": count for key, count in expected.items()}


def test_a_lost_file_is_rebuilt(project: Project, instance: dg.DagsterInstance) -> None:
    project.store.prompts("videomme", "few", "002").unlink()
    assert built(project, instance)["videomme/prompts"] == 1


@pytest.mark.slow
def test_a_lost_data_folder_is_rebuilt(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    shutil.rmtree(project.store.root.path)
    assert built(write_project(), instance) == EVERYTHING


def test_lost_events_are_reported_again_without_building_anything(
    project: Project,
) -> None:
    written = project.store.scores("videomme", "few").stat().st_mtime_ns
    with dg.DagsterInstance.ephemeral() as other:
        assert built(project, other) == EVERYTHING
    assert project.store.scores("videomme", "few").stat().st_mtime_ns == written


def test_bad_videos_do_not_stop_others_and_their_questions_count_as_failed(
    write_project: WriteProject, instance: dg.DagsterInstance, copy: Copy
) -> None:
    copy.video("003").write_bytes(b"this is no video")
    copy.video("004").unlink()
    project = write_project({"few": EVALUATIONS["few"]})
    refreshed = refresh_project(project, instance, ["few"])
    reasons = {state.name: state.reason for state in refreshed.not_fresh}
    assert "003" in reasons["videomme/videos 003"]
    assert "no file" in reasons["videomme/videos 004"]
    rows = read_rows(project.store.scores("videomme", "few"), ScoredQuestion)
    outcomes = Counter((row.video_id, row.outcome is Outcome.FAILED) for row in rows)
    assert outcomes == {("002", False): 3, ("003", True): 3, ("004", True): 3}
    assert all(row.error and row.video_id in row.error for row in rows if row.video_id != "002")
    assert newest_checks(instance, "videos") == {"003": False, "004": False, None: False}
    write_video(copy.video("003"), frames=30, width=64, height=48)
    write_video(copy.video("004"), frames=30, width=64, height=48)
    rebuilt = built(project, instance, "few")
    assert (rebuilt["videomme/videos"], rebuilt["videomme/responses"]) == (2, 2)
    assert newest_checks(instance, "videos") == {"003": True, "004": True, None: True}


def test_no_question_is_read_before_the_license_is_accepted(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    project = write_project({"blind": EVALUATIONS["blind"]}, accept_license=False)
    refreshed = refresh_project(project, instance, ["blind"])
    reasons = {state.name: state.reason for state in refreshed.not_fresh}
    assert "accept_license: true" in reasons["videomme/questions"]
    assert not project.store.questions("videomme").exists()


def test_a_benchmark_without_chosen_evaluations_has_no_partitions_to_build(
    project: Project,
) -> None:
    for name in ("questions", "videos", "frames", "scores"):
        assert stage(project, name).partitions(["of another benchmark"]) == []


@pytest.mark.slow
def test_a_range_of_partitions_can_be_materialized_in_one_run(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    job = build_definitions(write_project()).resolve_implicit_global_asset_job_def()

    def materialize(asset: str, first: str = "", last: str = "") -> dg.ExecuteInProcessResult:
        span = {
            "dagster/asset_partition_range_start": first,
            "dagster/asset_partition_range_end": last,
        }
        return job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(["videomme", asset])],
            tags=span if first else {},
        )

    assert materialize("questions").success
    assert materialize("videos", VIDEOS[0], VIDEOS[-1]).success
    keys = (f"uniform_n-4|{VIDEOS[0]}", f"uniform_n-4|{VIDEOS[-1]}")
    result = materialize("frames", *keys)
    events = materializations(instance, result)
    assert {event.partition for event in events} == {f"uniform_n-4|{video}" for video in VIDEOS}
    assert [check.passed for check in completeness(result)] == [True]
    again = materializations(instance, materialize("frames", *keys))
    assert all(event.metadata["already_stored"].value for event in again)


def test_a_range_of_dependent_assets_has_a_version_per_partition(
    write_project: WriteProject, project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    stage(project, "frames").target(VideoVariant("002", "uniform_n-4")).path.unlink()
    changed = dict(EVALUATIONS) | {"few": dict(EVALUATIONS["few"]) | {"prompt": "official_v1"}}
    edited = write_project(changed)
    job = build_definitions(edited).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(["videomme", name]) for name in ("prompts", "responses")],
        tags={
            "dagster/asset_partition_range_start": f"few|{VIDEOS[0]}",
            "dagster/asset_partition_range_end": f"few|{VIDEOS[-1]}",
        },
    )
    events = Counter(
        (event.asset_key.path[-1], event.partition) for event in materializations(instance, result)
    )
    assert events == {
        (name, f"few|{video}"): 1 for name in ("prompts", "responses") for video in VIDEOS[1:]
    }, "one event per partition, and none for the video without frames"
    checks = {check.asset_key.path[-1]: check for check in completeness(result)}
    for check in checks.values():
        assert check.metadata["failed"].value == 1
        assert "few|002" in str(check.metadata["failures"])
    assert newest_checks(instance, "prompts") == {"few|002": False, None: False}
    states = {state.name: state for state in plan_project(edited, instance)}
    for name, video in ((n, v) for n in ("prompts", "responses") for v in VIDEOS[1:]):
        assert states[f"videomme/{name} few|{video}"].freshness is Freshness.FRESH


@pytest.mark.slow
def test_prompts_use_only_lines_aligned_with_their_own_settings(
    write_project: WriteProject, project: Project, instance: dg.DagsterInstance
) -> None:
    name = "few-subtitles"
    edited = write_project(
        dict(EVALUATIONS) | {name: dict(EVALUATIONS[name]) | {"subtitles": "window-900"}}
    )
    track = edited.benchmarks["videomme"].evaluations[name].track_name
    assert track is not None
    older, missing, ready = (edited.store.subtitles("videomme", track, v) for v in VIDEOS)
    subtitles, prompts = (dg.AssetKey(["videomme", name]) for name in ("subtitles", "prompts"))
    job = build_definitions(edited).resolve_implicit_global_asset_job_def()

    def materialize(asset: dg.AssetKey, variant: str) -> dg.ExecuteInProcessResult:
        keys = [f"{variant}|{video}" for video in VIDEOS]
        return job.execute_in_process(
            instance=instance,
            asset_selection=[asset],
            tags={
                "dagster/asset_partition_range_start": keys[0],
                "dagster/asset_partition_range_end": keys[-1],
            },
        )

    assert materialize(subtitles, track).success
    write_rows(older, [], AlignedLine, fingerprint="of other settings")
    missing.unlink()
    events = materializations(instance, materialize(prompts, name))
    assert [event.partition for event in events] == [f"{name}|{ready.stem}"]
    checks = newest_checks(instance, "prompts")
    assert checks == {f"{name}|{older.stem}": False, f"{name}|{missing.stem}": False, None: False}


def test_a_refresh_after_an_interrupted_run_clears_the_failed_state_in_the_ui(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_early(
        prompts: Prompts, partitions: Sequence[VideoVariant]
    ) -> Iterator[Failed[VideoVariant]]:
        raise RuntimeError("no power")

    keys = [f"few|{video}" for video in VIDEOS]
    prompts = stage(project, "prompts")

    with monkeypatch.context() as patch:
        patch.setattr(Prompts, "prepare", fail_early)
        job = build_definitions(project).resolve_implicit_global_asset_job_def()
        ended = job.execute_in_process(
            instance=instance,
            asset_selection=[prompts.asset_key],
            tags={
                "dagster/asset_partition_range_start": keys[0],
                "dagster/asset_partition_range_end": keys[-1],
            },
            raise_on_error=False,
        )
    assert not ended.success
    assert failed_attempts(instance, prompts) == {prompts.parse_partition(key) for key in keys}
    written = project.store.prompts("videomme", "few", "002").stat().st_mtime_ns
    assert built(project, instance) == {"videomme/prompts": 3}
    assert failed_attempts(instance, prompts) == set()
    assert project.store.prompts("videomme", "few", "002").stat().st_mtime_ns == written
    assert refresh_project(project, instance, ALL).run_id is None


def test_a_refresh_reports_another_code_version_and_builds_nothing(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions reported other code versions for the same fingerprints."""
    monkeypatch.setattr(Prompts, "code_version", "1.1")
    prompts = stage(project, "prompts")
    everything, few = set(prompts.partitions()), set(prompts.partitions(["few"]))
    assert wrongly_shown(instance, prompts) == everything
    assert refresh_project(project, instance, ["few"]).built == {"videomme/prompts": len(few)}
    assert wrongly_shown(instance, prompts) == everything - few
    assert built(project, instance) == {"videomme/prompts": len(everything - few)}
    assert refresh_project(project, instance, ALL).run_id is None


def test_a_raised_version_of_a_reader_is_a_new_code_version_of_the_scores(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = READERS[ReaderName.CAREFUL]
    raised = {**READERS, ReaderName.CAREFUL: replace(careful, version="raised")}
    for module in (scores, versions):
        monkeypatch.setattr(module, "READERS", raised)
    states = plan_project(project, instance)
    (state,) = matching(states, "videomme/scores few")
    reasons = [str(reason) for reason in Explanation(states, instance).reasons(state)]
    assert reasons == [f"reader version: careful-{careful.version} → careful-raised"]
    assert "careful-raised" in state.stage.code_version.split()


def test_new_scoring_code_reads_the_same_answers_again(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CODE_VERSIONS, "scores", (99,))
    assert built(project, instance) == RESULTS | {"videomme/scores": 4}


def test_the_ui_and_the_command_line_run_the_same_job(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    project = write_project({"blind": EVALUATIONS["blind"]})
    job = build_definitions(project).resolve_job_def(REFRESH_JOB)
    assert job.execute_in_process(instance=instance, run_config=run_config([])).success
    assert refresh_project(project, instance, ["blind"]).run_id is None


def test_a_request_for_an_unknown_evaluation_is_refused(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    job = build_definitions(write_project()).resolve_job_def(REFRESH_JOB)
    with pytest.raises(dg.DagsterInvalidConfigError, match=r"EvaluationName\w+ got fwe"):
        job.execute_in_process(instance=instance, run_config=run_config(["fwe"]))


@pytest.mark.slow
def test_the_stale_status_in_the_ui_agrees_with_the_planner_about_direct_parents(
    project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    def unsynced() -> set[str]:
        graph = build_definitions(project).resolve_asset_graph()
        with partition_loading_context(dynamic_partitions_store=instance):
            resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
            return {
                state.name
                for state in plan_project(project, instance, ALL)
                if resolver.get_status(
                    state.stage.asset_key, state.stage.key_of_partition(state.partition)
                )
                is not StaleStatus.FRESH
            }

    assert unsynced() == set()
    write_video(copy.video("003"), frames=44, width=64, height=48)
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(["videomme", "videos"])],
        partition_key="003",
    )
    # Dagster compares direct parents only; the planner compares all ancestors.
    assert unsynced() == {
        "videomme/frames uniform_n-4|003",
        "videomme/frames uniform_n-8|003",
        "videomme/subtitles uniform_n-4.window-500|003",
    }


def test_one_run_materializes_a_partition_of_several_assets(
    write_project: WriteProject, project: Project, instance: dg.DagsterInstance
) -> None:
    changed = dict(EVALUATIONS) | {"few": dict(EVALUATIONS["few"]) | {"prompt": "official_v1"}}
    job = build_definitions(write_project(changed)).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(["videomme", name]) for name in ("prompts", "responses")],
        partition_key="few|003",
    )
    events = {
        (event.asset_key.path[-1], event.partition)
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }
    assert events == {("prompts", "few|003"), ("responses", "few|003")}
    results = job.execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey("warehouse"), dg.AssetKey("report_page")]
    )
    assert len(results.get_asset_materialization_events()) == 2
