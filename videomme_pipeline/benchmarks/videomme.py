"""Video-MME (v1): 900 videos with three questions of four options each."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from videomme_pipeline.benchmarks.benchmark import Benchmark, License, Size
from videomme_pipeline.benchmarks.facets import Derivation, Facet, Facets
from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.benchmarks.source import PublishedSource
from videomme_pipeline.benchmarks.table import AnnotationTable
from videomme_pipeline.fetch.release import Release

RELEASE = Release(
    benchmark="videomme",
    repository="lmms-eval/Video-MME",  # published as lmms-lab/Video-MME, later renamed
    revision="ead1408f75b618502df9a1d8e0950166bf0a2a0b",
    annotations="videomme/test-00000-of-00001.parquet",
    subtitles="subtitle.zip",
    archives=tuple(f"videos_chunked_{number:02d}.zip" for number in range(1, 21)),
    sha256={
        "videomme/test-00000-of-00001.parquet": (
            "7fffab8ed38ecc2f9f0eca4c44d8a11636f0ee96116ede83580c8b9ae0faf986"
        ),
        "subtitle.zip": "a2ee50c5912d23301ddf2c5036c19c4ac4eb2116cd9874aeecd026c4eff45a34",
    },
    videos=900,
    questions_per_video=3,
    videos_per_archive=None,
    video_folder="data",
    subtitle_folder="subtitle",
)

LICENSE = License(
    name="Video-MME license",
    terms=(
        "Video-MME is for academic research only; its videos, questions and frames must not be "
        "used commercially, copied or published"
    ),
    url="https://github.com/MME-Benchmarks/Video-MME#license",
)

COLUMNS = (
    "video_id",
    "duration",
    "domain",
    "sub_category",
    "url",
    "videoID",
    "question_id",
    "task_type",
    "question",
    "options",
    "answer",
)

# Values of the facets, in the order of the official report. lmms-eval stops on any other value, so
# the published table contains no others.
DOMAINS = (
    "Knowledge",
    "Film & Television",
    "Sports Competition",
    "Artistic Performance",
    "Life Record",
    "Multilingual",
)
SUB_CATEGORIES = (
    "Humanity & History",
    "Literature & Art",
    "Biology & Medicine",
    "Finance & Commerce",
    "Astronomy",
    "Geography",
    "Law",
    "Life Tip",
    "Technology",
    "Animation",
    "Movie & TV Show",
    "Documentary",
    "News Report",
    "Esports",
    "Basketball",
    "Football",
    "Athletics",
    "Other Sports",
    "Stage Play",
    "Magic Show",
    "Variety Show",
    "Acrobatics",
    "Handicraft",
    "Food",
    "Fashion",
    "Daily Life",
    "Travel",
    "Pet & Animal",
    "Exercise",
    "Multilingual",
)
TASK_TYPES = (
    "Temporal Perception",
    "Spatial Perception",
    "Attribute Perception",
    "Action Recognition",
    "Object Recognition",
    "OCR Problems",
    "Counting Problem",
    "Temporal Reasoning",
    "Spatial Reasoning",
    "Action Reasoning",
    "Object Reasoning",
    "Information Synopsis",
)

SKILL_OF_TASK_TYPE = {
    "Temporal Perception": "temporal",
    "Spatial Perception": "perception",
    "Attribute Perception": "perception",
    "Action Recognition": "perception",
    "Object Recognition": "perception",
    "OCR Problems": "perception",
    "Counting Problem": "perception",
    "Temporal Reasoning": "temporal",
    "Spatial Reasoning": "reasoning",
    "Action Reasoning": "reasoning",
    "Object Reasoning": "reasoning",
    "Information Synopsis": "reasoning",
}
"""The skills of the contract. The dataset has no such column: the mapping is ours. What is about
time is temporal, and of the rest, what the name calls reasoning or a summary is reasoning."""

FACETS = (
    Facet(column="duration", title="Duration", values=tuple(map(str, Duration)), is_of_video=True),
    Facet(column="domain", title="Domain", values=DOMAINS, is_of_video=True),
    Facet(column="sub_category", title="Sub-category", values=SUB_CATEGORIES, is_of_video=True),
    Facet(column="task_type", title="Task type", values=TASK_TYPES),
    Facet(
        column="skill",
        title="Skill",
        values=("perception", "reasoning", "temporal"),
        is_tested=False,
        derivation=Derivation("task_type", SKILL_OF_TASK_TYPE),
    ),
)


def read_questions(
    source: Path | pa.Table,
    *,
    benchmark: str = RELEASE.benchmark,
    videos: int | None = RELEASE.videos,
) -> tuple[Question, ...]:
    """Read the questions of a v1 annotation table (a file, or the table itself), in order.

    `videos` is the number of videos that the table must have, or None for any number.

    Raises:
        AnnotationError: if columns, counts, ids, answers or facet values are not those of the
            pinned release. The message names what was found.
    """
    table = AnnotationTable.read(source, RELEASE, COLUMNS)
    questions = tuple(_question(table, row, benchmark) for row in table.rows)
    table.check_counts(questions, videos)
    return questions


def _question(table: AnnotationTable, row: Mapping[str, Any], benchmark: str) -> Question:
    options = row["options"]
    if not isinstance(options, list) or len(options) != 4 or not all(map(_is_text, options)):
        raise table.error(row, f"`options` must be four texts, found {options!r}")
    return Question(
        benchmark=benchmark,
        question_id=table.text(row, "question_id").strip(),
        video_id=table.file_stem(row, "video_id"),
        youtube_id=table.file_stem(row, "videoID"),
        url=table.text_or_none(row, "url"),
        question=table.text(row, "question"),
        options=tuple(options),
        answer=table.answer(row, option_count=4),
        facets=Facets(
            {
                facet.column: table.one_of(row, facet.column, facet.values or ())
                for facet in FACETS
                if facet.derivation is None
            }
        ),
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


BIBTEX = """\
@inproceedings{fu2025videomme,
  title = {{Video-MME}: The First-Ever Comprehensive Evaluation Benchmark of Multi-modal {LLMs}
           in Video Analysis},
  author = {Fu, Chaoyou and Dai, Yuhan and Luo, Yongdong and Li, Lei and Ren, Shuhuai and
            Zhang, Renrui and Wang, Zihan and Zhou, Chenyu and Shen, Yunhang and Zhang, Mengdan
            and others},
  booktitle = {CVPR},
  year = {2025},
  note = {arXiv:2405.21075},
}"""

BENCHMARK = Benchmark(
    name=RELEASE.benchmark,
    title="Video-MME",
    source=partial(PublishedSource, release=RELEASE, read_questions=read_questions),
    facets=FACETS,
    license=LICENSE,
    bibtex=BIBTEX,
    repository=RELEASE.repository,
    crossings=(("duration", "domain"), ("duration", "sub_category"), ("duration", "task_type")),
    strata=("duration", "domain"),
    export_columns=tuple(column for column in COLUMNS if column != "url"),
    size=Size(
        videos=RELEASE.videos,
        questions_per_video=3,
        videos_with_subtitles=744,
        videos_by={"duration": 300},
    ),
    reader="official_v1",
)
