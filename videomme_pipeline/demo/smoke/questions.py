"""The questions of the smoke benchmarks, in `data/` in the layouts of the published annotations.

The correct answer about a drawn video is a value of its script. Wrong ones are of the same kind.
"""

from collections.abc import Mapping
from functools import cache

from videomme_pipeline.benchmarks.benchmark import Size
from videomme_pipeline.benchmarks.declaration import PUBLISHED, Declaration
from videomme_pipeline.benchmarks.question import Question, videos_of
from videomme_pipeline.benchmarks.questions import read_questions
from videomme_pipeline.demo.smoke.scripts import DATA
from videomme_pipeline.errors import AnnotationError

SIZES: Mapping[str, Size] = {
    "smoke": Size(videos=24, questions_per_video=3, videos_with_subtitles=19),
    "smoke_v2": Size(videos=10, questions_per_video=4, videos_with_subtitles=10),
}
PUBLISHED_AS: Mapping[str, str] = {"smoke": "videomme", "smoke_v2": "videomme_v2"}
"""The published benchmark whose declaration each smoke benchmark shares."""


@cache
def questions(benchmark: str) -> tuple[Question, ...]:
    """The questions of `smoke` or `smoke_v2`. Raises AnnotationError for another benchmark."""
    if benchmark not in SIZES:
        raise AnnotationError(f"{benchmark}: the smoke benchmarks are {' and '.join(SIZES)}")
    published = Declaration.read(PUBLISHED / f"{PUBLISHED_AS[benchmark]}.yaml")
    declaration = published.model_copy(update={"size": SIZES[benchmark]})
    return tuple(read_questions(declaration, [DATA / f"{benchmark}.jsonl"], benchmark).require())


def video_ids(benchmark: str = "smoke") -> tuple[str, ...]:
    """Video ids of `benchmark`, from "001". The videos of `smoke_v2` are a subset of `smoke`."""
    return tuple(video.video_id for video in videos_of(questions(benchmark)))


def youtube_id(video_id: str) -> str:
    """Stem of a video's files: eleven characters, sometimes with a leading hyphen."""
    return f"{'-' if video_id.endswith('7') else 'v'}smoke-{int(video_id):04d}"
