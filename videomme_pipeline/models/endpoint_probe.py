"""The probe of an endpoint: how many pictures reach the model, and with which times.

The prompt tokens that the endpoint reports show how many drawn pictures arrived. Each picture shows
its number, so that a model that can read confirms it.
"""

import asyncio
import io
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.errors import Finding, ModelError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import NO_FRAMES, Frame, FrameSet, WholeVideo
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.endpoint.frame_tokens import TIME_TOKENS
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import (
    Generation,
    Reply,
    Request,
    ResponseFailure,
    VideoLLM,
    seen_frames,
)
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.videos.container import index_packets

if TYPE_CHECKING:
    from PIL.Image import Image

FEW, MORE, MANY = 4, 8, 40
"""Numbers of pictures. Some engines drop pictures after the 32nd."""
SIDE_PIXELS = 224
"""Side of the square pictures: a multiple of 28 and 32, the patches of most models."""
SECONDS = (0, 7, 9, 30, 41, 44, 60, 83)
"""Times of `MORE` pictures, which do not follow from their numbers."""
TIMED_NUMBER = 5
VIDEO_SAMPLING = "fps_based-1"
"""The sampling of a model without evaluations. Most endpoints that take videos can be told it."""
VIDEO_FPS = 4

LAST_NUMBER = "Which number does the last picture show? Reply with the number only."
TIME_OF = (
    f"At which second of the video is the picture with the number {TIMED_NUMBER} shown? "
    "Reply with the number of seconds only."
)
LIMIT_SECONDS = 120.0
"""Time for a single request. A server may have to load its model first."""
_MIN_SHARE = 0.95
"""Smallest share of the expected tokens with which all pictures count as arrived."""
_NO_TOKENS = "unknown if they arrive: the endpoint reports no prompt tokens"
_GENERATION = Generation(temperature=None, max_tokens=256)
_ok, _warning, _failed = Finding.ok, Finding.warning, Finding.error


async def probe_endpoints(
    members: Sequence[tuple[ModelSpec, VideoLLM]], samplings: Sequence[str] = ()
) -> list[Finding]:
    """The findings about each endpoint of a model, with the samplings of its evaluations.

    Raises ModelError if the first endpoint does not answer a request with text alone.
    """
    findings: list[Finding] = []
    for spec, model in members:
        endpoint = f"endpoint {_address(spec)}"
        try:
            of_one = await probe(spec, model, samplings)
        except ModelError as error:
            if not findings:
                raise
            findings.append(_failed(endpoint, str(error)))
        else:
            prefix = f"{endpoint}: " if findings else ""
            findings += [replace(item, check=prefix + item.check) for item in of_one]
    return findings


async def probe(spec: ModelSpec, model: VideoLLM, samplings: Sequence[str] = ()) -> list[Finding]:
    """The findings about text and pictures. Close the model. Raises ModelError if text fails."""
    try:
        text = await _ask(model, LAST_NUMBER, NO_FRAMES)
        if not model.needs_frames:
            return [_text(spec, text), _ok("pictures", "this model ignores pictures")]
        try:
            if isinstance(spec, EndpointSpec) and spec.reads_video:
                findings = await _videos(spec, model, samplings)
            else:
                findings = await _pictures(spec, model, text)
        except ModelError as error:
            findings = [_failed("pictures", str(error))]
        return [_text(spec, text), *findings]
    finally:
        await model.close()


async def probe_once(spec: ModelSpec, model: VideoLLM, samplings: Sequence[str] = ()) -> Finding:
    """The finding about a picture, or a video per sampling. Close the model. Raises ModelError."""
    answers = []
    try:
        with TemporaryDirectory() as folder:
            requests = (
                [(TIME_OF, _drawn_video(s, Path(folder))) for s in samplings or (VIDEO_SAMPLING,)]
                if spec.reads_video
                else [(LAST_NUMBER, _drawn([1]))]
            )
            for text, frames in requests:
                reply = await asyncio.wait_for(_ask(model, text, frames), LIMIT_SECONDS)
                answers.append(f"{_described(frames)} is answered with {_start(reply)}")
    except TimeoutError:
        raise ModelError(
            f"model {model.name}: no answer within {LIMIT_SECONDS:.0f} s; check the server's log"
        ) from None
    finally:
        await model.close()
    return _ok("request", "; ".join(answers))


async def _pictures(spec: ModelSpec, model: VideoLLM, text: Reply) -> list[Finding]:
    shown = [_drawn(range(1, count + 1)) for count in (FEW, MORE, MANY)]
    replies = [text, *[await _ask(model, LAST_NUMBER, frames) for frames in shown]]
    timed = await _ask(model, TIME_OF, shown[1]) if spec.sees_frame_times else None
    counts = [reply.usage.prompt_tokens for reply in replies]
    reported = [count for count in counts if count is not None]
    if len(reported) < len(counts):
        arrival = [_warning("pictures", _NO_TOKENS)]
    else:
        of_text, few, more, many = reported
        arrival = [_arrival(few - of_text), _count((more - few) / (MORE - FEW), many - few)]
    return [*arrival, _reading(replies[3]), _times(timed)]


async def _videos(spec: EndpointSpec, model: VideoLLM, samplings: Sequence[str]) -> list[Finding]:
    """The findings about the frames that the endpoint takes from a video with each sampling."""
    findings = []
    timed = None
    with TemporaryDirectory() as folder:
        for sampling in samplings or (VIDEO_SAMPLING,):
            frames = _drawn_video(sampling, Path(folder))
            times = "".join(spec.frame_times(frames.seconds))
            text = await _ask(model, times + TIME_OF, NO_FRAMES)
            try:
                timed = await _ask(model, TIME_OF, frames)
            except ModelError as error:
                findings.append(_failed(f"frames of {sampling}", str(error)))
            else:
                findings.append(_taken(spec, frames, text, timed))
    return findings if timed is None else [*findings, _times(timed)]


def _drawn(numbers: Sequence[int]) -> FrameSet:
    """Square pictures that show `numbers`. `MORE` of them have the times `SECONDS`."""
    times: Sequence[float] = SECONDS if len(numbers) == MORE else range(len(numbers))
    return _frame_set([_jpeg(_picture_of(number)) for number in numbers], times)


def _drawn_video(sampling: str, folder: Path) -> FrameSet:
    """The planned frames of a video in `folder` that shows the next number at each of `SECONDS`."""
    path = folder / "numbers.mp4"
    if not path.exists():
        pictures = [_picture_of(number) for number in range(1, MORE + 1)]
        by_second = [bisect_right(SECONDS, second) for second in range(SECONDS[-1] + 1)]
        _write_video(path, (pictures[n - 1] for n in by_second for _ in range(VIDEO_FPS)))
    index = index_packets(path)
    chosen = parse_sampling(sampling)
    numbers = chosen.choose(index.times).frames
    frames = _frame_set([b""] * len(numbers), [float(index.seconds[n]) for n in numbers])
    video = WholeVideo(path=path, size=(SIDE_PIXELS, SIDE_PIXELS), sampling=chosen)
    return replace(frames, video=video, sampling=sampling)


def _frame_set(pictures: Sequence[bytes], seconds: Sequence[float]) -> FrameSet:
    return FrameSet(
        video_hash=fingerprint("probe", list(seconds)),
        fingerprint="probe",
        media_type="image/jpeg",
        frames=tuple(
            Frame(
                requested_seconds=float(at),
                pts_seconds=float(at),
                index=round(at * 30),
                is_keyframe=True,
                width=SIDE_PIXELS,
                height=SIDE_PIXELS,
                picture=picture,
            )
            for picture, at in zip(pictures, seconds, strict=True)
        ),
    )


def _write_video(path: Path, pictures: "Iterable[Image]") -> None:
    import av  # noqa: PLC0415 - loads libav
    import numpy as np  # noqa: PLC0415 - few commands draw

    with av.open(str(path), "w") as output:
        stream: Any = output.add_stream("libx264", rate=VIDEO_FPS)
        stream.width, stream.height, stream.pix_fmt = SIDE_PIXELS, SIDE_PIXELS, "yuv420p"
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def _picture_of(number: int) -> "Image":
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - few commands draw

    picture = Image.new("RGB", (SIDE_PIXELS, SIDE_PIXELS), "white")
    half = SIDE_PIXELS / 2
    font = ImageFont.load_default(half)
    ImageDraw.Draw(picture).text((half, half), str(number), "black", font, anchor="mm")
    return picture


def _jpeg(picture: "Image") -> bytes:
    sink = io.BytesIO()
    picture.save(sink, "JPEG", quality=90)
    return sink.getvalue()


def _described(frames: FrameSet) -> str:
    """The contents of a request with these frames, for messages."""
    count = len(frames.frames)
    if frames.video is not None:
        return f"a video with {count} planned frames ({frames.sampling})"
    return {0: "text alone", 1: "one picture"}.get(count, f"{count} pictures")


async def _ask(model: VideoLLM, text: str, frames: FrameSet) -> Reply:
    """The reply to one request, even if it has no text."""
    question = Question(
        benchmark="probe",
        question_id="probe",
        video_id="probe",
        youtube_id=None,
        url=None,
        question=text,
        options=("A. Yes.", "B. No."),
        answer=Letter.A,
    )
    prompt = Prompt(
        benchmark="probe",
        question_id="probe",
        video_id="probe",
        template="probe",
        system=None,
        text=text,
        after_frame=(),
        num_frames=len(frames.frames),
        subtitle_lines=0,
    )
    request = Request(question=question, prompt=prompt, frames=frames, generation=_GENERATION)
    try:
        return await model.respond(request)
    except ResponseFailure as failure:
        if failure.reply is None:
            sent = _described(frames)
            raise ModelError(
                f"model {model.name}: a request with {sent} has no answer. {failure}"
            ) from failure
        return failure.reply


def _address(spec: ModelSpec) -> str:
    return spec.endpoint if isinstance(spec, EndpointSpec) else "this process"


def _text(spec: ModelSpec, text: Reply) -> Finding:
    served = "" if text.reported_model is None else f" as {text.reported_model}"
    count = text.usage.prompt_tokens
    tokens = "reports no tokens" if count is None else f"{count:,} prompt tokens"
    message = f"{_address(spec)} answers{served} ({tokens})"
    return (_warning if count is None else _ok)("text", message)


def _arrival(added: int) -> Finding:
    if added >= FEW:
        added_tokens = f"{FEW} pictures of {SIDE_PIXELS} × {SIDE_PIXELS} pixels add {added:,}"
        return _ok("pictures", f"they arrive: {added_tokens} prompt tokens")
    return _failed(
        "pictures",
        f"{FEW} pictures add {max(added, 0)} prompt tokens, so the model does not see them; "
        "serve a model with vision, or use `sampling: none`",
    )


def _count(per_picture: float, added: int) -> Finding:
    check = "number of pictures"
    if per_picture <= 0:
        message = f"{MORE} pictures cost as much as {FEW}; the server keeps at most {FEW}"
        return _failed(check, message)
    arrived = FEW + added / per_picture
    if arrived >= MANY * _MIN_SHARE:
        return _ok(check, f"all {MANY} of {MANY} arrive")
    return _failed(
        check,
        f"about {arrived:.0f} of {MANY} pictures arrive; raise the server's limit "
        "(vLLM: --limit-mm-per-prompt), or set `max_images` and sample fewer frames",
    )


def _taken(spec: EndpointSpec, frames: FrameSet, text: Reply, timed: Reply) -> Finding:
    """The finding about the number of frames that the endpoint took from a video."""
    check, planned = f"frames of {frames.sampling}", len(frames.frames)
    if text.usage.prompt_tokens is None or timed.usage.prompt_tokens is None:
        return _warning(check, _NO_TOKENS)
    tokens = timed.usage.prompt_tokens - text.usage.prompt_tokens
    tokens += TIME_TOKENS * len(spec.frame_times(frames.seconds))
    expected = spec.tokens_of(frames)
    if expected is None:
        message = f"unknown: {tokens:,} tokens for {planned} planned frames, and no token rule"
        return _warning(check, f"{message}; set `tokens_per_frame`")
    seen = seen_frames(planned, expected, tokens)
    if seen == planned:
        return _ok(check, f"all {planned} of {planned} arrive ({tokens:,} tokens)")
    return _failed(
        check,
        f"about {seen} of {planned} arrive ({tokens:,} tokens instead of {expected:,}); choose "
        "another sampling or version of the engine (docs/engines.md), or send pictures",
    )


def _reading(many: Reply) -> Finding:
    if _is_number(many.text, MANY):
        return _ok("answer", f"the model reads the number of the last of {MANY} pictures")
    return _warning(
        "answer", f"the model answers {_start(many)}, not {MANY}; perhaps it cannot read"
    )


def _times(timed: Reply | None) -> Finding:
    expected = SECONDS[TIMED_NUMBER - 1]
    if timed is None:
        message = "not sent: frames are sent as images, so only the prompt can contain times"
    elif _is_number(timed.text, expected):
        message = f"they arrive: the model knows that picture {TIMED_NUMBER} is at {expected} s"
    else:
        message = f"unknown: the model answers {_start(timed)} for a picture at {expected} s"
        return _warning("times", message)
    return _ok("times", message)


def _start(reply: Reply) -> str:
    return repr(reply.text.strip()[:80])


def _is_number(text: str, number: int) -> bool:
    return re.findall(r"\d+", text) == [str(number)]
