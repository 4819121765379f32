"""Where a benchmark's questions and media come from, and the licence gate before all of it.

A benchmark is fetched from the Hugging Face Hub, or read from a folder that the user already
has. Either way nothing of it is fetched or read before its licence is accepted.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.question import Question, videos_of
from videomme_pipeline.errors import AnnotationError, ConfigurationError
from videomme_pipeline.fetch.release import Release, hub_folder, require_licence
from videomme_pipeline.fingerprint import Spec, fingerprint

RELEASES: Mapping[str, Release] = {
    release.benchmark: release for release in (videomme.RELEASE, videomme_v2.RELEASE)
}

_READERS: Mapping[str, Callable[[Path], tuple[Question, ...]]] = {
    videomme.RELEASE.benchmark: videomme.read_questions,
    videomme_v2.RELEASE.benchmark: videomme_v2.read_questions,
}

Revision = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class SourceKind(StrEnum):
    """Where the files of a benchmark come from."""

    HUB = "hub"
    FOLDER = "folder"


class BenchmarkSpec(Spec):
    """How one published benchmark gets in: its licence, where it lies, and how much of it."""

    accept_license: bool = False
    """Whether the user accepts the terms of Video-MME; nothing happens before this is true."""

    source: SourceKind = SourceKind.HUB

    folder: Path | None = None
    """The user's own folder: an unzipped download, lmms-eval's cache, a VLMEvalKit folder."""

    annotations: Path | None = None
    """The annotation file, where it does not lie in `folder`."""

    revision: Revision | None = None
    """Commit of the hub repository, 40 hexadecimal digits; None is the pinned one."""

    videos: tuple[str, ...] | None = None
    """Ids of the videos to evaluate; None is all of them."""

    limit: int | None = Field(default=None, ge=1)
    """Only the first so many videos."""

    keep_archives: bool = True
    """Whether an archive that was downloaded whole stays on disk once it is unzipped."""

    @model_validator(mode="after")
    def _folder_is_named(self) -> "BenchmarkSpec":
        if self.source is SourceKind.FOLDER and self.folder is None:
            raise ValueError("source: folder needs `folder`, the path of your copy")
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of what decides which questions there are; paths and housekeeping do not."""
        return fingerprint(revision=self.revision, videos=self.videos, limit=self.limit)


def read_benchmark(release: Release, spec: BenchmarkSpec, annotations: Path) -> list[Question]:
    """The questions on the videos that `spec` asks for, read from an annotation file.

    Raises:
        LicenseNotAcceptedError: before anything is read.
        AnnotationError: when the file is not the published one.
        ConfigurationError: when `spec` names videos that the benchmark does not have.
    """
    require_licence(release, spec)
    return select(_READERS[release.benchmark](annotations), spec)


def select(questions: Iterable[Question], spec: BenchmarkSpec) -> list[Question]:
    """The questions on the videos that `spec` asks for, in their published order.

    Raises:
        ConfigurationError: when `spec` names videos that no question is about.
    """
    held = list(questions)
    known = [video.video_id for video in videos_of(held)]
    if spec.videos is not None:
        unknown = sorted(set(spec.videos) - set(known))
        if unknown:
            raise ConfigurationError(
                f"`videos` names {', '.join(unknown[:10])}, but the benchmark has "
                f"{len(known)} videos from {known[0]} to {known[-1]}; "
                "use the three-digit `video_id`, not the YouTube id"
            )
        known = [video_id for video_id in known if video_id in set(spec.videos)]
    wanted = set(islice(known, spec.limit))
    return [question for question in held if question.video_id in wanted]


def annotations_at_hand(release: Release, spec: BenchmarkSpec, folder: Path) -> Path | None:
    """The annotation file that is there already, fetched into `folder` or the user's own.

    None when it comes from the hub and was not fetched yet.

    Raises:
        LicenseNotAcceptedError, AnnotationError, ConfigurationError: as `annotations_in`.
    """
    if spec.source is SourceKind.FOLDER:
        return annotations_in(release, spec)
    require_licence(release, spec)
    path = hub_folder(release, spec, folder) / release.annotations
    return path if path.is_file() else None


def annotations_in(release: Release, spec: BenchmarkSpec) -> Path:
    """The annotation file in the user's own folder.

    Raises:
        LicenseNotAcceptedError: before the folder is looked at.
        AnnotationError: when there is none, naming where it was looked for.
    """
    require_licence(release, spec)
    if spec.annotations is not None:
        return spec.annotations.expanduser()
    name = Path(release.annotations)
    roots = media_roots(release, spec)
    for root in roots:
        for candidate in (root / name, root / name.name):
            if candidate.is_file():
                return candidate
    raise AnnotationError(
        f"{release.benchmark}: no {release.annotations} under "
        f"{', '.join(map(str, roots))}; set `annotations` to the path of the file, or "
        f"fetch it with `source: hub`"
    )


def media_roots(release: Release, spec: BenchmarkSpec) -> tuple[Path, ...]:
    """The folders in the user's copy that may hold the benchmark, nearest first.

    `folder` may be an unzipped download itself, a VLMEvalKit folder (a snapshot in the hub
    cache with `video/` and `subtitle/` in it), `$HF_HOME` (lmms-eval unzips into
    `$HF_HOME/videomme` or `$HF_HOME/videomme_v2`), the hub cache, or a dataset's folder in it.

    Raises:
        LicenseNotAcceptedError: before the folder is looked at.
        ConfigurationError: when `spec` names no folder, or one that is not there.
    """
    require_licence(release, spec)
    folder = spec.folder.expanduser() if spec.folder else None
    if folder is None or not folder.is_dir():
        raise ConfigurationError(
            f"{release.benchmark}: `folder` is {spec.folder}, which is not a folder; set it to "
            "your copy of the benchmark, or use `source: hub`"
        )
    dataset = f"datasets--*--{release.repository.rpartition('/')[2]}"
    inside = (
        release.benchmark,
        "snapshots/*",
        f"{dataset}/snapshots/*",
        f"hub/{dataset}/snapshots/*",
    )
    found = (path for pattern in inside for path in sorted(folder.glob(pattern)))
    return (folder, *(path for path in found if path.is_dir()))
