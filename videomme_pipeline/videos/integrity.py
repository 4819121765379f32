"""Checks of a benchmark's local data: license, annotations, videos and subtitles.

Nothing is fetched and no file is decoded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from videomme_pipeline.benchmarks.benchmark import License
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.benchmarks.locate import (
    SUBTITLE_SUFFIXES,
    VIDEO_SUFFIXES,
    MediaFile,
    MediaIndex,
    index_media,
    state_of,
    unused_files,
)
from videomme_pipeline.benchmarks.question import videos_of
from videomme_pipeline.benchmarks.settings import SourceKind, select
from videomme_pipeline.benchmarks.source import PublishedSource, Source
from videomme_pipeline.errors import LicenseNotAcceptedError, VideoMissingError, VideoMMEError
from videomme_pipeline.fetch.release import VideoReference

_Unused = Mapping[str, Sequence[MediaFile]]
_LISTED = 5


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
    if isinstance(source, PublishedSource):
        return [*findings, *_files_found(source)]
    if isinstance(source, DeclaredSource):
        return [*findings, *_declared_found(source)]
    return findings


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
    videos, unused = videos_of(questions), unused_files(media)
    return [
        Finding(
            check="annotations",
            verdict=Verdict.OK,
            message=f"{len(questions):,} questions on {len(videos):,} videos in {annotations}",
        ),
        _videos_found(videos, media, source.spec.source, unused),
        _subtitles_found(videos, media, unused),
        *_duplicates(videos, media, unused),
    ]


def _declared_found(source: DeclaredSource) -> Iterator[Finding]:
    """Yield the findings about a declared benchmark: each kind of problem of all its rows."""
    try:
        if not source.stored_annotations():
            message = "not fetched yet; the next run fetches them"
            yield Finding(check="annotations", verdict=Verdict.WARNING, message=message)
            return
        annotated = source.annotated()
        questions = select(annotated.questions, source.spec) if annotated.questions else []
    except VideoMMEError as error:
        yield Finding(check="annotations", verdict=Verdict.FAILED, message=str(error))
        return
    videos = videos_of(questions)
    found = f"{len(questions):,} questions on {len(videos):,} videos"
    if annotated.hidden:
        found += f"; {annotated.hidden:,} rows without a published answer are left out"
    if annotated.problems:
        count = f"{len(annotated.problems):,} rows cannot be used"
        message = f"{found}; {count}: {annotated.listed_problems}"
        yield Finding(check="annotations", verdict=Verdict.FAILED, message=message)
    else:
        yield Finding(check="annotations", verdict=Verdict.OK, message=found)
    yield from _declared_media(source, videos)


def _declared_media(source: DeclaredSource, videos: Sequence[VideoReference]) -> Iterator[Finding]:
    missing = []
    for video in videos:
        try:
            source.video_file(video)
        except VideoMissingError:
            missing.append(video.footage.video_file or video.video_id)
    names = list(dict.fromkeys(missing))
    found = f"{len(videos) - len(missing):,} of {len(videos):,} under {_listed(source.roots())}"
    if names:
        rest = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
        verdict = Verdict.WARNING if source.is_fetched else Verdict.FAILED
        advice = "the next run fetches them" if source.is_fetched else "copy them there"
        found += f"; missing: {', '.join(names[:_LISTED])}{rest}; {advice}"
        yield Finding(check="videos", verdict=verdict, message=found)
    else:
        yield Finding(check="videos", verdict=Verdict.OK, message=found)
    count = sum(source.subtitle(video) is not None for video in videos)
    message = f"{count:,} of {len(videos):,} videos have subtitles"
    yield Finding(check="subtitles", verdict=Verdict.OK, message=message)


def _videos_found(
    videos: Sequence[VideoReference], media: MediaIndex, source: SourceKind, unused: _Unused
) -> Finding:
    missing = [video for video in videos if video.file_stem not in media.videos]
    found = f"{len(videos) - len(missing):,} of {len(videos):,} under {_listed(media.roots)}"
    if not missing:
        return Finding(check="videos", verdict=Verdict.OK, message=found)
    names = ", ".join(f"{video.video_id} ({video.file_stem})" for video in missing[:_LISTED])
    rest = f" and {len(missing) - _LISTED:,} more" if len(missing) > _LISTED else ""
    verdict, advice = {
        SourceKind.HUB: (Verdict.WARNING, "the next run fetches them"),
        SourceKind.FOLDER: (
            Verdict.FAILED,
            "copy them there, or exclude them with `videos` or `limit`",
        ),
    }[source]
    others = _names(unused, missing, lambda name: not name.endswith(SUBTITLE_SUFFIXES))
    if others:
        advice += f". Only {' and '.join(VIDEO_SUFFIXES)} are read: convert {others}"
    return Finding(
        check="videos", verdict=verdict, message=f"{found}; missing: {names}{rest}; {advice}"
    )


def _subtitles_found(
    videos: Sequence[VideoReference], media: MediaIndex, unused: _Unused
) -> Finding:
    missing = [video for video in videos if video.file_stem not in media.subtitles]
    others = _names(unused, missing, lambda name: name.endswith(SUBTITLE_SUFFIXES))
    message = (
        f"{len(videos) - len(missing):,} of {len(videos):,} videos have subtitles under "
        f"{_listed(media.roots)}"
    )
    if others:
        message += f"; not read: {others}; rename them to <id>{SUBTITLE_SUFFIXES[0]}"
    elif len(missing) == len(videos):
        message += "; tracks with subtitles need them"
    is_ok = len(missing) < len(videos) and not others
    return Finding(
        check="subtitles", verdict=Verdict.OK if is_ok else Verdict.WARNING, message=message
    )


def _duplicates(
    videos: Sequence[VideoReference], media: MediaIndex, unused: _Unused
) -> Iterator[Finding]:
    """Yield a warning about videos with two files of different sizes."""
    found = [
        f"{used} is read, {other} is not"
        for video in videos
        if (used := media.videos.get(video.file_stem))
        for other in unused.get(video.file_stem, ())
        if other.stem == used.stem
        and other.suffix.lower() in VIDEO_SUFFIXES
        and state_of(other).bytes != state_of(used).bytes
    ]
    if found:
        rest = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
        message = f"two files of one video: {'; '.join(found[:_LISTED])}{rest}; remove one of them"
        yield Finding(check="duplicates", verdict=Verdict.WARNING, message=message)


def _names(
    unused: _Unused, videos: Sequence[VideoReference], is_wanted: Callable[[str], bool]
) -> str:
    """The names of the first wanted files of `videos` that are not read."""
    found = [
        path.name
        for video in videos
        for path in unused.get(video.file_stem, ())
        if is_wanted(path.name)
    ]
    rest = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
    return ", ".join(found[:_LISTED]) + rest


def _listed(roots: Sequence[Path]) -> str:
    return ", ".join(map(str, roots))
