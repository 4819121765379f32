"""`videos`: the file of each video, what it is, and where each of its pictures stands in it."""

from collections.abc import Iterator, Sequence

from assets.errors import NotReadyError
from assets.partitions import Cell
from assets.resources import Progress
from assets.stages.base import BenchmarkStage, Failed, Made, Target
from videomme_pipeline.errors import VideoMissingError, VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.store import write_rows
from videomme_pipeline.videos.packets import INDEX_VERSION
from videomme_pipeline.videos.probe import Video, content_hash, probe_video


class Videos(BenchmarkStage):
    """Fetched (or drawn) where it is missing, then hashed and probed; no picture is kept.

    Its data version is the hash of the file's bytes: a video that is renamed, moved or fetched
    again makes nothing stale. (A row's path is where the file was when it was probed.)
    """

    name = "videos"
    description = "One row a video: content hash, stream facts and the packet index."
    upstream = ("questions",)
    kinds = frozenset({"ffmpeg", "parquet"})
    row_class = Video
    code_version = f"1.{INDEX_VERSION}"

    def prepare(self, cells: Sequence[Cell]) -> Iterator[Failed]:
        ids = [cell.video for cell in cells if cell.video is not None]
        media, report = self.benchmark.media, self.benchmark.project.on_progress
        what = f"{self.benchmark.name}: videos"
        try:
            problems = media.fetch(
                [self.benchmark.reference(video_id) for video_id in ids],
                lambda done, total: report(Progress(what=what, done=done, total=total)),
            )
        except VideoMMEError as error:
            problems = dict.fromkeys(ids, str(error))
        self.benchmark.look_again()
        for video_id, reason in problems.items():
            yield Failed(cell=Cell(video=video_id), reason=reason)

    def target(self, cell: Cell) -> Target:
        assert cell.video is not None
        try:
            files = self.benchmark.media.files(self.benchmark.reference(cell.video))
        except VideoMissingError as error:
            raise NotReadyError(str(error)) from error
        hashes = self.benchmark.project.hashes
        video_hash = content_hash(files.video, hashes)
        subtitle_hash = self.benchmark.subtitle_hash(cell.video)
        return Target(
            cell=cell,
            fingerprint=fingerprint(self.name, self.code_version, video_hash, subtitle_hash),
            data_version=video_hash,
            path=self.benchmark.store.video(self.benchmark.name, cell.video),
            inputs=self.inputs(),
        )

    def is_current(self, target: Target) -> bool:
        """A row also says which subtitles the video has."""
        held = self.benchmark.stored_videos.get(str(target.cell.video))
        return held is not None and held.fingerprint == target.fingerprint

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        for target in targets:
            assert target.cell.video is not None
            try:
                video = self._make(target, target.cell.video)
            except VideoMMEError as error:
                yield Failed(cell=target.cell, reason=str(error))
                continue
            yield Made(
                target=target,
                metadata={
                    "seconds": video.duration_seconds,
                    "frames": video.frame_count,
                    "keyframes": video.keyframe_count,
                    "bytes": video.bytes,
                    "codec": video.codec,
                    "size": f"{video.width}x{video.height}",
                    "subtitles": video.subtitle_path is not None,
                },
            )
        self.benchmark.look_again()

    def _make(self, target: Target, video_id: str) -> Video:
        files = self.benchmark.media.files(self.benchmark.reference(video_id))
        video, index = probe_video(
            files.video,
            benchmark=self.benchmark.name,
            video_id=video_id,
            subtitle_path=files.subtitle,
            hashes=self.benchmark.project.hashes,
        )
        index.save(self.benchmark.store.packets(video.content_hash))
        write_rows(target.path, [video], Video, fingerprint=target.fingerprint)
        return video
