"""The embedded model: what it reads, what it uses as evidence, and that it beats chance."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

from videomme_pipeline.benchmarks.question import Duration, Letter, Question
from videomme_pipeline.benchmarks.smoke import benchmark as smoke
from videomme_pipeline.benchmarks.smoke.drawing import draw_scene, draw_shapes
from videomme_pipeline.benchmarks.smoke.scripts import Colour, Scene, Script, scripts
from videomme_pipeline.frames.cache import Frame, FrameSet
from videomme_pipeline.models.embedded.model import (
    MAX_PICTURES,
    EmbeddedModel,
    PictureFacts,
    PictureReader,
    PictureText,
    choose_evidence,
    distinct,
    equal_shapes,
    spoken_lines,
)
from videomme_pipeline.models.video_llm import Decoding, Request
from videomme_pipeline.prompts.render import Prompt


def picture_of(script: Script, scene: Scene) -> Image.Image:
    """The scene with its shapes in the middle, as the video shows it."""
    picture, shapes = draw_scene(script, scene), draw_shapes(script, scene)
    picture.paste(shapes, ((script.width - shapes.width) // 2, int(script.height * 0.55)), shapes)
    return picture


def frame_of(picture: Image.Image, seconds: float = 0.0) -> Frame:
    sink = io.BytesIO()
    picture.save(sink, "JPEG", quality=90)
    return Frame(
        requested_seconds=seconds,
        pts_seconds=seconds,
        index=int(seconds),
        is_keyframe=True,
        width=picture.width,
        height=picture.height,
        picture=sink.getvalue(),
    )


def frames_of(script: Script) -> FrameSet:
    return frame_set(
        *(
            frame_of(picture_of(script, it), (it.start_seconds + it.end_seconds) / 2)
            for it in script.scenes
        )
    )


def frame_set(*frames: Frame) -> FrameSet:
    return FrameSet(video_hash="v", fingerprint="f", media_type="image/jpeg", frames=frames)


def request(question: Question, frames: FrameSet, spoken: tuple[str, ...] = ()) -> Request:
    options = "\n".join(question.options)
    lines = "\n".join(spoken)
    return Request(
        question=question,
        prompt=Prompt(
            benchmark=question.benchmark,
            question_id=question.question_id,
            video_id=question.video_id,
            template="contract_v1",
            system=None,
            text=f"{lines}\n\nQuestion: {question.question}\n\nOptions:\n{options}",
            after_frame=(),
            num_frames=len(frames.frames),
            subtitle_lines=len(spoken),
        ),
        frames=frames,
        decoding=Decoding(),
    )


def question(text: str, *options: str) -> Question:
    return Question(
        benchmark="smoke",
        question_id="001-1",
        video_id="001",
        youtube_id="v",
        url=None,
        question=text,
        options=tuple(f"{letter}. {it}." for letter, it in zip(Letter, options, strict=False)),
        answer=Letter.A,
    )


def facts(seconds: float, *texts: str, shapes: str = "") -> PictureFacts:
    return PictureFacts(
        seconds=seconds,
        texts=tuple(PictureText(text=it, x=0.5, y=0.5) for it in texts),
        shapes=shapes,
    )


def test_equal_frames_are_read_once_and_different_frames_in_time_order() -> None:
    script = scripts()[1]
    first, second = (frame_of(picture_of(script, it)) for it in script.scenes[:2])
    assert distinct([first, first, second, second]) == [first, second]
    scenes = [frame_of(picture_of(it, scene)) for it in scripts()[:3] for scene in it.scenes]
    assert len(distinct(scenes)) == MAX_PICTURES


@pytest.mark.parametrize("script", scripts()[:6], ids=lambda it: it.title)
def test_shapes_of_one_color_are_counted(script: Script) -> None:
    for scene in script.scenes:
        shapes = draw_shapes(script, scene)
        plain = Image.new("RGB", (script.width, script.height), (140, 160, 170))
        plain.paste(shapes, (0, script.height // 2), shapes)
        if scene.colour is not Colour.WHITE:  # outlines are dark, plates of words are light
            assert equal_shapes(np.asarray(plain), []) == f"{scene.count} {scene.colour} shapes"


def test_text_in_a_picture_is_read_with_its_position() -> None:
    script = next(it for it in scripts() if it.duration is Duration.SHORT)
    scene = script.scenes[0]
    found = PictureReader().read(frame_of(picture_of(script, scene), 65.0))
    described = found.describe()
    assert described.startswith("At 01:05: ")
    assert scene.heading in described
    assert f"{scene.left_sign} left" in described
    assert f"{scene.right_sign} right" in described
    corner = scene.corner.removeprefix("The ")
    assert f"{scene.code} {corner}" in described


def test_subtitle_lines_are_found_before_the_question_without_duplicates() -> None:
    asked = question("Who is it?", "Anna", "Bruno")
    spoken = ("Anna is here.", "Bruno left.", "Anna is here.")
    prompt = request(asked, frame_set(), spoken).prompt
    assert spoken_lines(prompt, asked) == ("Anna is here.", "Bruno left.", "Question:")
    assert spoken_lines(request(asked, frame_set()).prompt, asked) == ()


def test_evidence_shares_rare_words_with_the_question() -> None:
    seen = [facts(1, "TOWER", "Old Town"), facts(5, "MINT", "Old Town"), facts(9, "Old Town")]
    asked = question('What follows the heading "TOWER"?', "Mint", "Castle")
    assert choose_evidence(asked, seen, ()) == (seen[0].describe(), seen[1].describe())
    said = ("Anna stops at the mint.", "Bruno asks for a rope.")
    asked = question("What does Bruno ask for?", "A rope", "A map")
    assert choose_evidence(asked, seen, said) == (said[1],)


def test_a_clock_time_selects_the_nearest_picture() -> None:
    seen = [facts(10, "ONE"), facts(70, "TWO"), facts(130, "THREE")]
    asked = question("What is shown when the clock shows 01:08?", "One", "Two")
    assert seen[1].describe() in choose_evidence(asked, seen, ())


def test_the_evidence_without_shared_words_is_the_title_if_there_is_one() -> None:
    seen = [facts(10, "Old Town", "ONE"), facts(70, "Old Town", "TWO")]
    asked = question("What is this video about?", "Bread", "Music")
    assert choose_evidence(asked, seen, ()) == ("The title is Old Town.",)
    assert choose_evidence(asked, (), ()) == ()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded")


@pytest.mark.slow
async def test_the_same_request_gets_the_same_answer_and_evidence(folder: Path) -> None:
    script = scripts()[1]
    asked = next(it for it in smoke.questions("smoke") if it.facets["task_type"] == "OCR Problems")
    replies = []
    for _ in range(2):
        model = EmbeddedModel(folder)
        replies.append(await model.respond(request(asked, frames_of(script))))
        await model.close()
    assert replies[0] == replies[1]
    assert replies[0].text == asked.answer
    assert "At 00:" in (replies[0].reasoning or "")


@pytest.mark.slow
async def test_without_frames_it_answers_from_the_question_alone(folder: Path) -> None:
    model = EmbeddedModel(folder)
    asked = smoke.questions("smoke")[0]
    reply = await model.respond(request(asked, frame_set()))
    await model.close()
    assert reply.text in asked.letters
    assert "- nothing" in (reply.reasoning or "")


@pytest.mark.slow
async def test_it_beats_chance_on_the_short_drawn_videos(folder: Path) -> None:
    short = {script.video_id: script for script in scripts() if script.duration is Duration.SHORT}
    model = EmbeddedModel(folder)
    right = [
        (
            await model.respond(
                request(
                    asked,
                    frames_of(script),
                    tuple(text for scene in script.scenes for text in scene.sentences),
                )
            )
        ).text
        == asked.answer
        for asked in smoke.questions("smoke")
        if (script := short.get(asked.video_id)) is not None
    ]
    await model.close()
    assert binomtest(sum(right), len(right), 0.25, alternative="greater").pvalue < 0.01
