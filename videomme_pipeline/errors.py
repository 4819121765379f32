"""The errors that this project raises on purpose, and the findings that it reports.

Each message states what failed, what was found and what to do next.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters other than tab and line feed, characters that end a line or change the
direction of text, and characters that XML or UTF-8 cannot contain."""
_CI_COMMAND = re.compile(r"^[^\S\n]*:(?=:)|#(?=#\[)", re.MULTILINE)
"""The beginning of a command in the log of GitHub Actions: `::add-mask::` or `##[error]`."""


def printable(text: str) -> str:
    """`text` with an escape such as `\u001b` for what a terminal, a CI log or XML would act on.

    Responses, subtitles, names in files and errors of endpoints may contain escape sequences for a
    terminal, and lines that are commands for GitHub Actions. JSON text keeps its meaning.
    """
    return _CI_COMMAND.sub(_escape_last, _UNPRINTABLE.sub(_escape_last, text))


def _escape_last(match: re.Match[str]) -> str:
    return f"{match[0][:-1]}\\u{ord(match[0][-1]):04x}"


def one_line(text: str) -> str:
    """`text` as one line, with escapes for line feeds, tabs and whatever is not `printable`.

    A name that a file contains must not begin another line, column or row of a report.
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def listed(texts: Sequence[str], most: int = 5, *, separator: str = ", ") -> str:
    """The first `most` of `texts` and the number of the others, for messages."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return separator.join(map(one_line, texts[:most])) + more


class Status(StrEnum):
    """The result of a check. An `error` prevents a run, or the citation of a score."""

    OK = "ok"
    NOTE = "note"
    """A fact that is neither good nor bad."""
    UNKNOWN = "unknown"
    """Nothing was checked, because something is not stored."""
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a sentence with numbers, and what to do next, or "".

    `chance` is the probability that chance produces such `numbers` in a run without the fault, or
    None if chance has no part in them. `run` is the checked run, if it is one of several.
    """

    status: Status
    summary: str
    advice: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    chance: float | None = None
    check: str = ""
    run: str = ""

    @classmethod
    def ok(cls, check: str, summary: str) -> "Finding":
        return cls(Status.OK, summary, check=check)

    @classmethod
    def warning(cls, check: str, summary: str) -> "Finding":
        return cls(Status.WARNING, summary, check=check)

    @classmethod
    def error(cls, check: str, summary: str) -> "Finding":
        return cls(Status.ERROR, summary, check=check)


class VideoMMEError(Exception):
    """Base class of every error that this project raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[object, ...], dict[str, object]]:
        """Support pickling without calling a constructor, which may have other parameters."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


class ConfigurationError(VideoMMEError):
    """A configuration file or option has a value that cannot be used."""


class LicenseNotAcceptedError(ConfigurationError):
    """Data of a benchmark was requested before its license was accepted."""

    def __init__(self, benchmark: str, terms: str, url: str) -> None:
        super().__init__(
            f"{benchmark}: {terms} (terms: {url}). If you accept them, set `accept_license: true` "
            "for this benchmark in benchmarks.yaml. Until then none of its data is fetched or read."
        )


class MissingExtraError(ConfigurationError):
    """A feature needs a package from an extra that is not installed."""

    def __init__(self, extra: str, purpose: str, module: str) -> None:
        self.extra, self.module = extra, module
        super().__init__(
            f"{purpose}: the module `{module}` is not installed; "
            f"run `pip install 'videomme-pipeline[{extra}]'`"
        )


class AnnotationError(VideoMMEError):
    """An annotation file does not have the published schema, size or checksum."""


class DownloadError(VideoMMEError):
    """A file could not be fetched, or differs from the pinned one."""


class ArchiveError(VideoMMEError):
    """An archive is damaged, incomplete or tries to write outside its folder."""


class VideoError(VideoMMEError):
    """One video cannot be used. Other videos are not affected."""

    def __init__(self, video_id: str, message: str) -> None:
        self.video_id, self.message = video_id, message
        super().__init__(f"video {video_id}: {message}")

    @staticmethod
    def from_child(video_id: str, path: object, error: VideoMMEError | None) -> "VideoError":
        """The error that ended the child process of a video, as an error about the video."""
        return error if isinstance(error, VideoError) else VideoError(video_id, f"{path}: {error}")


class VideoMissingError(VideoError):
    """A video in the annotations is not on disk."""


class VideoUnreadableError(VideoError):
    """No picture in a video file can be decoded."""


class DamagedFileError(VideoMMEError):
    """The content of a stored file is damaged. If it can be built again, it was set aside."""


class SubtitleError(VideoMMEError):
    """A subtitle file cannot be read at all. (A single bad cue is skipped and counted instead.)"""


class PromptError(VideoMMEError):
    """A prompt template cannot be rendered for a question."""


class ModelError(VideoMMEError):
    """A model cannot be used: unknown name, missing key or rejected credentials."""


class EndpointDownError(ModelError):
    """The endpoint gives no answers, so the run stops sending requests to it."""

    def __init__(self, model: str, problem: str, last: str) -> None:
        super().__init__(
            f"model {model}: {problem}. Check that the endpoint is up and accepts these requests "
            f"(`videomme doctor {model} --probe`), then run again: everything answered so far is "
            f"stored. The last failure: {last}"
        )


class ClusterError(VideoMMEError):
    """The cluster of cluster.yaml cannot be reached, or a worker cannot run tasks."""


class CostLimitError(VideoMMEError):
    """The next request could exceed the cost limit of the evaluation."""

    def __init__(self, max_dollars: float, spent_dollars: float) -> None:
        self.max_dollars, self.spent_dollars = max_dollars, spent_dollars
        super().__init__(
            f"stopped at ${spent_dollars:.4f} of ${max_dollars:.4f} (`--max-cost`, or "
            "`max_cost_dollars` of the run or in models.yaml), because the next request might "
            "exceed the limit. "
            "Everything answered so far is stored: raise the limit and run again to ask the rest."
        )


class NotReadyError(VideoMMEError):
    """A partition cannot be built because an input is missing. The message names the input."""


class ScoringError(VideoMMEError):
    """A set of responses cannot be scored with these options."""


class AlertError(VideoMMEError):
    """An alert could not be delivered. The run that it reports is not affected."""


class StorageError(VideoMMEError):
    """The data folder cannot be read or written: full, read-only, forbidden or missing."""


class UnstorableError(VideoMMEError):
    """A model returned a value that the journal cannot contain. Other answers are not affected."""
