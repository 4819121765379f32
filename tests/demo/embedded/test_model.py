"""The embedded model: reading frames, choosing evidence, beating chance, and surviving crashes."""

import asyncio
import io
import signal
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import psutil
import pytest
from PIL import Image
from scipy.stats import binomtest

from tests.support.child_tasks import score_or_crash
from videomme_pipeline.benchmarks.question import Duration, Letter, Question
from videomme_pipeline.demo.embedded import model as embedded_model
from videomme_pipeline.demo.embedded.evidence import choose_evidence, spoken_lines
from videomme_pipeline.demo.embedded.model import WEIGHTS, EmbeddedModel
from videomme_pipeline.demo.embedded.pictures import (
    MAX_PICTURES,
    Picture,
    PictureFacts,
    PictureText,
    distinct,
    read_pictures,
)
from videomme_pipeline.demo.embedded.provider import EmbeddedSpec
from videomme_pipeline.demo.smoke import scripts as smoke
from videomme_pipeline.demo.smoke.drawing import draw_scene, draw_shapes
from videomme_pipeline.demo.smoke.scripts import Scene, Script, scripts
from videomme_pipeline.frames.cache import Frame, FrameSet
from videomme_pipeline.models.spec import Schedule
from videomme_pipeline.models.video_llm import Generation, Request, ResponseFailure
from videomme_pipeline.processes.children import Child, TaskLimits
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan, VideoRequests


def picture_of(script: Script, scene: Scene) -> Image.Image:
    """The picture of a scene, with its shapes in the middle as in the video."""
    picture, shapes = draw_scene(script, scene), draw_shapes(script, scene)
    picture.paste(shapes, ((script.width - shapes.width) // 2, int(script.height * 0.55)), shapes)
    return picture


def encode(picture: Image.Image, seconds: float = 0.0) -> Picture:
    sink = io.BytesIO()
    picture.save(sink, "JPEG", quality=90)
    return Picture(seconds=seconds, data=sink.getvalue())


def frame_of(picture: Image.Image, seconds: float = 0.0) -> Frame:
    return Frame(
        requested_seconds=seconds,
        pts_seconds=seconds,
        index=int(seconds),
        is_keyframe=True,
        width=picture.width,
        height=picture.height,
        picture=encode(picture).data,
    )


def frames_of(script: Script) -> FrameSet:
    return frame_set(
        *(
            frame_of(picture_of(script, scene), (scene.start_seconds + scene.end_seconds) / 2)
            for scene in script.scenes
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
        generation=Generation(),
    )


def question(text: str, *options: str) -> Question:
    return Question(
        benchmark="smoke",
        question_id="001-1",
        video_id="001",
        youtube_id="v",
        url=None,
        question=text,
        options=tuple(
            f"{letter}. {option}." for letter, option in zip(Letter, options, strict=False)
        ),
        answer=Letter.A,
    )


def facts(seconds: float, *texts: str) -> PictureFacts:
    return PictureFacts(
        seconds=seconds,
        texts=tuple(PictureText(text=text, x=0.5, y=0.5) for text in texts),
    )


def test_equal_frames_are_read_once_and_different_frames_in_time_order() -> None:
    script = scripts()[1]
    first, second = (encode(picture_of(script, scene)) for scene in script.scenes[:2])
    assert distinct([first, first, second, second]) == [first, second]
    scenes = [encode(picture_of(item, scene)) for item in scripts()[:3] for scene in item.scenes]
    assert len(distinct(scenes)) == MAX_PICTURES


def test_text_in_a_picture_is_read_with_its_position() -> None:
    script = next(item for item in scripts() if item.duration is Duration.SHORT)
    scene = script.scenes[0]
    child = Child()
    (facts,) = child.run(
        read_pictures, [encode(picture_of(script, scene), 65.0)], TaskLimits(seconds=120)
    )
    child.close()
    described = facts.describe()
    assert described.startswith("At 01:05: ")
    assert scene.heading in described
    assert f"{scene.left_sign} left" in described
    assert f"{scene.right_sign} right" in described
    corner = scene.corner.removeprefix("The ")
    assert f"{scene.code} {corner}" in described


def test_subtitle_lines_of_a_prompt_are_the_distinct_lines_before_the_question() -> None:
    example = question("Who is it?", "Anna", "Bruno")
    spoken = ("Anna is here.", "Bruno left.", "Anna is here.")
    prompt = request(example, frame_set(), spoken).prompt
    assert spoken_lines(prompt, example) == ("Anna is here.", "Bruno left.", "Question:")
    assert spoken_lines(request(example, frame_set()).prompt, example) == ()


def test_evidence_shares_rare_words_with_the_question() -> None:
    seen = [facts(1, "TOWER", "Old Town"), facts(5, "MINT", "Old Town"), facts(9, "Old Town")]
    example = question('What follows the heading "TOWER"?', "Mint", "Castle")
    assert choose_evidence(example, seen, ()) == (seen[0].describe(), seen[1].describe())
    spoken = ("Anna stops at the mint.", "Bruno asks for a rope.")
    example = question("What does Bruno ask for?", "A rope", "A map")
    assert choose_evidence(example, seen, spoken) == (spoken[1],)


def test_a_clock_time_selects_the_nearest_picture() -> None:
    seen = [facts(10, "ONE"), facts(70, "TWO"), facts(130, "THREE")]
    example = question("What is shown when the clock shows 01:08?", "One", "Two")
    assert seen[1].describe() in choose_evidence(example, seen, ())


def test_without_shared_words_the_evidence_is_the_title() -> None:
    seen = [facts(10, "Old Town", "ONE"), facts(70, "Old Town", "TWO")]
    example = question("What is this video about?", "Bread", "Music")
    assert choose_evidence(example, seen, ()) == ("The title is Old Town.",)
    assert choose_evidence(example, (), ()) == ()


def test_a_crash_costs_one_attempt_of_one_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = replace(WEIGHTS, member_sha256=sha256(b"weights").hexdigest())
    (tmp_path / weights.name).write_bytes(b"weights")
    monkeypatch.setattr(embedded_model, "score_options", score_or_crash)
    asked = [
        replace(question(text, "One", "Two"), question_id=text)
        for text in ("once", "always", "never")
    ]
    video = VideoRequests(
        video_id="001",
        questions=[(item, request(item, frame_set()).prompt) for item in asked],
        frame_digests=[],
        load_frames=frame_set,
    )
    plan = RequestPlan(
        evaluation="e",
        generation=Generation(),
        schedule=Schedule.TOGETHER,
        limits=EmbeddedSpec(name="embedded").limits,
    )
    model = EmbeddedModel(tmp_path, weights=weights)
    with Journal(tmp_path / "journal.sqlite") as journal:
        responses = {r.question_id: r for r in collect([video], model, journal, plan)}
    assert {name: r.served.attempts for name, r in responses.items()} == {
        "once": 2,
        "always": 3,
        "never": 1,
    }
    assert (responses["once"].raw_output, responses["never"].raw_output) == ("A", "A")
    assert "embedded model: its process crashed (SIGSEGV)" in str(responses["always"].error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded")


@pytest.mark.slow
async def test_damaged_facts_of_an_answer_do_not_change_the_answer(
    folder: Path,
) -> None:
    script = scripts()[1]
    example = next(
        item for item in smoke.questions("smoke") if item.facets["task_type"] == "OCR Problems"
    )
    replies = []
    for damage in (b"", b"", b"~"):
        for stored in folder.glob("facts/*.json"):
            stored.write_bytes(stored.read_bytes().replace(b'"texts"', b'"texts' + damage + b'"'))
        model = EmbeddedModel(folder)
        replies.append(await model.respond(request(example, frames_of(script))))
        await model.close()
    assert replies[0] == replies[1] == replies[2]
    assert replies[0].text == example.answer
    assert "At 00:" in (replies[0].reasoning or "")


@pytest.mark.slow
async def test_questions_at_the_same_time_have_the_answers_of_questions_one_after_the_other(
    folder: Path,
) -> None:
    frames = frames_of(scripts()[1])
    asked = [request(item, frames) for item in smoke.questions("smoke")[:6]]
    model = EmbeddedModel(folder)
    one_by_one = [await model.respond(item) for item in asked]
    await model.close()
    assert list(await asyncio.gather(*map(model.respond, reversed(asked)))) == one_by_one[::-1]
    await model.close()


@pytest.mark.slow
async def test_the_model_answers_a_question_without_frames(folder: Path) -> None:
    model = EmbeddedModel(folder)
    example = smoke.questions("smoke")[0]
    reply = await model.respond(request(example, frame_set()))
    await model.close()
    assert reply.text in example.letters
    assert "- nothing" in (reply.reasoning or "")


@pytest.mark.slow
async def test_the_model_beats_chance_on_short_smoke_videos(folder: Path) -> None:
    every_third = scripts()[::3]
    short = {script.video_id: script for script in every_third if script.duration is Duration.SHORT}
    model = EmbeddedModel(folder)
    right = [
        (
            await model.respond(
                request(
                    example,
                    frames_of(script),
                    tuple(text for scene in script.scenes for text in scene.sentences),
                )
            )
        ).text
        == example.answer
        for example in smoke.questions("smoke")
        if (script := short.get(example.video_id)) is not None
    ]
    await model.close()
    assert binomtest(sum(right), len(right), 0.25, alternative="greater").pvalue < 0.01


def children() -> set[psutil.Process]:
    """The child processes of this one. Fixtures of the session may have started some."""
    return set(psutil.Process().children())


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL])
async def test_a_model_that_is_killed_during_a_question_answers_the_next_request(
    folder: Path, how: signal.Signals
) -> None:
    script = scripts()[1]
    example = request(smoke.questions("smoke")[3], frames_of(script))
    others = children()
    model = EmbeddedModel(folder)
    reply = await model.respond(example)
    await model.close()  # the next one needs only the first child, because the facts are stored
    assert await model.respond(example) == reply
    (child,) = children() - others
    child.suspend()  # so that the next question is certainly not answered yet
    asking = asyncio.create_task(model.respond(example))
    await asyncio.sleep(0.1)
    child.send_signal(how)
    child.resume()
    with pytest.raises(ResponseFailure, match="embedded model: its process"):
        await asking
    assert await model.respond(example) == reply
    await model.close()
    assert children() == others


@pytest.mark.slow
async def test_closing_the_model_ends_a_question_and_its_process(folder: Path) -> None:
    others = children()
    model = EmbeddedModel(folder)
    example = request(smoke.questions("smoke")[0], frame_set())
    reply = await model.respond(example)
    (child,) = children() - others
    child.suspend()
    asking = asyncio.create_task(model.respond(example))
    await asyncio.sleep(0.1)
    await model.close()
    with pytest.raises(ResponseFailure):
        await asking
    assert not psutil.pid_exists(child.pid)
    assert await model.respond(example) == reply
    await model.close()
    assert not {"xllamacpp", "rapidocr", "onnxruntime"} & set(sys.modules)
