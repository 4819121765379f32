"""The state of one benchmark: its settings, and a snapshot of its stored data.

A snapshot is read lazily and never changes. When files may have changed, `invalidate` drops the
snapshot, so that the next access lists and reads files again.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain

import pyarrow as pa
from upath import UPath

from videomme_pipeline.benchmarks.locate import VideoSource
from videomme_pipeline.benchmarks.question import Question, example_ids
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import Questions, Selection, group_by_video
from videomme_pipeline.benchmarks.source import Source
from videomme_pipeline.errors import (
    DamagedFileError,
    NotReadyError,
    VideoMissingError,
    VideoMMEError,
)
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.evaluation.folder import Configuration
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.fingerprint import text_fingerprint
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.project.servers import ServerRecord
from videomme_pipeline.project.state.failures import FailureLog
from videomme_pipeline.project.state.partitions import Dimension, VideoPartition, variant_in
from videomme_pipeline.project.state.versions import Versions, code_version
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.names import Planned, StageNames, StoredName
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.probe import Video, content_hash, known_hash

_log = logging.getLogger(__name__)


class BenchmarkState:
    """One benchmark of a project: its settings and its stored data."""

    def __init__(
        self,
        name: str,
        configuration: Configuration,
        store: Store,
        hashes: HashCache,
        server_record: ServerRecord,
    ) -> None:
        self.name = name
        self.store = store
        self.hashes = hashes
        self.server_record = server_record
        self._configuration = configuration
        self.parent_variant = cache(self._parent_variant_of)
        self.read_questions: tuple[UPath, Questions] | None = None
        """The questions that were read last, with their file. A file never changes."""
        self.snapshot = Snapshot(self)
        """The stored data. Each part is read at its first access after the last `invalidate`."""

    @cached_property
    def evaluations(self) -> dict[str, Evaluation]:
        return {e.name: e for e in self._configuration.evaluations_of(self.name)}

    @cached_property
    def samplings(self) -> dict[str, Sampling]:
        """The samplings that evaluations use or samplings.yaml offers, by name."""
        return self._configuration.samplings_of(self.name)

    def blind_for(self, evaluation: Evaluation) -> Evaluation | None:
        """The blind evaluation that splits the scores of an evaluation by `needs_video`, if any."""
        name = self._configuration.benchmarks[self.name].needs_video
        return None if name is None or name == evaluation.name else self.evaluations[name]

    def offers(self, sampling: str) -> bool:
        """True if samplings.yaml contains this sampling, so that it has frames of all videos."""
        offered = self._configuration.samplings.get(self.name, ())
        return any(offer.name == sampling for offer in offered)

    def failures(self, stage: str) -> FailureLog:
        """The partitions of a stage that could not be built, with the reasons."""
        return FailureLog(self.store, f"{self.name}/{stage}")

    def invalidate(self) -> None:
        """Replace the snapshot, because files may have changed."""
        self.snapshot = Snapshot(self)
        self.server_record.invalidate()

    @cached_property
    def tracks(self) -> dict[str, Evaluation]:
        """An evaluation with each track. All of a track have the same sampling and alignment."""
        evaluations = reversed(self.evaluations.values())
        return {track: evaluation for evaluation in evaluations if (track := evaluation.track_name)}

    def variants(self, dimension: Dimension) -> tuple[str, ...]:
        """Every variant of a dimension other than the video, sorted."""
        if dimension is Dimension.SAMPLING:
            return tuple(sorted(self.samplings))
        used = (variant_in(evaluation, dimension) for evaluation in self.evaluations.values())
        return tuple(sorted({variant for variant in used if variant}))

    def _parent_variant_of(
        self, variant: str | None, dimension: Dimension | None, upstream: Dimension
    ) -> str | None:
        """The variant of `upstream` that a variant of `dimension` is built from, or None."""
        if dimension is None or variant is None:
            return None
        used = (e for e in self.evaluations.values() if variant_in(e, dimension) == variant)
        first = next(used, None)
        return None if first is None else variant_in(first, upstream)

    def open_source(self) -> Source:
        """Open the source of questions and files, or raise LicenseNotAcceptedError."""
        benchmark = find_benchmark(self.name)
        spec = self._configuration.benchmarks[self.name]
        return benchmark.open_source(
            spec, self.store.media(benchmark.media_folder or benchmark.name)
        )


class Snapshot:
    """The stored data of one benchmark. Each part is read at its first access."""

    def __init__(self, benchmark: BenchmarkState) -> None:
        self._benchmark = benchmark
        self._content_hashes: dict[str, str | NotReadyError] = {}
        self._videos: dict[str, Video] = {}
        self.names: Callable[[str], StageNames] = cache(self._names_of)
        self._selected: dict[Selection, Questions] = {}
        self.video_file: Callable[[str], VideoSource] = cache(self._video_file_of)
        self.subtitle_hash: Callable[[str], str | None] = cache(self._subtitle_hash_of)

    def _names_of(self, stage: str) -> StageNames:
        """The names of the files of a stage, when first needed. All benchmarks share frames."""
        name, store = self._benchmark.name, self._benchmark.store
        return store.names(stage) if stage == "frames" else store.names(name, stage)

    def path(
        self, stage: str, fingerprint: str, *, variant: str | None = None, video: str | None = None
    ) -> UPath:
        """The complete file of a partition, else its part with most answers, or a new file."""
        name = StoredName(variant=variant, video=video, fingerprint=fingerprint)
        if str(name) not in self.names(stage).texts:
            name = self.names(stage).best(variant, video, fingerprint) or name
        return self._benchmark.store.built(self._benchmark.name, stage, name)

    @cached_property
    def source(self) -> Source:
        """The opened source, whose files are indexed once. Raises LicenseNotAcceptedError."""
        return self._benchmark.open_source()

    @cached_property
    def questions_version(self) -> str:
        """Fingerprint of the questions. Raises VideoMMEError without questions or license."""
        return text_fingerprint("questions", code_version("questions"), self.source.version)

    @cached_property
    def questions(self) -> Questions:
        """The stored or known questions, by video id. Raises NotReadyError without any."""
        try:
            stored = self._stored_questions()
            declared = None if stored else self.source.known_questions()
        except NotReadyError:
            raise
        except VideoMMEError as error:
            raise NotReadyError(str(error)) from error
        if stored is None and declared is None:
            name = self._benchmark.name
            raise NotReadyError(
                f"{name}: its questions have not been built yet; materialize {name}/questions"
            )
        return stored or group_by_video(declared or ())

    def _stored_questions(self) -> Questions | None:
        benchmark = self._benchmark
        path = self.path("questions", self.questions_version)
        if benchmark.read_questions is None or benchmark.read_questions[0] != path:
            try:
                benchmark.read_questions = path, group_by_video(read_rows(path, Question))
                pa.default_memory_pool().release_unused()  # as much again as the questions
            except FileNotFoundError:
                return None
            except DamagedFileError as error:
                _log.warning("%s", error)
                return None
        return benchmark.read_questions[1]

    @cached_property
    def example_ids(self) -> dict[str, str]:
        """The contract's id of each stored question, by question id."""
        return example_ids(chain.from_iterable(self.questions.values()))

    def questions_of(self, evaluation: Evaluation) -> Questions:
        """The questions that an evaluation selects, by video id. Raises as `questions`."""
        selection = evaluation.selection
        if selection not in self._selected:
            self._selected[selection] = selection.of(self.questions)
        return self._selected[selection]

    def video(self, video_id: str) -> Video:
        """The row of a video. Raises NotReadyError if the video was not probed."""
        if video_id not in self._videos:
            path = self.path("videos", self.versions.video(video_id), video=video_id)
            try:
                (self._videos[video_id],) = read_rows(path, Video)
            except FileNotFoundError:
                failures = self._benchmark.failures("videos")
                raise failures.not_ready(VideoPartition(video_id)) from None
        return self._videos[video_id]

    def find_video(self, video_id: str) -> Video | None:
        """The row of a video, or None if there is none."""
        try:
            return self.video(video_id)
        except NotReadyError:
            return None

    @cached_property
    def _hashes(self) -> HashCache:
        """The content hashes, with those of other processes until now."""
        self._benchmark.hashes.load()
        return self._benchmark.hashes

    @cached_property
    def versions(self) -> Versions:
        """The fingerprints that partitions would have if they were built now."""
        return Versions(
            questions=self.questions,
            samplings=self._benchmark.samplings,
            content_hash=self.content_hash,
            subtitle_hash=self.subtitle_hash,
            server_keys=self._benchmark.server_record.keys,
            is_stored=self._has_responses,
            blind_for=self._benchmark.blind_for,
        )

    @cached_property
    def planned(self) -> Planned:
        """The fingerprints that files would have if they were built now, as far as known."""
        benchmark, configuration = self._benchmark, self._benchmark._configuration
        evaluations = frozenset({*configuration.evaluations, *configuration.problems})
        try:
            questions, versions = self.questions_version, self.versions
        except VideoMMEError:
            return Planned(evaluations=evaluations)
        videos, scores = dict[str, str](), dict[str, str]()
        for video_id in self.questions:
            with suppress(VideoMMEError):
                videos[video_id] = versions.video(video_id)
        for evaluation in benchmark.evaluations.values():
            with suppress(VideoMMEError):
                scores[evaluation.name] = versions.scores(evaluation)
        return Planned(evaluations=evaluations, questions=questions, videos=videos, scores=scores)

    def _has_responses(self, evaluation: str, video_id: str, fingerprint: str) -> bool:
        return str(StoredName(evaluation, video_id, fingerprint)) in self.names("responses").texts

    def content_hash(self, video_id: str) -> str:
        """Hash of a video's file, or of the stored row if the file is gone.

        The file is read only if it changed since it was hashed, or if a row of the video is stored
        and the hash is not. So a plan never reads a video that was never built. Raises
        NotReadyError if the file was never read, cannot be read, or is missing.
        """
        if video_id not in self._content_hashes:
            try:
                self._content_hashes[video_id] = self._find_content_hash(video_id)
            except VideoMMEError as error:
                self._content_hashes[video_id] = NotReadyError(str(error))
        content = self._content_hashes[video_id]
        if isinstance(content, NotReadyError):
            raise NotReadyError(str(content))  # a raised error would keep its traceback in memory
        return content

    def _find_content_hash(self, video_id: str) -> str | NotReadyError:
        names = self.names("videos")
        try:
            path = self.video_file(video_id)
        except VideoMissingError:
            stored = names.fingerprints(None, video_id)
            if len(stored) != 1:
                raise
            row = self.path("videos", stored[0], video=video_id)
            return read_rows(row, Video)[0].content_hash
        try:
            digest = known_hash(path, self._hashes)
            if digest is None and names.fingerprints(None, video_id):
                digest = content_hash(path, self._hashes)
        except OSError as error:
            raise NotReadyError(
                f"video {video_id}: its file {path} cannot be read ({error.strerror}); "
                "replace or remove it"
            ) from error
        unread = f"video {video_id} has not been read yet; materialize `videos`"
        return digest or NotReadyError(unread)

    def _subtitle_hash_of(self, video_id: str) -> str | None:
        """Hash of a video's subtitle file, or None. Raises NotReadyError if it cannot be read."""
        path = self.source.subtitle(self.reference(video_id))
        try:
            return content_hash(path, self._hashes) if path else None
        except OSError as error:
            raise NotReadyError(
                f"video {video_id}: its subtitle file {path} cannot be read ({error.strerror}); "
                "replace or remove it"
            ) from error

    def _video_file_of(self, video_id: str) -> VideoSource:
        """The file of a video. Raises VideoMissingError if it is not on disk."""
        return self.source.video_file(self.reference(video_id))

    def reference(self, video_id: str) -> VideoReference:
        """The names of a video in the annotations. Raises NotReadyError without such a video."""
        if video_id not in self.questions:
            raise NotReadyError(
                f"{self._benchmark.name} has no video {video_id}; materialize `questions`, which "
                "removes the partition"
            )
        return self.questions[video_id][0].reference
