"""Responses of videos with missing frames, and the frame digests in requests."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from assets.stages.base import Failed
from tests.support.model_server import ModelServer
from tests.support.projects import EVALUATIONS, VIDEOS, WriteProject, stage
from tests.support.stored_frames import write_frames
from videomme_pipeline.frames.cache import read_frames
from videomme_pipeline.frames.sampling import Choice
from videomme_pipeline.models.openai.endpoints import FramesAs
from videomme_pipeline.project.asking import requests_of
from videomme_pipeline.project.partitions import VideoVariantPartition
from videomme_pipeline.project.project import Project

WriteServed = Callable[..., Project]


@pytest.fixture
def write_served(project: Project, write_project: WriteProject, root: Path) -> WriteServed:
    """The built project, with the evaluation `few` changed to a model at an endpoint."""

    def write_served(base_url: str, frames_as: FramesAs = FramesAs.IMAGES) -> Project:
        entry = {"base_url": base_url, "profile": "vllm", "frames_as": frames_as.value}
        (root / "configuration" / "models.yaml").write_text(yaml.safe_dump({"served": entry}))
        return write_project({"few": {**EVALUATIONS["few"], "model": "served"}})

    return write_served


def test_missing_or_damaged_frames_fail_only_their_own_video(write_served: WriteServed) -> None:
    with ModelServer() as server:
        project = write_served(server.base_url)
        frames, responses = stage(project, "frames"), stage(project, "responses")
        missing, damaged, intact = [
            frames.target(VideoVariantPartition(video_id, "uniform_n-4")).path
            for video_id in VIDEOS
        ]
        missing.unlink()
        damaged.write_bytes(damaged.read_bytes()[:-9])
        partitions = [VideoVariantPartition(video_id, "few") for video_id in VIDEOS]
        results = list(responses.build([responses.target(partition) for partition in partitions]))
        assert server.request_count == 3
    reasons = {item.partition.video: item.reason for item in results if isinstance(item, Failed)}
    assert list(reasons) == ["002", "003"]
    assert "materialize it first" in reasons["002"]
    assert "run again to rebuild it" in reasons["003"]
    assert not damaged.exists()
    assert intact.exists()


def test_frame_times_change_requests_only_if_the_model_is_sent_them(
    write_served: WriteServed,
) -> None:
    def digests(frames_as: FramesAs) -> Sequence[str]:
        benchmark = write_served("http://localhost:1/v1", frames_as).benchmarks["videomme"]
        return requests_of(benchmark, "002", benchmark.evaluations["few"]).frame_digests

    before = {frames_as: digests(frames_as) for frames_as in (FramesAs.IMAGES, FramesAs.VIDEO)}
    _show_later(write_served("http://localhost:1/v1"), "002")
    assert digests(FramesAs.IMAGES) == before[FramesAs.IMAGES]
    assert set(digests(FramesAs.VIDEO)).isdisjoint(before[FramesAs.VIDEO])


def _show_later(project: Project, video_id: str) -> None:
    """Store the frames of a video again, with times half a second later."""
    benchmark = project.benchmarks["videomme"]
    sampling = benchmark.samplings["uniform_n-4"].for_duration(
        benchmark.snapshot.questions[video_id][0].duration
    )
    content = benchmark.snapshot.versions.video(video_id)
    stored = read_frames(
        project.store, content, benchmark.snapshot.versions.frame_settings(video_id, sampling)
    )
    frames = [replace(frame, pts_seconds=frame.pts_seconds + 0.5) for frame in stored.frames]
    choice = Choice(
        frames=tuple(frame.index for frame in frames),
        requested_seconds=tuple(frame.requested_seconds for frame in frames),
        asked=stored.asked,
        limit=stored.limit,
    )
    write_frames(project.store, content, sampling, choice, frames)
