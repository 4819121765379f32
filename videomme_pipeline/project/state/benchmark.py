"""The state of one benchmark: its settings, and a snapshot of its stored data.

A snapshot is read lazily and never changes. When files may have changed, `invalidate` drops the
snapshot, so that the next access reads the files again.
"""

import logging
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain

from videomme_pipeline.benchmarks.question import Question, example_ids
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import Questions, Selection, group_by_video
from videomme_pipeline.benchmarks.source import Source
from videomme_pipeline.errors import DamagedFileError, NotReadyError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.evaluation.folder import Configuration
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.project.servers.record import ServerRecord
from videomme_pipeline.project.state.failures import FailureLog
from videomme_pipeline.project.state.versions import Versions
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.listing import Listing
from videomme_pipeline.storage.tables import RowFile, RowFolder, StoredRow, stored_fingerprint
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.probe import Video, content_hash

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
        self.question_file = RowFile(store.questions(name), Question)
        self.video_files = RowFolder(store.videos(name), Video)
        self.memos = defaultdict[str | None, dict[Hashable, str]](dict)
        """The versions that snapshots computed from the same questions, by their version."""
        self._snapshot_class = Snapshot
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

    @contextmanager
    def predicted(self) -> Iterator[None]:
        """Let `snapshot` be a `PredictedSnapshot` within the block."""
        self._snapshot_class = PredictedSnapshot
        self.invalidate()
        try:
            yield
        finally:
            self._snapshot_class = Snapshot
            self.invalidate()

    def invalidate(self) -> None:
        """Replace the snapshot, because files may have changed."""
        self.snapshot = self._snapshot_class(self)
        self.server_record.invalidate()

    def open_source(self) -> Source:
        """Open the source of this benchmark's questions and files. Nothing is fetched or read yet.

        Raises:
            LicenseNotAcceptedError: if the user has to accept the benchmark's license first.
        """
        benchmark = find_benchmark(self.name)
        spec = self._configuration.benchmarks[self.name]
        return benchmark.open_source(
            spec, self.store.media(benchmark.media_folder or benchmark.name)
        )


class Snapshot:
    """The stored data of one benchmark. Each part is read at its first access."""

    def __init__(self, benchmark: BenchmarkState) -> None:
        self._benchmark = benchmark
        self._subtitle_hashes: dict[str, str | None] = {}
        self._selected: dict[Selection, Questions] = {}
        self.listing = Listing(benchmark.store.root)
        """The stored files when their folders were first listed."""

    @cached_property
    def source(self) -> Source:
        """The source of the benchmark's questions and videos. The source's files are indexed once.

        Raises:
            LicenseNotAcceptedError: if the user has to accept the benchmark's license first.
        """
        return self._benchmark.open_source()

    @cached_property
    def questions(self) -> dict[str, tuple[Question, ...]]:
        """The stored questions by video id.

        Raises:
            NotReadyError: if the questions have not been built yet, or their file is damaged.
        """
        name = self._benchmark.name
        try:
            rows = self._benchmark.question_file.read()
        except FileNotFoundError:
            raise NotReadyError(
                f"{name}: its questions have not been built yet; materialize {name}/questions"
            ) from None
        except DamagedFileError as error:
            _log.warning("%s", error)
            raise NotReadyError(str(error)) from error
        return group_by_video(rows)

    @cached_property
    def example_ids(self) -> dict[str, str]:
        """The contract's id of each stored question, by question id."""
        return example_ids(chain.from_iterable(self.questions.values()))

    def questions_of(self, evaluation: Evaluation) -> Questions:
        """The stored questions that an evaluation selects, by video id. Empty if there are none.

        Raises:
            NotReadyError: if the questions have not been built yet, or their file is damaged.
        """
        selection = evaluation.selection
        if selection not in self._selected:
            self._selected[selection] = selection.of(self.questions)
        return self._selected[selection]

    @cached_property
    def questions_version(self) -> str | None:
        """The data version of the stored questions, or None if no questions are stored."""
        return stored_fingerprint(self._benchmark.store.questions(self._benchmark.name))

    @cached_property
    def videos(self) -> dict[str, Video]:
        return {stored.row.video_id: stored.row for stored in self.stored_videos.values()}

    @cached_property
    def stored_videos(self) -> dict[str, StoredRow[Video]]:
        """The stored video rows with their fingerprints, by video id."""
        return self._benchmark.video_files.read()

    @cached_property
    def versions(self) -> Versions:
        """The data versions that partitions would have if they were built now."""
        failures = FailureLog(self._benchmark.store, f"{self._benchmark.name}/videos").read()
        return Versions(
            questions=self.questions,
            videos=self.videos,
            subtitle_hash=self.subtitle_hash,
            with_server=self._benchmark.server_record.with_server,
            reasons={
                video: reason
                for partition, reason in failures.items()
                if (video := partition.video)
            },
            blind_for=self._benchmark.blind_for,
            memo=self._memo,
        )

    @property
    def is_prediction(self) -> bool:
        """True if the snapshot contains the questions that a refresh will build."""
        return False

    @cached_property
    def _memo(self) -> dict[Hashable, str]:
        return self._benchmark.memos[self.questions_version]

    def subtitle_hash(self, video_id: str) -> str | None:
        """Hash of a video's subtitle file, or None if the video has no such file.

        Raises:
            NotReadyError: if the file cannot be read.
        """
        if video_id not in self._subtitle_hashes:
            path = self.source.subtitle(self.reference(video_id))
            try:
                digest = content_hash(path, self._benchmark.hashes) if path else None
            except OSError as error:
                raise NotReadyError(
                    f"video {video_id}: its subtitle file {path} cannot be read "
                    f"({error.strerror}); replace or remove it"
                ) from error
            self._subtitle_hashes[video_id] = digest
        return self._subtitle_hashes[video_id]

    def reference(self, video_id: str) -> VideoReference:
        """The names of a video in the annotations.

        Raises:
            NotReadyError: if the annotations have no such video.
        """
        if video_id not in self.questions:
            raise NotReadyError(
                f"{self._benchmark.name} has no video {video_id}; materialize `questions`, which "
                "removes the partition"
            )
        return self.questions[video_id][0].reference


class PredictedSnapshot(Snapshot):
    """A prediction of the data that will be stored after a refresh.

    The questions are those of the source, unless they must be fetched first. Each video that was
    probed before has the content hash of its current file.
    """

    @cached_property
    def _source_questions(self) -> dict[str, tuple[Question, ...]] | None:
        try:
            questions = self.source.known_questions()
        except VideoMMEError:
            return None
        return None if questions is None else group_by_video(questions)

    @property
    def is_prediction(self) -> bool:
        return self._source_questions is not None

    @cached_property
    def questions(self) -> dict[str, tuple[Question, ...]]:
        questions = self._source_questions
        return super().questions if questions is None else questions

    @cached_property
    def videos(self) -> dict[str, Video]:
        return {
            video_id: replace(video, content_hash=self._current_hash(video))
            for video_id, video in super().videos.items()
            if video_id in self.questions
        }

    def _current_hash(self, video: Video) -> str:
        try:
            files = self.source.files(self.reference(video.video_id))
        except VideoMMEError:
            return video.content_hash
        return content_hash(files.video, self._benchmark.hashes)

    @cached_property
    def _memo(self) -> dict[Hashable, str]:
        return {}
