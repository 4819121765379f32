"""Checks of a benchmark's local data: license, annotations, videos and subtitles.

Nothing is fetched and no file is decoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from videomme_pipeline.benchmarks.benchmark import License
from videomme_pipeline.benchmarks.locate import MediaIndex, index_media
from videomme_pipeline.benchmarks.question import videos_of
from videomme_pipeline.benchmarks.source import PublishedSource, Source
from videomme_pipeline.benchmarks.spec import SourceKind
from videomme_pipeline.errors import LicenseNotAcceptedError, VideoMMEError
from videomme_pipeline.fetch.release import VideoReference


class Verdict(StrEnum):
    """The result of a check. FAILED prevents an evaluation, WARNING does not."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check, with a message that includes the next step if it failed."""

    check: str
    verdict: Verdict
    message: str


def check_data(open_source: Callable[[], Source]) -> list[Finding]:
    """The findings about the local data of the benchmark whose source `open_source` opens.

    Nothing is read before the license is accepted. Videos and subtitles are checked only if the
    annotations can be read, since these define which videos are needed.
    """
    try:
        source = open_source()
    except LicenseNotAcceptedError as error:
        return [Finding(check="license", verdict=Verdict.FAILED, message=str(error))]
    terms = source.benchmark.license
    findings = [_accepted(terms)] if terms is not None else []
    return [*findings, *_files_found(source)] if isinstance(source, PublishedSource) else findings


def _accepted(terms: License) -> Finding:
    message = "accepted" if terms.needs_acceptance else f"{terms.name}: needs no acceptance"
    return Finding(check="license", verdict=Verdict.OK, message=message)


def _files_found(source: PublishedSource) -> list[Finding]:
    try:
        annotations = source.stored_annotations()
        if annotations is None:
            message = f"not fetched yet; the next run fetches them from {source.release.repository}"
            return [Finding(check="annotations", verdict=Verdict.WARNING, message=message)]
        questions = source.read(annotations)
        media = index_media(source.roots())
    except VideoMMEError as error:
        return [Finding(check="annotations", verdict=Verdict.FAILED, message=str(error))]
    videos = videos_of(questions)
    return [
        Finding(
            check="annotations",
            verdict=Verdict.OK,
            message=f"{len(questions):,} questions on {len(videos):,} videos in {annotations}",
        ),
        _videos_found(videos, media, source.spec.source),
        _subtitles_found(videos, media),
    ]


def _videos_found(
    videos: Sequence[VideoReference], media: MediaIndex, source: SourceKind
) -> Finding:
    missing = [video for video in videos if video.file_stem not in media.videos]
    found = f"{len(videos) - len(missing):,} of {len(videos):,} under {_listed(media.roots)}"
    if not missing:
        return Finding(check="videos", verdict=Verdict.OK, message=found)
    names = ", ".join(f"{video.video_id} ({video.file_stem})" for video in missing[:5])
    rest = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    verdict, advice = {
        SourceKind.HUB: (Verdict.WARNING, "the next run fetches them"),
        SourceKind.FOLDER: (
            Verdict.FAILED,
            "copy them there, or exclude them with `videos` or `limit`",
        ),
    }[source]
    return Finding(
        check="videos", verdict=verdict, message=f"{found}; missing: {names}{rest}; {advice}"
    )


def _subtitles_found(videos: Sequence[VideoReference], media: MediaIndex) -> Finding:
    found = sum(video.file_stem in media.subtitles for video in videos)
    return Finding(
        check="subtitles",
        verdict=Verdict.OK if found else Verdict.WARNING,
        message=f"{found:,} of {len(videos):,} videos have subtitles under {_listed(media.roots)}"
        + ("" if found else "; tracks with subtitles need them"),
    )


def _listed(roots: Sequence[Path]) -> str:
    return ", ".join(map(str, roots))
