"""Evaluate video language models on Video-MME.

One question travels through the packages in this order, and imports point the same way:

    processes    child processes with limits, programs that end with this one, process identity
    storage      the data folder (`Store`), its files and objects, and the format of tables
    fetch        archives and annotations from the Hugging Face Hub, by pinned revision
    benchmarks   declarations (`Benchmark`, `Facet`, `register`); a `Question` and its `Letter`
    videos       content hash, metadata and packet index of a video: `index_packets`
    frames       which frames to show (`parse_sampling`), their extraction and cache: `FrameSet`
    subtitles    cues (`read_subtitles`) and their alignment to sampled frames: `align`
    prompts      the text of a question: `parse_template`, `render`
    models       anything that answers a `Request` with a `Reply`: `VideoLLM`
    responses    requests, retries and the journal; one `Response` per question and repeat
    scoring      letter from text (`read_answer`), right or wrong (`score_question`), `compare`
    judge        a model that reads the responses that no reader could read
    formats      result files of other evaluators: `score_file`
    evaluation   YAML files: `read_configuration`, `Evaluation`
    recipes      published numbers with their settings
    warehouse    DuckDB views over the stored tables: `connect`
    reports      terminal tables and the results page: `write_page`
    project      a configuration and a data folder: `open_project`
    stages       what is stored, what is stale and why, and how each stage is built
    assets       the Dagster graph: assets, checks, jobs, schedules and sensors
    cli          the `videomme` command

Three companions add what not every user needs:

    cluster      workers of Dask on other machines, and locks that several machines share
    demo         drawn videos with questions, and a small model that reads them
    serving      inference engines that a run starts, watches and stops

Every error derives from `VideoMMEError`. Importing this package is cheap: a public name is imported
from its module when it is first used.
"""

TYPE_CHECKING = False  # importing it from `typing` would take most of the time of this import

if TYPE_CHECKING:
    from videomme_pipeline.assets.definitions import EvaluationComponent as EvaluationComponent
    from videomme_pipeline.benchmarks.benchmark import Benchmark as Benchmark
    from videomme_pipeline.benchmarks.facets import Facet as Facet
    from videomme_pipeline.benchmarks.question import Letter as Letter
    from videomme_pipeline.benchmarks.question import Question as Question
    from videomme_pipeline.benchmarks.registry import register as register
    from videomme_pipeline.errors import VideoMMEError as VideoMMEError
    from videomme_pipeline.evaluation.evaluation import Evaluation as Evaluation
    from videomme_pipeline.evaluation.folder import Configuration as Configuration
    from videomme_pipeline.evaluation.folder import read_configuration as read_configuration
    from videomme_pipeline.formats.score_file import score_file as score_file
    from videomme_pipeline.frames.cache import FrameSet as FrameSet
    from videomme_pipeline.frames.sampling_names import parse_sampling as parse_sampling
    from videomme_pipeline.models.video_llm import Reply as Reply
    from videomme_pipeline.models.video_llm import Request as Request
    from videomme_pipeline.models.video_llm import VideoLLM as VideoLLM
    from videomme_pipeline.project.project import Project as Project
    from videomme_pipeline.project.project import open_project as open_project
    from videomme_pipeline.prompts.render import parse_template as parse_template
    from videomme_pipeline.prompts.render import render as render
    from videomme_pipeline.reports.page import write_page as write_page
    from videomme_pipeline.responses.response import Response as Response
    from videomme_pipeline.scoring.readers.read_answer import ReaderName as ReaderName
    from videomme_pipeline.scoring.readers.read_answer import read_answer as read_answer
    from videomme_pipeline.scoring.score import score_question as score_question
    from videomme_pipeline.scoring.scored_question import ScoredQuestion as ScoredQuestion
    from videomme_pipeline.scoring.statistics.compare import compare as compare
    from videomme_pipeline.storage.layout import Store as Store
    from videomme_pipeline.subtitles.align import align as align
    from videomme_pipeline.subtitles.align import parse_alignment as parse_alignment
    from videomme_pipeline.subtitles.cues import read_subtitles as read_subtitles
    from videomme_pipeline.videos.container import index_packets as index_packets
    from videomme_pipeline.warehouse.database import connect as connect

    __version__: str

_MODULES = {
    "Benchmark": "benchmarks.benchmark",
    "Configuration": "evaluation.folder",
    "Evaluation": "evaluation.evaluation",
    "EvaluationComponent": "assets.definitions",
    "Facet": "benchmarks.facets",
    "FrameSet": "frames.cache",
    "Letter": "benchmarks.question",
    "Project": "project.project",
    "Question": "benchmarks.question",
    "ReaderName": "scoring.readers.read_answer",
    "Reply": "models.video_llm",
    "Request": "models.video_llm",
    "Response": "responses.response",
    "ScoredQuestion": "scoring.scored_question",
    "Store": "storage.layout",
    "VideoLLM": "models.video_llm",
    "VideoMMEError": "errors",
    "align": "subtitles.align",
    "compare": "scoring.statistics.compare",
    "connect": "warehouse.database",
    "index_packets": "videos.container",
    "open_project": "project.project",
    "parse_alignment": "subtitles.align",
    "parse_sampling": "frames.sampling_names",
    "parse_template": "prompts.render",
    "read_answer": "scoring.readers.read_answer",
    "read_configuration": "evaluation.folder",
    "read_subtitles": "subtitles.cues",
    "register": "benchmarks.registry",
    "render": "prompts.render",
    "score_file": "formats.score_file",
    "score_question": "scoring.score",
    "write_page": "reports.page",
}
"""The module of each public name, from which the name is imported when it is first used."""
__all__ = ["__version__"]
__all__ += list(_MODULES)


def __getattr__(name: str) -> object:
    """Return a public name from the module that defines it."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - few callers need it

        return version("videomme-pipeline")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - it is not needed before the first name

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for tab completion and for the registry of Dagster's `dg`."""
    return __all__
