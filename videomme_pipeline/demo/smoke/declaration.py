"""The declarations of the smoke benchmarks, and the source that draws their videos."""
# ruff: noqa: PLC0415 - drawing loads libav, so it is imported only where something is drawn

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import chain
from typing import Any

from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.benchmark import Benchmark, Headline, Metric, Size
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.settings import select
from videomme_pipeline.benchmarks.source import OnProgress, Source
from videomme_pipeline.demo.smoke.scripts import DRAWING_VERSION
from videomme_pipeline.errors import StorageError, VideoMMEError
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.processes.tasks import Limits, LocalWorkers, run_tasks
from videomme_pipeline.rows import to_values

DRAWING_LIMITS = Limits(seconds=900.0)


class SmokeSource(Source):
    """Videos drawn on this machine, and a few clips from open packages."""

    @property
    def version(self) -> str:
        return fingerprint(DRAWING_VERSION, [_values(question) for question in self.questions()])

    def questions(self) -> Sequence[Question]:
        from videomme_pipeline.demo.smoke import benchmark as smoke

        return select(smoke.questions(self.benchmark.name), self.spec)

    def known_questions(self) -> Sequence[Question]:
        return self.questions()

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


def _values(question: Question) -> dict[str, Any]:
    """Columns of `question` without the facets and the footage of other benchmarks."""
    declared = {facet.column for facet in (*videomme.FACETS, *videomme_v2.FACETS)}
    others = {*(Facets.declared.keys() - declared), *to_values(question.footage)}
    return {name: value for name, value in to_values(question).items() if name not in others}


SMOKE = Benchmark(
    name="smoke",
    title="Smoke benchmark",
    source=SmokeSource,
    facets=videomme.FACETS,
    crossings=videomme.BENCHMARK.crossings,
    strata=videomme.BENCHMARK.strata,
    export_columns=videomme.BENCHMARK.export_columns,
    size=Size(videos=24, questions_per_video=3, videos_with_subtitles=19),
    is_public=True,
    media_folder="smoke",
    reader="official_v1",
)

SMOKE_V2 = Benchmark(
    name="smoke_v2",
    title="Smoke benchmark, v2",
    source=SmokeSource,
    facets=videomme_v2.FACETS,
    strata=videomme_v2.BENCHMARK.strata,
    export_columns=videomme_v2.COLUMNS,
    letters=videomme_v2.LETTERS,
    is_grouped=True,
    headline=Headline(metric=Metric.GROUP_SCORE),
    size=Size(videos=10, questions_per_video=4, videos_with_subtitles=10),
    is_public=True,
    media_folder="smoke",
    prompt="official_v2",
    reader="official_v2",
)
