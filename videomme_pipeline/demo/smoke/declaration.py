"""The smoke benchmarks, and the source that draws their videos.

`smoke` has the schema of Video-MME (three questions per video). `smoke_v2` has the schema of
Video-MME-v2 (groups of four questions, up to eight options) and some of the same videos. Most are
drawn from a script, and a few are real clips with a free license from registry packages.
"""
# ruff: noqa: PLC0415 - drawing loads libav, so it is imported only where something is drawn

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import chain

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.source import AnnotationContent, OnProgress, Source
from videomme_pipeline.demo.smoke.scripts import DRAWING_VERSION, PUBLISHED_AS, SIZES, questions
from videomme_pipeline.errors import StorageError, VideoMMEError
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import LocalWorkers, run_tasks

DRAWING_LIMITS = TaskLimits(seconds=900.0)


class SmokeSource(Source):
    """Videos drawn on this machine, and a few clips from open packages."""

    @property
    def version(self) -> str:
        return fingerprint(DRAWING_VERSION, self.questions())

    def questions(self) -> Sequence[Question]:
        return self.settings.select(questions(self.name))

    def stored_questions(self) -> AnnotationContent:
        return AnnotationContent(questions=[*questions(self.name)])

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
    changes = {
        "name": name,
        "title": title,
        "source": SmokeSource,
        "license": None,
        "bibtex": None,
        "repository": None,
        "size": SIZES[name],
        "is_public": True,
        "media_folder": "smoke",
    }
    return find_benchmark(PUBLISHED_AS[name]).model_copy(update=changes)


SMOKE = _smoke("smoke", "Smoke benchmark")
SMOKE_V2 = _smoke("smoke_v2", "Smoke benchmark, v2")
