"""Videos and frames: a file that cannot be read fails alone, and no file is opened here."""

import sys

import pytest

from tests.support.builders import declare_samples
from tests.support.projects import Copy, stage
from videomme_pipeline.assets.stages.checks import is_complete
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import VideoPartition
from videomme_pipeline.stages.refresh import refresh
from videomme_pipeline.stages.stage import AnyStage, BuildResult


def failures(built_stage: AnyStage) -> dict[str, str]:
    """Build all partitions of a stage, and return the reasons of those that failed by video."""
    list(refresh(built_stage, built_stage.partitions(["few"])))
    return {
        str(partition.video): reason for partition, reason in built_stage.failures.reasons().items()
    }


def test_unreadable_files_fail_their_videos_and_this_process_opens_no_video(
    project: Project, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.video("002").write_bytes(copy.video("002").read_bytes() + b"\0\0\0\x08free")
    copy.video("003").unlink()
    copy.video("003").symlink_to(copy.video("003").name)
    declare_samples(copy.video("004"), "stsz", (1 << 31) - 1)
    monkeypatch.setitem(sys.modules, "av", None)  # an import of libav fails in this process
    videos = stage(project, "videos")
    reasons = failures(videos)
    assert "symbolic links" in reasons.pop("003")
    assert "'stsz' declares 2,147,483,647 samples" in reasons.pop("004")
    assert reasons == {}
    built = VideoPartition("002")
    assert videos.has(built, videos.fingerprint(built))


def test_an_unreadable_subtitle_file_fails_only_its_video(project: Project, copy: Copy) -> None:
    copy.subtitle("003").unlink()
    copy.subtitle("003").symlink_to(copy.subtitle("003").name)
    reasons = failures(stage(project, "videos"))
    assert reasons.keys() == {"003"}
    assert "subtitle file" in reasons["003"]
    assert "replace or remove it" in reasons["003"]


def test_a_partition_without_a_video_fails_alone_and_is_no_failure_of_the_asset(
    project: Project,
) -> None:
    videos = stage(project, "videos")
    requested = [*videos.partitions(), VideoPartition("zzz")]
    assert [*refresh(videos, requested)]
    assert videos.failures.reasons() == {
        VideoPartition("zzz"): "videomme has no video zzz; materialize `questions`, which removes "
        "the partition"
    }
    assert is_complete(videos).passed


def test_a_video_that_goes_or_changes_after_probing_fails_alone(
    project: Project, copy: Copy
) -> None:
    copy.video("002").unlink()
    copy.video("003").write_bytes(copy.video("003").read_bytes() + b"more")
    for path in project.store.path("frames").rglob("*.parquet"):
        path.unlink()
    frames = stage(project, "frames")
    reasons = failures(frames)
    assert reasons.keys() == {"002", "003"}
    assert "no file" in reasons["002"]
    assert "videomme/videos 003 is not up to date" in reasons["003"]
    assert all(
        frames.path_of(frames.target(p)).exists() == (p.video == "004")
        for p in frames.partitions(["few"])
    )


def test_frames_that_another_run_has_stored_meanwhile_do_not_count_as_built(
    project: Project,
) -> None:
    frames = stage(project, "frames")
    targets = [frames.target(partition) for partition in frames.partitions(["few"])]
    frames.path_of(targets[0]).unlink()
    results = [result for result in frames.build(targets) if isinstance(result, BuildResult)]
    assert {result.target.partition: result.by_others for result in results} == {
        target.partition: target is not targets[0] for target in targets
    }
