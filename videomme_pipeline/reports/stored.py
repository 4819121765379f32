"""Scored evaluations, stored frames and videos, read from the store for the page."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.frames.cache import frames_fingerprint, read_frames
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.results import Results, ShownScores
from videomme_pipeline.storage.tables import read_rows, stored_settings
from videomme_pipeline.subtitles.align import Alignment
from videomme_pipeline.videos.probe import Video

SHEET_COLUMNS = 8
CELL_WIDTH, CELL_HEIGHT = 256, 144
"""Size of a frame in a sheet, in pixels. The question view cuts the sheet by these numbers."""
MAX_PICTURES = 768
"""Frames in a sheet. The page shows further frames of a longer set as times only."""
_SAMPLING: TypeAdapter[Sampling] = TypeAdapter(Sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEvaluation:
    """One evaluation with all scored questions, in the order of the benchmark.

    `specification` has every setting that can change a score, as of the time of the scoring.
    """

    name: str
    specification: dict[str, Any]
    rows: tuple[ScoredQuestion, ...]
    shown: ShownScores
    """The file of the scores, which names the files of the inputs."""

    @property
    def sampling(self) -> Sampling | None:
        """The sampling, or None without frames or with an unknown sampling (imported results)."""
        value = self.specification.get("sampling")
        return _SAMPLING.validate_python(value) if value else None

    @property
    def alignment(self) -> Alignment | None:
        """The subtitle alignment, or None without subtitles."""
        value = self.specification.get("alignment")
        return Alignment.model_validate(value) if value else None

    @property
    def track_name(self) -> str | None:
        """Name of the folder with the aligned subtitle lines, or None without subtitles."""
        alignment = self.alignment
        return None if alignment is None else f"{self.rows[0].sampling}.{alignment.name}"

    @property
    def input_key(self) -> str:
        """Key that is equal for evaluations with the same frames and subtitle lines."""
        return f"{self.rows[0].sampling}/{self.track_name or 'none'}"


def evaluations_of(
    results: Results, benchmark: str, names: Sequence[str] | None = None
) -> list[ScoredEvaluation]:
    """Scored evaluations of `benchmark`, or those in `names`, sorted by name."""
    return [
        ScoredEvaluation(
            name=shown.evaluation,
            specification=stored_settings(shown.path),
            rows=tuple(rows),
            shown=shown,
        )
        for shown in results.scores(benchmark)
        if names is None or shown.evaluation in names
        if (rows := read_rows(shown.path, ScoredQuestion))
    ]


@dataclass(frozen=True, slots=True)
class FramesKey:
    """The key of a stored frame set: content hash of the video, and fingerprint of the settings."""

    video_hash: str
    settings: str

    @property
    def sheet(self) -> str:
        """URL of the set's contact sheet, relative to the page."""
        return f"frames/{self.video_hash[:16]}-{self.settings}.jpg"


@dataclass(frozen=True, slots=True)
class ServedPage:
    """The page with all texts in full, and the files beside the page, by URL."""

    document: str
    sheets: Mapping[str, FramesKey]
    videos: Mapping[str, Path]


@dataclass(frozen=True, kw_only=True)
class ShownBenchmark:
    """Evaluations of one benchmark on the page, with the frames and videos that are still stored.

    URLs are relative to the page. Only a served page has contact sheets and videos.
    """

    results: Results
    questions: Sequence[Question]
    evaluations: Sequence[ScoredEvaluation]
    is_served: bool

    @cached_property
    def frames(self) -> dict[tuple[str, str], FramesKey]:
        """The frame sets that the models saw, by (video id, sampling name)."""
        samplings = {e.rows[0].sampling: e.sampling for e in self.evaluations if e.sampling}
        asked = {question.video_id: question for question in self.questions}
        frames = {}
        for video_id, question in asked.items():
            for name, sampling in samplings.items() if video_id in self._videos else ():
                settings = frames_fingerprint(sampling, question.duration, question.footage.clip)
                key = FramesKey(self._videos[video_id].content_hash, settings)
                if self.results.store.frames(key.video_hash, key.settings).exists():
                    frames[video_id, name] = key
        return frames

    @cached_property
    def files(self) -> dict[str, Path]:
        """The file of each video beside the page, by video id."""
        files = {video_id: Path(video.path) for video_id, video in self._videos.items()}
        return {name: file for name, file in files.items() if self.is_served and file.is_file()}

    def url(self, video_id: str) -> str:
        """URL of a video."""
        benchmark = self.evaluations[0].shown.benchmark
        return f"videos/{quote(benchmark, safe='')}/{quote(video_id, safe='')}"

    @cached_property
    def _videos(self) -> dict[str, Video]:
        stored = self.results.videos(self.evaluations[0].shown.benchmark)
        ids = dict.fromkeys(question.video_id for question in self.questions)
        return {name: read_rows(stored[name], Video)[0] for name in ids if name in stored}


def contact_sheet(store: Store, key: FramesKey) -> bytes:
    """A JPEG with the first `MAX_PICTURES` frames of a set, each in a cell of the same size.

    Raises FileNotFoundError if the frames are no longer stored, and DamagedFileError if the file of
    the frames is damaged. The file is set aside.
    """
    from PIL import Image, ImageOps  # noqa: PLC0415 - only a served page needs it

    frames = read_frames(store, key.video_hash, key.settings).frames[:MAX_PICTURES]
    rows = -(-len(frames) // SHEET_COLUMNS)
    sheet = Image.new("RGB", (SHEET_COLUMNS * CELL_WIDTH, rows * CELL_HEIGHT))
    for number, frame in enumerate(frames):
        with Image.open(io.BytesIO(frame.picture)) as image:
            image.draft("RGB", (CELL_WIDTH, CELL_HEIGHT))
            small = ImageOps.contain(image.convert("RGB"), (CELL_WIDTH, CELL_HEIGHT))
        x = number % SHEET_COLUMNS * CELL_WIDTH + (CELL_WIDTH - small.width) // 2
        y = number // SHEET_COLUMNS * CELL_HEIGHT + (CELL_HEIGHT - small.height) // 2
        sheet.paste(small, (x, y))
    sink = io.BytesIO()
    sheet.save(sink, "JPEG", quality=75)
    return sink.getvalue()
