"""A refresh builds only stale partitions, and a bad video does not stop others."""

import shutil
from collections import Counter
from dataclasses import replace

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.loader import LoadingContextForTest

from tests.support import stored_events
from tests.support.builders import write_video
from tests.support.projects import ALL, EVALUATIONS, EVERYTHING, VIDEOS, Copy, WriteProject, stage
from tests.support.stored_files import stored_file
from videomme_pipeline.assets import runner
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.keys import asset_key, partition_key
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.runner import failed_attempts, shown_versions
from videomme_pipeline.assets.stages.checks import COMPLETE
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB, REPORT_JOB
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state import versions
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.scoring.readers.read_answer import READERS, ReaderName
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.stages import scores
from videomme_pipeline.stages.explain import Explanation, matching
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.storage.tables import read_rows

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


def passes(instance: dg.DagsterInstance, asset: str) -> bool:
    """The newest result of the check `complete` of an asset."""
    key = dg.AssetCheckKey(dg.AssetKey(["videomme", asset]), COMPLETE)
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert record.evaluation is not None
    return record.evaluation.passed


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
    pending = [s for s in plan_project(project, ALL) if s.freshness is not Freshness.FRESH]
    assert {state.partition.video for state in pending} == {"003", None}
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


@pytest.mark.slow
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
        pytest.param("few", {"reader": "official_v1"}, {"scores": 1}, marks=pytest.mark.slow),
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
    stored_file(project.store, "prompts", "videomme", "few", "002").unlink()
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
    """A run that has nothing to build opens no run. The job `report_stored` reports."""
    job = build_definitions(project).resolve_job_def(REPORT_JOB)
    with dg.DagsterInstance.ephemeral() as other:
        assert built(project, other) == {}
        assert reported(job.execute_in_process(instance=other), other) == EVERYTHING
        assert reported(job.execute_in_process(instance=other), other) == {}


def reported(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> Counter[str]:
    """The number of partitions that a run reported, by asset. All of them were stored before."""
    events = materializations(instance, result)
    assert all(event.metadata["already_stored"].value for event in events)
    return Counter(event.asset_key.to_user_string() for event in events)


@pytest.mark.slow
def test_a_switch_back_builds_nothing_and_dagster_shows_the_first_versions_again(
    write_project: WriteProject, project: Project, instance: dg.DagsterInstance
) -> None:
    prompts = stage(project, "prompts")
    first = {p: prompts.fingerprint(p) for p in prompts.partitions(["few"])}
    changed = dict(EVALUATIONS) | {"few": dict(EVALUATIONS["few"]) | {"prompt": "official_v1"}}
    assert built(write_project(changed), instance)["videomme/prompts"] == len(first)
    back = write_project()
    assert built(back, instance) == RESULTS, "only the shared files show other scores"
    shown = shown_versions(instance, stage(back, "prompts"))
    assert all(shown[partition] == version for partition, version in first.items())


@pytest.mark.slow
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
    rows = read_rows(stored_file(project.store, "scores", "videomme", "few"), ScoredQuestion)
    outcomes = Counter((row.video_id, row.outcome is Outcome.FAILED) for row in rows)
    assert outcomes == {("002", False): 3, ("003", True): 3, ("004", True): 3}
    assert all(row.error and row.video_id in row.error for row in rows if row.video_id != "002")
    assert not passes(instance, "videos")
    write_video(copy.video("003"), frames=30, width=64, height=48)
    write_video(copy.video("004"), frames=30, width=64, height=48)
    rebuilt = built(project, instance, "few")
    assert (rebuilt["videomme/videos"], rebuilt["videomme/responses"]) == (2, 2)
    assert passes(instance, "videos")


def test_no_question_is_read_before_the_license_is_accepted(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    project = write_project({"blind": EVALUATIONS["blind"]}, accept_license=False)
    refreshed = refresh_project(project, instance, ["blind"])
    reasons = {state.name: state.reason for state in refreshed.not_fresh}
    assert "accept_license: true" in reasons["videomme/questions"]
    assert not project.store.path("videomme", "questions").exists()


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
    frames = stage(project, "frames")
    frames.path_of(frames.target(VideoVariant("002", "uniform_n-4"))).unlink()
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
    assert not passes(instance, "prompts")
    states = {state.name: state for state in plan_project(edited)}
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
    first, missing, ready = VIDEOS
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
    for video in (first, missing):
        lines = stage(edited, "subtitles")
        lines.path_of(lines.target(VideoVariant(video, track))).unlink()
    events = materializations(instance, materialize(prompts, name))
    assert [event.partition for event in events] == [f"{name}|{ready}"]
    failures = stage(edited, "prompts").failures.reasons()
    assert set(failures) == {VideoVariant(video, name) for video in (first, missing)}
    assert not passes(instance, "prompts")


@pytest.mark.slow
def test_a_report_after_an_interrupted_run_clears_the_failed_state_in_the_ui(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_early(*_: object) -> None:
        raise RuntimeError("no power")

    keys = [f"few|{video}" for video in VIDEOS]
    prompts = stage(project, "prompts")
    with monkeypatch.context() as patch:
        patch.setattr(runner, "refresh", fail_early)
        job = build_definitions(project).resolve_implicit_global_asset_job_def()
        ended = job.execute_in_process(
            instance=instance,
            asset_selection=[asset_key(prompts)],
            tags={
                "dagster/asset_partition_range_start": keys[0],
                "dagster/asset_partition_range_end": keys[-1],
            },
            raise_on_error=False,
        )
    assert not ended.success
    assert failed_attempts(instance, prompts) == {prompts.parse_key(key) for key in keys}
    report = build_definitions(project).resolve_job_def(REPORT_JOB)
    assert reported(report.execute_in_process(instance=instance), instance) == {
        "videomme/prompts": 3
    }
    assert failed_attempts(instance, prompts) == set()
    assert built(project, instance) == {}


def test_a_changed_reader_makes_the_scores_stale_with_both_versions_as_the_reason(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = READERS[ReaderName.CAREFUL]
    raised = {**READERS, ReaderName.CAREFUL: replace(careful, version="raised")}
    for module in (scores, versions):
        monkeypatch.setattr(module, "READERS", raised)
    states = plan_project(project)
    (state,) = matching(states, "videomme/scores few")
    reasons = [str(reason) for reason in Explanation(states).reasons(state)]
    assert reasons == [f"reader version: careful-{careful.version} → careful-raised"]


@pytest.mark.slow
def test_new_scoring_code_reads_the_same_answers_again(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CODE_VERSIONS, "scores", (99,))
    assert built(project, instance) == RESULTS | {"videomme/scores": 4}


@pytest.mark.slow
def test_the_ui_and_the_command_line_run_the_same_job(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    project = write_project({"blind": EVALUATIONS["blind"]})
    job = build_definitions(project).resolve_job_def(REFRESH_JOB)
    assert job.execute_in_process(instance=instance, run_config={"evaluations": []}).success
    assert refresh_project(project, instance, ["blind"]).run_id is None


def test_a_request_for_an_unknown_evaluation_is_refused(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    job = build_definitions(write_project()).resolve_job_def(REFRESH_JOB)
    with pytest.raises(dg.DagsterInvalidConfigError, match=r"Evaluation_\w+ got fwe"):
        job.execute_in_process(instance=instance, run_config={"evaluations": ["fwe"]})


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
                for state in plan_project(project, ALL)
                if resolver.get_status(
                    asset_key(state.stage), partition_key(state.stage, state.partition)
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
    events = materializations(instance, result)
    assert {(event.asset_key.path[-1], event.partition) for event in events} == {
        ("prompts", "few|003"),
        ("responses", "few|003"),
    }
    results = job.execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey("warehouse"), dg.AssetKey("report_page")]
    )
    assert len(materializations(instance, results)) == 2
