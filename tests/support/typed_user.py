"""A program that uses the public names, as somebody else would write it.

Type checkers read it and nobody runs it: each `assert_type` fails if a checker sees another type.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import assert_type

from videomme_pipeline import (
    Configuration,
    Evaluation,
    Letter,
    Project,
    Question,
    ReaderName,
    Reply,
    Request,
    Response,
    ScoredQuestion,
    Store,
    VideoLLM,
    VideoMMEError,
    align,
    compare,
    connect,
    index_packets,
    open_project,
    parse_alignment,
    parse_sampling,
    parse_template,
    read_answer,
    read_configuration,
    read_subtitles,
    render,
    score_question,
    write_page,
)


class LongestOption:
    """A model of another package."""

    @property
    def name(self) -> str:
        return "longest"

    @property
    def identity(self) -> Mapping[str, object]:
        return {"kind": "longest"}

    @property
    def needs_frames(self) -> bool:
        return False

    async def respond(self, request: Request) -> Reply:
        options = assert_type(request.question.options, tuple[str, ...])
        return Reply(text=max(options, key=len))

    async def close(self) -> None:
        return None


def model() -> VideoLLM:
    return LongestOption()


def read(text: str) -> Letter | None:
    return assert_type(
        read_answer(ReaderName.CAREFUL, text, letters=tuple(Letter)[:4]).letter, Letter | None
    )


def score(question: Question, response: Response) -> ScoredQuestion:
    scored = score_question(
        question,
        response,
        ReaderName.CAREFUL,
        example_id="001-1",
        evaluation_fingerprint="",
        sampling="uniform_n-8",
        track="without subtitles",
    )
    assert_type(scored.is_correct, bool)
    assert_type(compare([scored], [scored]).n, int)
    return scored


def prompt(question: Question, subtitles: Path) -> str:
    alignment = parse_alignment("window-500")
    assert_type(read_subtitles(subtitles).cues[0].text, str)
    assert_type(parse_sampling("uniform_n-8").fingerprint, str)
    assert_type(index_packets(Path("video.mp4")).duration_seconds, float)
    template = parse_template("official_v1")
    rendered = render(template, question, None, frame_seconds=[0.0], alignment=alignment)
    return assert_type(rendered.text, str)


def project() -> Project:
    assert_type(align.__name__, str)
    configuration = assert_type(read_configuration(Path("assets")), Configuration)
    assert_type(configuration.evaluations["mine"], Evaluation)
    try:
        return open_project(Path("assets"))
    except VideoMMEError as error:
        raise SystemExit(str(error)) from error


def page(store: Store) -> Path:
    with connect(store) as views:
        views.sql("select evaluation, accuracy from leaderboard")
    return assert_type(write_page(store, Path("page.html")), Path)
