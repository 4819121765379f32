"""`videos`: the file of each video, its stream facts, and the index of its packets."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain

from videomme_pipeline.errors import NotReadyError, VideoError, VideoMissingError, VideoMMEError
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, VideoPartition
from videomme_pipeline.stages import stage as stages
from videomme_pipeline.stages.facts import Facts
from videomme_pipeline.videos import probe


def _fingerprint(benchmark: BenchmarkState, partition: VideoPartition) -> str:
    """The fingerprint of a video's row, which is stale while the file of its video is missing."""
    snapshot = benchmark.snapshot
    try:
        snapshot.video_file(partition.video)
    except VideoMissingError as error:
        raise NotReadyError(str(error)) from error
    return snapshot.versions.video(partition.video)


def _prepare(
    stage: stages.BenchmarkStage, partitions: Sequence[VideoPartition]
) -> Iterator[stages.BuildFailure]:
    """Fetch (or draw) missing videos, and hash all videos whose hash is not known."""
    snapshot = stage.benchmark.snapshot
    ids = [partition.video for partition in partitions if partition.video in snapshot.questions]

    def report(done: int, total: int) -> None:
        stage.show("videos", done, total, f"{done} of {total} videos are on disk.")

    try:
        problems = dict(
            snapshot.source.fetch([snapshot.reference(video_id) for video_id in ids], report)
        )
    except VideoMMEError as error:
        problems = dict.fromkeys(ids, str(error))
    stage.invalidate()
    present = [video_id for video_id in ids if video_id not in problems]
    if stage.project.cluster is not None:
        _probe_ahead(stage, present)
    for video_id in present:
        try:
            with suppress(VideoMissingError):
                path = snapshot.video_file(video_id)
                probe.video_hash(path, video_id, stage.project.hashes)
        except VideoMMEError as error:
            problems[video_id] = str(error)
    stage.invalidate()
    for video_id, reason in problems.items():
        yield stages.BuildFailure(partition=VideoPartition(video_id), reason=reason)


def _probe_ahead(stage: stages.BenchmarkStage, ids: Sequence[str]) -> None:
    """Hash and probe the videos whose hash is unknown, which this machine would hash."""
    jobs = []
    for video_id in ids:
        with suppress(VideoMissingError):
            jobs.append(_job(stage, video_id, content_hash=""))
    project = stage.project
    with project.workers() as workers:
        results = probe.hash_and_probe(jobs, workers, project.hashes, project.store.packets)
        stage.cache.update({result.task: result for result in results})


def _build(stage: stages.BenchmarkStage, targets: stages.Targets) -> stages.BuildEvents:
    by_video = {str(target.partition.video): target for target in targets}
    content_hash = stage.benchmark.snapshot.content_hash
    jobs = [_job(stage, video_id, content_hash=content_hash(video_id)) for video_id in by_video]
    probed: Mapping[probe.ProbeJob, probe.ProbeResult] = dict(stage.cache)
    stage.cache.clear()
    others = [job for job in jobs if job not in probed]
    with (
        stage.project.workers() as workers,
        closing(probe.probe_videos(others, workers=workers)) as results,
    ):
        ahead = [probed[job] for job in jobs if job in probed]
        for number, result in enumerate(chain(ahead, results), start=1):
            target = by_video[result.task.video_id]
            yield from stages.each([target], partial(_store, stage, result))
            stored = f"{number} of {len(jobs)} videos are probed."
            stage.show("probed videos", number, len(jobs), stored, workers.description)
    stage.invalidate()


def _job(stage: stages.BenchmarkStage, video_id: str, *, content_hash: str) -> probe.ProbeJob:
    snapshot = stage.benchmark.snapshot
    reference = snapshot.reference(video_id)
    return probe.ProbeJob(
        benchmark=stage.benchmark.name,
        video_id=video_id,
        path=snapshot.video_file(video_id),
        content_hash=content_hash,
        clip=reference.footage.clip,
        subtitle_path=snapshot.source.subtitle(reference),
        subtitle_hash=snapshot.subtitle_hash(video_id),
        index_file=stage.project.store.packets(content_hash),
    )


def _store(stage: stages.BenchmarkStage, result: probe.ProbeResult, target: stages.Target) -> Facts:
    """Store the row of a video, whose packet index is stored already."""
    job, video = result.task, result.result()
    if probe.video_hash(job.path, job.video_id, stage.project.hashes) != job.content_hash:
        stage.project.store.packets(job.content_hash).unlink(missing_ok=True)
        raise VideoError(job.video_id, f"{job.path}: the file changed while it was read; run again")
    stage.write(target, [video])
    return {
        "seconds": video.timing.duration_seconds,
        "frames": video.timing.frame_count,
        "keyframes": video.timing.keyframe_count,
        "bytes": video.bytes,
        "codec": video.stream.codec,
        "size": f"{video.stream.width}x{video.stream.height}",
        "subtitles": video.subtitle_path is not None,
    }


VIDEOS = stages.Stage(
    name="videos",
    description="One row per video: content hash, stream facts and the packet index.",
    dimensions=frozenset({Dimension.VIDEO}),
    upstream=("questions",),
    kinds=frozenset({"ffmpeg", "parquet"}),
    row_class=probe.Video,
    fingerprint=_fingerprint,
    inputs=lambda benchmark, partition: {
        "content": benchmark.snapshot.content_hash(partition.video),
        "subtitle file": benchmark.snapshot.subtitle_hash(partition.video),
    },
    prepare=_prepare,
    build=_build,
    uses_workers=True,
)
"""The stage that fetches (or draws) missing videos, then hashes and probes them.

The path in a row is the path at the time of probing."""
