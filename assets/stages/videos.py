"""`videos`: the file of each video, its stream facts, and the index of its packets."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain

from videomme_pipeline.assets.stages.base import (
    BenchmarkStage,
    Built,
    Failed,
    Results,
    Target,
    Targets,
)
from videomme_pipeline.errors import NotReadyError, VideoError, VideoMissingError, VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import VideoPartition
from videomme_pipeline.storage.tables import read_rows, write_rows
from videomme_pipeline.videos.probe import (
    ProbeJob,
    ProbeResult,
    Video,
    hash_and_probe,
    probe_videos,
    video_hash,
)


class Videos(BenchmarkStage[VideoPartition]):
    """Fetches (or draws) missing videos, then hashes and probes them.

    The data version is the hash of the file's bytes, so renaming, moving or refetching a video
    makes nothing stale. The path in a row is the path at the time of probing.
    """

    name = "videos"
    description = "One row per video: content hash, stream facts and the packet index."
    upstream = ("questions",)
    kinds = frozenset({"ffmpeg", "parquet"})
    uses_workers = True
    row_class = Video

    def __init__(self, project: Project, benchmark: str) -> None:
        super().__init__(project, benchmark)
        self._probed: dict[ProbeJob, ProbeResult] = {}
        """The results of videos that were hashed and probed in one task."""

    def prepare(self, partitions: Sequence[VideoPartition]) -> Iterator[Failed[VideoPartition]]:
        snapshot = self.benchmark.snapshot
        ids = [partition.video for partition in partitions if partition.video in snapshot.questions]

        def report(done: int, total: int) -> None:
            self.show("videos", done, total, f"{done} of {total} videos are on disk.")

        try:
            problems = snapshot.source.fetch(
                [snapshot.reference(video_id) for video_id in ids], report
            )
        except VideoMMEError as error:
            problems = dict.fromkeys(ids, str(error))
        self.benchmark.invalidate()
        if self.project.cluster is not None:
            self._probe_ahead([video_id for video_id in ids if video_id not in problems])
        for video_id, reason in problems.items():
            yield Failed(partition=VideoPartition(video_id), reason=reason)

    def _probe_ahead(self, ids: Sequence[str]) -> None:
        """Hash and probe the videos whose hash is unknown, which this machine would hash."""
        jobs = []
        for video_id in ids:
            with suppress(VideoMissingError):
                jobs.append(self._job(video_id, content_hash=""))
        with self.project.workers() as workers:
            results = hash_and_probe(jobs, workers, self.project.hashes, self.store.packets)
            self._probed = {result.task: result for result in results}

    def target(self, partition: VideoPartition) -> Target[VideoPartition]:
        snapshot, video_id = self.benchmark.snapshot, partition.video
        try:
            files = snapshot.source.files(snapshot.reference(video_id))
        except VideoMissingError as error:
            raise NotReadyError(str(error)) from error
        content = video_hash(files.video, video_id, self.project.hashes)
        subtitle_hash = snapshot.subtitle_hash(video_id)
        clip = snapshot.reference(video_id).footage.clip
        return Target(
            partition=partition,
            fingerprint=fingerprint(
                self.name, self.code_version, content, subtitle_hash, *([clip] if clip else [])
            ),
            data_version=content,
            path=self.store.video(self.benchmark.name, video_id),
            inputs=self.inputs(),
        )

    def is_current(self, target: Target[VideoPartition]) -> bool:
        """Compare fingerprints, because a row also depends on the subtitle file of its video."""
        stored = self.benchmark.snapshot.stored_videos.get(target.partition.video)
        return stored is not None and stored.fingerprint == target.fingerprint

    def build(self, targets: Targets[VideoPartition]) -> Results[VideoPartition]:
        by_video = {target.partition.video: target for target in targets}
        jobs = [self._job(t.partition.video, content_hash=t.data_version) for t in targets]
        probed, self._probed = self._probed, {}
        others = [job for job in jobs if job not in probed]
        with (
            self.project.workers() as workers,
            closing(probe_videos(others, workers=workers)) as results,
        ):
            ahead = [probed[job] for job in jobs if job in probed]
            for number, result in enumerate(chain(ahead, results), start=1):
                yield self._report(by_video[result.task.video_id], result)
                stored = f"{number} of {len(jobs)} videos are probed."
                self.show("probed videos", number, len(jobs), stored, workers.description)
        self.benchmark.invalidate()

    def metadata(self, target: Target[VideoPartition]) -> dict[str, object]:
        return _metadata(*read_rows(target.path, Video))

    def _job(self, video_id: str, *, content_hash: str) -> ProbeJob:
        """The probe of a video.

        Raises:
            VideoMissingError: if there is no file.
        """
        snapshot = self.benchmark.snapshot
        files = snapshot.source.files(snapshot.reference(video_id))
        return ProbeJob(
            benchmark=self.benchmark.name,
            video_id=video_id,
            path=files.video,
            content_hash=content_hash,
            clip=snapshot.reference(video_id).footage.clip,
            subtitle_path=files.subtitle,
            subtitle_hash=snapshot.subtitle_hash(video_id),
            index_file=self.store.packets(content_hash),
        )

    def _report(
        self, target: Target[VideoPartition], result: ProbeResult
    ) -> Built[VideoPartition] | Failed[VideoPartition]:
        try:
            return Built(target=target, metadata=_metadata(self._store(target, result)))
        except VideoMMEError as error:
            return Failed(partition=target.partition, reason=str(error))

    def _store(self, target: Target[VideoPartition], result: ProbeResult) -> Video:
        """Store the row of a video, whose packet index is stored already.

        Raises:
            VideoError: if it could not be probed, or its file changed meanwhile.
        """
        job, video = result.task, result.result()
        if video_hash(job.path, job.video_id, self.project.hashes) != job.content_hash:
            self.store.packets(job.content_hash).unlink(missing_ok=True)
            raise VideoError(
                job.video_id, f"{job.path}: the file changed while it was read; run again"
            )
        write_rows(target.path, [video], Video, fingerprint=target.fingerprint)
        return video


def _metadata(video: Video) -> dict[str, object]:
    return {
        "seconds": video.timing.duration_seconds,
        "frames": video.timing.frame_count,
        "keyframes": video.timing.keyframe_count,
        "bytes": video.bytes,
        "codec": video.stream.codec,
        "size": f"{video.stream.width}x{video.stream.height}",
        "subtitles": video.subtitle_path is not None,
    }
