"""Checks of a benchmark's local data: license, annotations, videos and subtitles.

Nothing is fetched and no file is decoded. Of a video, only the header is read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path

from videomme_pipeline.benchmarks import locate
from videomme_pipeline.benchmarks.question import videos_of
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.source import Source
from videomme_pipeline.errors import (
    Finding,
    LicenseNotAcceptedError,
    Status,
    VideoMissingError,
    VideoMMEError,
    listed,
)
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.videos.container import diagnose

_Unused = Mapping[str, Sequence[locate.MediaFile]]


def check_data(open_source: Callable[[], Source]) -> list[Finding]:
    """The findings about the local data of the benchmark whose source `open_source` opens.

    Nothing is read before the license is accepted. Videos and subtitles are checked only if the
    annotations can be read, since these define which videos are needed.
    """
    try:
        source = open_source()
    except LicenseNotAcceptedError as error:
        return [Finding.error("license", str(error))]
    findings = list(_data_findings(source))
    if (terms := find_benchmark(source.name).license) is not None:
        message = "accepted" if terms.needs_acceptance else f"{terms.name}: needs no acceptance"
        findings.insert(0, Finding.ok("license", message))
    return findings


def _data_findings(source: Source) -> Iterator[Finding]:
    try:
        annotated = source.stored_questions()
        if annotated is None:
            message = "not fetched yet; the next run fetches them"
            if repository := find_benchmark(source.name).repository:
                message += f" from {repository}"
            yield Finding.warning("annotations", message)
            return
        questions = annotated.questions and source.settings.select(annotated.questions)
        videos = videos_of(questions)
        # Only the names of files that are found by the id of a video can be wrong.
        by_id = [video for video in videos if video.footage.video_file is None]
        media = locate.index_media(source.roots if by_id else ())
    except VideoMMEError as error:
        yield Finding.error("annotations", str(error))
        return
    message = f"{len(questions):,} questions on {len(videos):,} videos"
    if len(annotated.files) == 1:
        message += f" in {annotated.files[0]}"
    counts = {
        "left out, without a published answer": annotated.hidden,
        "answers that equal an option except for case and spaces": annotated.inexact_answers,
        "answers that equal several options, of which the last one counts": (
            annotated.ambiguous_answers
        ),
    }
    message += "".join(f"; {kind}: {count:,}" for kind, count in counts.items() if count)
    status = Status.OK
    if annotated.unmatched:
        status = Status.WARNING
        count = f"{len(annotated.unmatched):,} questions without a correct option are left out"
        message += f"; {count}: {annotated.listed(annotated.unmatched)}"
    if annotated.problems:
        status = Status.ERROR
        count = f"unusable rows, {len(annotated.problems):,}"
        message += f"; {count}: {annotated.listed(annotated.problems)}"
    yield Finding(status, message, check="annotations")
    unused = locate.unused_files(media)
    yield _video_finding(source, videos, unused)
    yield _subtitle_finding(source, videos, unused)
    yield from _duplicates(by_id, media, unused)


def _video_finding(source: Source, videos: Sequence[VideoReference], unused: _Unused) -> Finding:
    missing, broken = [], list[str]()
    for video in videos:
        try:
            file = source.video_file(video)
            if isinstance(file, Path) and (problem := diagnose(file)):
                broken.append(f"{file.name}: {problem}")
        except VideoMissingError:
            missing.append(video)
        except OSError as error:
            broken.append(str(error))
    roots = ", ".join(map(str, source.roots))
    message = f"{len(videos) - len(missing) - len(broken):,} of {len(videos):,} under {roots}"
    if broken:
        message += f"; replace these with the videos themselves: {listed(broken, separator='; ')}"
    if not missing:
        return Finding.error("videos", message) if broken else Finding.ok("videos", message)
    names = [
        video.footage.video_file or f"{video.video_id} ({video.file_stem})" for video in missing
    ]
    advice = "copy them there, or exclude them with `videos` or `limit`"
    if source.is_fetched:
        advice = "the next run fetches them"
    message += f"; missing: {listed(list(dict.fromkeys(names)))}; {advice}"
    others = _names(unused, missing, lambda name: not locate.is_subtitle(name))
    if others:
        message += f". Only {' and '.join(locate.VIDEO_SUFFIXES)} are read: convert {others}"
    status = Status.WARNING if source.is_fetched and not broken else Status.ERROR
    return Finding(status, message, check="videos")


def _subtitle_finding(source: Source, videos: Sequence[VideoReference], unused: _Unused) -> Finding:
    missing = [video for video in videos if source.subtitle(video) is None]
    by_id = [video for video in missing if video.footage.video_file is None]
    others = _names(unused, by_id, locate.is_subtitle) or listed(_subtitles_beside(source, missing))
    message = (
        f"{len(videos) - len(missing):,} of {len(videos):,} videos have subtitles under "
        f"{', '.join(map(str, source.roots))}"
    )
    status = Status.OK
    if others:
        status = Status.WARNING
        name = "<id>" if by_id else "<name of the video>"
        message += f"; not read: {others}; rename them to {name}{locate.SUBTITLE_SUFFIXES[0]}"
        message += f" (or {', '.join(locate.SUBTITLE_SUFFIXES[1:])})"
        if not by_id and not source.has_subtitles:
            message += ", and set `subtitles` in the declaration to their folder"
    elif len(missing) == len(videos) and source.has_subtitles:
        status = Status.WARNING
        message += "; tracks with subtitles need them"
    return Finding(status, message, check="subtitles")


def _subtitles_beside(source: Source, videos: Sequence[VideoReference]) -> list[str]:
    """The names of the subtitle files in the folders of `videos`, which have none that is read."""
    names: list[str] = []
    for video in videos:
        try:
            file = source.video_file(video)
        except VideoMissingError:
            continue
        if isinstance(file, Path):
            beside = sorted(file.parent.glob(f"{escape(file.stem)}.*"))
            names += [path.name for path in beside if locate.is_subtitle(path.name)]
    return names


def _duplicates(
    videos: Sequence[VideoReference], media: locate.MediaIndex, unused: _Unused
) -> Iterator[Finding]:
    pairs = [
        f"{used} is read, {other} is not"
        for video in videos
        if (used := media.videos.get(video.file_stem))
        for other in unused.get(video.file_stem, ())
        if other.stem == used.stem
        and other.suffix.lower() in locate.VIDEO_SUFFIXES
        and locate.state_of(other).bytes != locate.state_of(used).bytes
    ]
    if pairs:
        message = f"two files of one video: {listed(pairs, separator='; ')}; remove one of them"
        yield Finding.warning("duplicates", message)


def _names(
    unused: _Unused, videos: Sequence[VideoReference], is_listed: Callable[[str], bool]
) -> str:
    names = [
        path.name
        for video in videos
        for path in unused.get(video.file_stem, ())
        if is_listed(path.name)
    ]
    return listed(names)
