"""The declarations of the smoke benchmarks, and the source that draws their videos."""
# ruff: noqa: PLC0415 - drawing loads libav, so it is imported only where something is drawn

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import cpu_count, get_context
from typing import Any

from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.benchmark import Benchmark, Headline, Metric, Size
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.source import OnProgress, Source
from videomme_pipeline.benchmarks.spec import select
from videomme_pipeline.errors import StorageError, VideoMMEError
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.rows import to_values


class SmokeSource(Source):
    """Videos drawn on this machine, and a few clips from open packages."""

    @property
    def version(self) -> str:
        from videomme_pipeline.benchmarks.smoke.drawing import DRAWING_VERSION

        return fingerprint(DRAWING_VERSION, [_values(question) for question in self.questions()])

    def questions(self) -> Sequence[Question]:
        from videomme_pipeline.benchmarks.smoke import benchmark as smoke

        return select(smoke.questions(self.benchmark.name), self.spec)

    def known_questions(self) -> Sequence[Question]:
        return self.questions()

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        from videomme_pipeline.benchmarks.smoke.benchmark import make_video

        problems: dict[str, str] = {}
        existing = {
            video.video_id for video in videos if (self.folder / f"{video.file_stem}.mp4").exists()
        }
        # A thread checks existing files, which takes milliseconds. Processes draw the others. They
        # are spawned, because a forked process would inherit threads of libav and Arrow.
        with (
            ThreadPoolExecutor(max_workers=1) as thread,
            ProcessPoolExecutor(cpu_count(), get_context("spawn")) as processes,
        ):
            running = {
                (thread if video.video_id in existing else processes).submit(
                    make_video, video.video_id, self.folder
                ): video.video_id
                for video in videos
            }
            for done, future in enumerate(as_completed(running), start=1):
                try:
                    future.result()
                except StorageError:  # no other video could be written either
                    processes.shutdown(cancel_futures=True)
                    raise
                except VideoMMEError as error:
                    problems[running[future]] = str(error)
                if len(existing) < len(videos):
                    on_progress(done, len(running))
        self.invalidate()
        return problems


def _values(question: Question) -> dict[str, Any]:
    """Columns of `question` without the facets of other benchmarks."""
    declared = {facet.column for facet in (*videomme.FACETS, *videomme_v2.FACETS)}
    others = Facets.declared.keys() - declared
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
