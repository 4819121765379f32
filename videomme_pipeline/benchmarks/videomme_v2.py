"""Video-MME-v2: 800 videos with one group of four questions each, with up to eight options."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from videomme_pipeline.benchmarks.benchmark import Benchmark, Headline, License, Metric, Size
from videomme_pipeline.benchmarks.facets import Facet, Facets, Measure
from videomme_pipeline.benchmarks.question import GroupType, Letter, Question
from videomme_pipeline.benchmarks.source import PublishedSource
from videomme_pipeline.benchmarks.table import AnnotationTable
from videomme_pipeline.fetch.release import Release

RELEASE = Release(
    benchmark="videomme_v2",
    repository="MME-Benchmarks/Video-MME-v2",
    revision="6e4bebb03202e1ddbf3d37703e560e51c5aa2d64",
    annotations="test.parquet",
    subtitles="subtitle.zip",
    archives=tuple(f"videos/{number:03d}.zip" for number in range(1, 41)),
    sha256={
        "test.parquet": "8dc7f8c8830aa49dd08a82592f8276899472a145155dde3bea5dd6914a65a9b4",
        "subtitle.zip": "adbd3cfd98bd03756398d1c8b63c7bcddf0e5c2494b6a0736ed890456021c287",
    },
    videos=800,
    questions_per_video=4,
    videos_per_archive=20,
    video_folder="videos",
    subtitle_folder="subtitle",
)

LICENSE = License(
    name="Video-MME-v2 license",
    terms=(
        "Video-MME-v2 is for academic research only; its videos, questions and frames must not be "
        "used commercially, copied or published"
    ),
    url="https://github.com/MME-Benchmarks/Video-MME#license",
)

COLUMNS = (
    "video_id",
    "url",
    "group_type",
    "group_structure",
    "question_id",
    "question",
    "options",
    "answer",
    "level",
    "second_head",
    "third_head",
)

LETTERS = tuple(Letter)[:8]

LOGIC_STRUCTURES = ("[1,2,3,4]", "[1,[2,3],4]", "[[1,2],3,4]")

FACETS = (
    Facet(
        column="level",
        title="Level",
        values=(1, 2, 3),
        kind=int,
        measure=Measure.GROUP_SCORE,
        value_title="Level {}",
    ),
    Facet(column="second_head", title="Second head", measure=Measure.GROUP_SCORE),
    Facet(column="third_head", title="Third head", measure=Measure.GROUP_SCORE),
    Facet(
        column="group_type",
        title="Group type",
        values=tuple(map(str, GroupType)),
        measure=Measure.GROUP_SCORE,
    ),
    Facet(
        column="group_structure",
        title="Group structure",
        measure=Measure.GROUP_SCORE,
        is_tested=False,
        is_shown=False,
    ),
)

_LEVEL = re.compile(r"(?:level[\s_-]*)?([123])(?:\.0)?", re.IGNORECASE)


def read_questions(
    source: Path | pa.Table,
    *,
    benchmark: str = RELEASE.benchmark,
    videos: int | None = RELEASE.videos,
) -> tuple[Question, ...]:
    """Read the questions of a v2 annotation table (a file, or the table itself), in order.

    `videos` is the number of videos that the table must have, or None for any number. `level` and
    the heads are those of the question's own row. The first release has them only in the last row
    of a group, the pinned one in every row, where they may differ within a group.

    Raises:
        AnnotationError: if columns, counts, ids, answers, options or group structures are not
            those of the pinned release. The message names what was found.
    """
    table = AnnotationTable.read(source, RELEASE, COLUMNS)
    questions = tuple(_question(table, row, benchmark) for row in table.rows)
    table.check_counts(questions, videos)
    return questions


def split_options(text: str) -> tuple[str, ...]:
    """Split options that are published as one text, "A. …" to at most "H. …", one per line.

    A line begins the next option only if it starts with the next letter in order, because an
    option may contain newlines. Joining the result with newlines restores the text. The result is
    empty if the text does not begin with option A.
    """
    options: list[str] = []
    for line in text.lstrip("\n").split("\n"):
        if len(options) < len(LETTERS) and re.match(rf"\s*{LETTERS[len(options)]}\s*[.):]", line):
            options.append(line)
        elif options:
            options[-1] += "\n" + line
        else:
            return ()
    return tuple(options)


def _question(table: AnnotationTable, row: Mapping[str, Any], benchmark: str) -> Question:
    options = split_options(table.text(row, "options"))
    if len(options) < 2:
        raise table.error(
            row, f"`options` must be one text with lines A., B. and so on, found {row['options']!r}"
        )
    group_type = GroupType(table.one_of(row, "group_type", tuple(GroupType)))
    return Question(
        benchmark=benchmark,
        question_id=table.text(row, "question_id").strip(),
        video_id=table.file_stem(row, "video_id"),
        youtube_id=None,
        url=table.text_or_none(row, "url"),
        question=table.text(row, "question"),
        options=options,
        answer=table.answer(row, option_count=len(options)),
        facets=Facets(
            {
                "level": _level(table, row),
                "second_head": table.text_or_none(row, "second_head"),
                "third_head": table.text_or_none(row, "third_head"),
                "group_type": group_type.value,
                "group_structure": _group_structure(table, row, group_type),
            }
        ),
    )


def _group_structure(
    table: AnnotationTable, row: Mapping[str, Any], group_type: GroupType
) -> str | None:
    text = table.text_or_none(row, "group_structure")
    structure = "".join(text.split()) if text else None
    if group_type is GroupType.LOGIC and structure not in LOGIC_STRUCTURES:
        raise table.error(
            row,
            f"`group_structure` of a logic group must be one of {', '.join(LOGIC_STRUCTURES)}, "
            f"found {row['group_structure']!r}",
        )
    return structure


def _level(table: AnnotationTable, row: Mapping[str, Any]) -> int | None:
    text = table.text_or_none(row, "level")
    if text is None:
        return None
    match = _LEVEL.fullmatch(text)
    if match is None:
        raise table.error(row, f"`level` must be 1, 2 or 3, found {row['level']!r}")
    return int(match.group(1))


BIBTEX = """\
@misc{fu2026videommev2,
  title = {{Video-MME-v2}: Towards the Next Stage in Benchmarks for Comprehensive Video
           Understanding},
  author = {Fu, Chaoyou and Yuan, Haozhi and Dong, Yuhao and Zhang, Yi-Fan and Shen, Yunhang and
            Hu, Xiaoxing and Li, Xueying and Su, Jinsen and others},
  year = {2026},
  eprint = {2604.05015},
  archiveprefix = {arXiv},
}"""

BENCHMARK = Benchmark(
    name=RELEASE.benchmark,
    title="Video-MME-v2",
    source=partial(PublishedSource, release=RELEASE, read_questions=read_questions),
    facets=FACETS,
    license=LICENSE,
    bibtex=BIBTEX,
    repository=RELEASE.repository,
    strata=("group_type", "level"),
    export_columns=COLUMNS,
    letters=LETTERS,
    is_grouped=True,
    headline=Headline(metric=Metric.GROUP_SCORE),
    size=Size(videos=RELEASE.videos, questions_per_video=4),
    prompt="official_v2",
    reader="official_v2",
)
