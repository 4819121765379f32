"""Responses of videos with missing frames, and the frame digests in requests."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
import yaml

from tests.support.model_server import Fault, ModelServer, always
from tests.support.projects import EVALUATIONS, VIDEOS, Copy, WriteProject, stage
from tests.support.stored_files import stored_file
from tests.support.stored_frames import write_frames
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.keys import asset_key
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.stages.checks import is_complete
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB
from videomme_pipeline.errors import VideoError
from videomme_pipeline.frames.cache import Frame, read_frames
from videomme_pipeline.frames.sampling import Choice
from videomme_pipeline.models.endpoint.endpoints import FramesAs
from videomme_pipeline.project.answers.asking import requests_of
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.responses.requests import VideoRequests
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.stages.stage import BuildFailure
from videomme_pipeline.storage.tables import read_rows

WriteServed = Callable[..., Project]


@pytest.fixture
def write_served(project: Project, write_project: WriteProject, root: Path) -> WriteServed:
    """The built project, with the evaluation `few` changed to a model at an endpoint."""

    def write_served(
        base_url: str, frames_as: FramesAs = FramesAs.IMAGES, **others: object
    ) -> Project:
        entry = {"base_url": base_url, "profile": "vllm", "frames_as": frames_as.value, **others}
        (root / "configuration" / "models.yaml").write_text(yaml.safe_dump({"served": entry}))
        return write_project({"few": {**EVALUATIONS["few"], "model": "served"}})

    return write_served


def test_missing_or_damaged_frames_fail_only_their_own_video(write_served: WriteServed) -> None:
    with ModelServer() as server:
        project = write_served(server.base_url)
        frames, responses = stage(project, "frames"), stage(project, "responses")
        missing, damaged, intact = [
            frames.path_of(frames.target(VideoVariant(video_id, "uniform_n-4")))
            for video_id in VIDEOS
        ]
        missing.unlink()
        damaged.write_bytes(damaged.read_bytes()[:-9])
        partitions = [VideoVariant(video_id, "few") for video_id in VIDEOS]
        results = list(responses.build([responses.target(partition) for partition in partitions]))
        assert server.request_count == 3
    reasons = {
        item.partition.video: item.reason for item in results if isinstance(item, BuildFailure)
    }
    assert list(reasons) == ["002", "003"]
    assert "materialize it first" in reasons["002"]
    assert "run again to rebuild it" in reasons["003"]
    assert not damaged.exists()
    assert intact.exists()


def test_requests_with_the_video_depend_on_its_content_and_not_on_our_pictures(
    write_served: WriteServed, copy: Copy
) -> None:
    def requests(frames_as: FramesAs) -> VideoRequests:
        benchmark = write_served("http://localhost:1/v1", frames_as).benchmarks["videomme"]
        (asked,) = requests_of(Inputs(benchmark, "002", benchmark.evaluations["few"]))
        return asked

    native, images = requests(FramesAs.VIDEO_FILE), requests(FramesAs.IMAGES)
    whole = native.load_frames().video
    assert whole is not None
    assert (whole.path, whole.sampling.name) == (copy.video("002"), "uniform_n-4")
    assert len(set(native.frame_digests)) == len(images.frame_digests) == 4
    project = write_served("http://localhost:1/v1")
    _store_again(project, "002", lambda frame: replace(frame, picture=frame.picture + b"\0"))
    assert requests(FramesAs.VIDEO_FILE).frame_digests == native.frame_digests
    assert set(requests(FramesAs.IMAGES).frame_digests).isdisjoint(images.frame_digests)
    benchmark = write_served("http://localhost:1/v1", FramesAs.VIDEO_FILE).benchmarks["videomme"]
    assert benchmark.snapshot.content_hash("002")
    copy.video("002").write_bytes(copy.video("003").read_bytes())
    with pytest.raises(VideoError, match="changed after"):
        requests_of(Inputs(benchmark, "002", benchmark.evaluations["few"]))


def test_requests_with_sound_depend_on_the_content_of_the_video(
    write_served: WriteServed, copy: Copy
) -> None:
    def requests(**entry: object) -> VideoRequests:
        benchmark = write_served("http://localhost:1/v1", **entry).benchmarks["videomme"]
        (asked,) = requests_of(Inputs(benchmark, "002", benchmark.evaluations["few"]))
        return asked

    heard, seen = requests(audio=True), requests()
    assert set(heard.frame_digests).isdisjoint(seen.frame_digests)
    frames = heard.load_frames()
    assert (frames.video, frames.sound) == (None, None), "it has no sound"


def test_frame_times_change_requests_only_of_models_that_get_times(
    write_served: WriteServed,
) -> None:
    def digests(frames_as: FramesAs) -> Sequence[str]:
        benchmark = write_served("http://localhost:1/v1", frames_as).benchmarks["videomme"]
        (asked,) = requests_of(Inputs(benchmark, "002", benchmark.evaluations["few"]))
        return asked.frame_digests

    before = {
        frames_as: digests(frames_as) for frames_as in (FramesAs.IMAGES, FramesAs.FRAME_SEQUENCE)
    }
    project = write_served("http://localhost:1/v1")
    _store_again(project, "002", lambda f: replace(f, pts_seconds=f.pts_seconds + 0.5))
    assert digests(FramesAs.IMAGES) == before[FramesAs.IMAGES]
    assert set(digests(FramesAs.FRAME_SEQUENCE)).isdisjoint(before[FramesAs.FRAME_SEQUENCE])


@pytest.mark.slow
def test_a_run_in_which_nobody_answers_fails_with_the_reason(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer(faults=always(Fault.UNAUTHORIZED)) as server:
        project = write_served(server.base_url)
        definitions = build_definitions(project)
        refreshed = definitions.resolve_job_def(REFRESH_JOB).execute_in_process(
            instance=instance, run_config={"evaluations": ["few"]}, raise_on_error=False
        )
        materialized = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=[asset_key(stage(project, "responses"))],
            partition_key="few|002",
            raise_on_error=False,
        )
    for result in (refreshed, materialized):
        assert not result.success
        (failure,) = [event for event in result.all_events if event.is_step_failure]
        data = failure.step_failure_data.user_failure_data
        assert data is not None
        assert "few: no video has all of its answers: model served" in str(data.description)
    scores = read_rows(stored_file(project.store, "scores", "videomme", "few"), ScoredQuestion)
    assert {row.outcome for row in scores} == {Outcome.FAILED}, "the other steps ran"
    complete = is_complete(stage(project, "responses"))
    assert str(complete.description).startswith("3 failed: model served")
    assert str(complete.metadata["failures"]).count("rejects the key") == 1, "one row per cause"


@pytest.mark.slow
def test_results_of_unanswered_questions_are_not_left_to_another_run(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer(faults=always(Fault.UNAUTHORIZED)) as server:
        refreshed = refresh_project(write_served(server.base_url), instance, ["few"])
    assert refreshed.left_to_others == []
    assert {"warehouse", "report_page"} <= {state.name for state in refreshed.not_fresh}


def _store_again(project: Project, video_id: str, change: Callable[[Frame], Frame]) -> None:
    """Store the frames of a video again, after a change of each."""
    benchmark = project.benchmarks["videomme"]
    sampling = benchmark.samplings["uniform_n-4"].for_duration(
        benchmark.snapshot.questions[video_id][0].duration
    )
    content = benchmark.snapshot.versions.content_hash(video_id)
    settings = benchmark.snapshot.versions.frame_settings(video_id, "uniform_n-4")
    stored = read_frames(project.store, content, settings)
    frames = [change(frame) for frame in stored.frames]
    choice = Choice(
        frames=tuple(frame.index for frame in frames),
        requested_seconds=tuple(frame.requested_seconds for frame in frames),
        asked=stored.asked,
        limit=stored.limit,
    )
    write_frames(project.store, content, sampling, choice, frames)
