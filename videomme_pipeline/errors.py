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
            "`accept_license: true` for this benchmark in benchmarks.yaml; nothing of it is "
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
        self.video_id, self.message = video_id, message
        super().__init__(f"video {video_id}: {message}")

    def __reduce__(self) -> tuple[type["VideoError"], tuple[str, str]]:
        """Errors travel from the child processes that decode."""
        return type(self), (self.video_id, self.message)


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


class EndpointDownError(ModelError):
    """One question after the other failed and none was answered: asking on is of no use."""

    def __init__(self, model: str, failures: int, last: str) -> None:
        super().__init__(
            f"model {model}: {failures} questions in a row got no answer, the last because of "
            f"{last}. Check that the endpoint is up and takes these requests, then run again: "
            "everything answered so far is kept."
        )


class CostLimitError(VideoMMEError):
    """The next request could cost more than the evaluation may."""

    def __init__(self, most_dollars: float, spent_dollars: float) -> None:
        self.most_dollars, self.spent_dollars = most_dollars, spent_dollars
        super().__init__(
            f"stopped at ${spent_dollars:.4f} of ${most_dollars:.4f} (`--max-cost`, or "
            "`max_cost_dollars` in models.yaml), since the next request might not fit. Everything "
            "answered so far is kept: raise the limit and run again, and only the rest is asked."
        )


class ScoringError(VideoMMEError):
    """A set of responses cannot be scored as asked."""


class AlertError(VideoMMEError):
    """A message could not be delivered. What it is about is not affected."""


class StorageError(VideoMMEError):
    """The data folder cannot be written: full, read-only or not there."""
