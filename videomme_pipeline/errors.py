"""The error tree: everything this project raises on purpose derives from `VideoMMEError`.

An error names the item, what was found and what to do next, in one paragraph.
Errors that one stage alone raises still live here, so that a caller can read in one
place what may go wrong. No recovery logic belongs in this module.
"""


class VideoMMEError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigurationError(VideoMMEError):
    """A configuration file or option says something that cannot be carried out."""


class LicenceNotAcceptedError(ConfigurationError):
    """Video-MME data was asked for before its licence terms were accepted."""

    def __init__(self, benchmark: str) -> None:
        self.benchmark = benchmark
        super().__init__(
            f"{benchmark}: Video-MME is for academic research only; its videos, questions and "
            "frames must not be used commercially, copied on or published (terms: "
            "https://github.com/MME-Benchmarks/Video-MME#license). If you accept them, set "
            "`accept_license: true` for this benchmark in the benchmarks file; nothing of it is "
            "fetched or read before."
        )


class AnnotationError(VideoMMEError):
    """An annotation file does not have the published schema, size or checksum."""


class DownloadError(VideoMMEError):
    """A file could not be fetched, or what came is not what was pinned."""


class ArchiveError(VideoMMEError):
    """An archive is damaged, incomplete or tries to write outside its folder."""


class VideoError(VideoMMEError):
    """One video cannot be used. Other videos are not affected."""

    def __init__(self, video_id: str, message: str) -> None:
        self.video_id = video_id
        super().__init__(f"video {video_id}: {message}")


class VideoMissingError(VideoError):
    """The annotations name a video that is not on disk."""


class VideoUnreadableError(VideoError):
    """The file of a video holds no picture that can be decoded."""


class FrameCacheError(VideoMMEError):
    """A cached frame file is not what was written (it is set aside and made again)."""


class SubtitleError(VideoMMEError):
    """A subtitle file cannot be read at all (one bad cue is skipped and counted instead)."""


class PromptError(VideoMMEError):
    """A prompt template cannot be rendered for a question."""


class ModelError(VideoMMEError):
    """A model cannot be asked: unknown name, missing key, rejected credentials."""


class ScoringError(VideoMMEError):
    """A set of responses cannot be scored as asked."""


class StorageError(VideoMMEError):
    """The data folder cannot be written: full, read-only or not there."""
