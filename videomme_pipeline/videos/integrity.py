"""What of a benchmark's data is there, for people: licence, annotations, videos, subtitles.

Only looks; nothing is fetched and no file is decoded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from videomme_pipeline.benchmarks.locate import MediaIndex, index_media
from videomme_pipeline.benchmarks.question import videos_of
from videomme_pipeline.benchmarks.source import (
    BenchmarkSpec,
    SourceKind,
    annotations_at_hand,
    media_roots,
    read_benchmark,
)
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fetch.release import Release, VideoReference, require_licence


class Verdict(StrEnum):
    """How a check ended: fine, worth knowing, or in the way of an evaluation."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check and what it found, in a sentence that says what to do."""

    check: str
    verdict: Verdict
    message: str


def check_data(release: Release, spec: BenchmarkSpec, folder: Path) -> list[Finding]:
    """What is there of a benchmark; `folder` is where fetched data lies.

    Stops at the first check that the later ones depend on: without the licence nothing is read,
    without annotations nobody knows which videos are wanted.
    """
    try:
        require_licence(release, spec)
    except VideoMMEError as error:
        return [Finding(check="licence", verdict=Verdict.FAILED, message=str(error))]
    findings = [Finding(check="licence", verdict=Verdict.OK, message="accepted")]
    try:
        annotations = annotations_at_hand(release, spec, folder)
        if annotations is None:
            message = f"not fetched yet; they will be, from {release.repository}"
            return [
                *findings,
                Finding(check="annotations", verdict=Verdict.WARNING, message=message),
            ]
        questions = read_benchmark(release, spec, annotations)
        is_fetched = spec.source is SourceKind.HUB
        media = index_media([folder] if is_fetched else media_roots(release, spec))
    except VideoMMEError as error:
        return [
            *findings,
            Finding(check="annotations", verdict=Verdict.FAILED, message=str(error)),
        ]
    videos = videos_of(questions)
    return [
        *findings,
        Finding(
            check="annotations",
            verdict=Verdict.OK,
            message=f"{len(questions):,} questions on {len(videos):,} videos in {annotations}",
        ),
        _videos_found(videos, media, spec.source),
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
        SourceKind.HUB: (Verdict.WARNING, "they will be fetched"),
        SourceKind.FOLDER: (
            Verdict.FAILED,
            "put them there, or leave them out with `videos` or `limit`",
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
        message=f"{found:,} of {len(videos):,} videos have them under {_listed(media.roots)}"
        + ("" if found else "; a track with subtitles needs them"),
    )


def _listed(roots: Sequence[Path]) -> str:
    return ", ".join(map(str, roots))
