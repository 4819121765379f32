"""Scored evaluations, stored frames and videos, read from the store for the page."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

    `specification` has every setting that can change a score, by stage, as of the time the scores
    were computed.
    """

    name: str
    fingerprint: str
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
    def is_baseline(self) -> bool:
        """True if the model saw no frames: a blind model or a guess."""
        return self.rows[0].sampling == "none"

    @property
    def input_key(self) -> str:
        """Key that is equal for evaluations with the same frames and subtitle lines."""
        return f"{self.rows[0].sampling}/{self.track_name or 'none'}"


def evaluations_of(
    results: Results, benchmark: str, names: Sequence[str] | None = None
) -> list[ScoredEvaluation]:
    """Scored evaluations of `benchmark`, or those in `names`, sorted by name."""
    scored = [
        (shown, read_rows(shown.path, ScoredQuestion))
        for shown in results.scores(benchmark)
        if names is None or shown.evaluation in names
    ]
    return [
        ScoredEvaluation(
            name=shown.evaluation,
            fingerprint=rows[0].evaluation_fingerprint,
            specification=stored_settings(shown.path),
            rows=tuple(rows),
            shown=shown,
        )
        for shown, rows in scored
        if rows
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """Stored frame sets of one benchmark, by (video id, sampling name), and videos beside the page.

    URLs are relative to the page.
    """

    frames: Mapping[tuple[str, str], FramesKey]
    video_urls: Mapping[str, str]
    """URL of each video, by its id. A page that is not served has none."""
    videos: Mapping[str, Path]
    """The file at each URL."""
    is_served: bool
    """True if contact sheets and videos are beside the page."""


def stored_media(
    results: Results,
    questions: Sequence[Question],
    evaluations: Sequence[ScoredEvaluation],
    *,
    is_served: bool,
) -> Media:
    """The frames that the models saw and the videos, as far as both are still stored."""
    samplings = {e.rows[0].sampling: e.sampling for e in evaluations if e.sampling}
    benchmark, store = evaluations[0].shown.benchmark, results.store
    rows = results.videos(benchmark)
    frames: dict[tuple[str, str], FramesKey] = {}
    urls: dict[str, str] = {}
    videos: dict[str, Path] = {}
    for video_id, question in {question.video_id: question for question in questions}.items():
        if video_id not in rows:
            continue
        (video,) = read_rows(rows[video_id], Video)
        if is_served and Path(video.path).is_file():
            urls[video_id] = f"videos/{quote(benchmark, safe='')}/{quote(video_id, safe='')}"
            videos[urls[video_id]] = Path(video.path)
        for name, sampling in samplings.items():
            settings = frames_fingerprint(sampling, question.duration, question.footage.clip)
            key = FramesKey(video.content_hash, settings)
            if store.frames(key.video_hash, key.settings).exists():
                frames[video_id, name] = key
    return Media(frames=frames, video_urls=urls, videos=videos, is_served=is_served)


def contact_sheet(store: Store, key: FramesKey) -> bytes:
    """A JPEG with the first `MAX_PICTURES` frames of a set, each in a cell of the same size.

    Raises:
        FileNotFoundError: if the frames are no longer stored.
        DamagedFileError: if the file of the frames is damaged. The file is set aside.
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
