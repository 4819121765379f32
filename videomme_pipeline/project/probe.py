"""One small request to a model, to find out whether it answers questions about pictures."""

import asyncio
import io
from collections.abc import Mapping
from os import environ
from time import monotonic

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import Frame, FrameSet
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Decoding, Reply, Request
from videomme_pipeline.prompts.render import TemplateName, parse_template, render
from videomme_pipeline.videos.integrity import Finding, Verdict

LIMIT_SECONDS = 120.0
"""A server may have to load its model first."""
_SIDE_PIXELS = 64


def probe(spec: ModelSpec, environment: Mapping[str, str] = environ) -> Finding:
    """Ask the model for the color of one small picture, once. The reply is not stored."""
    check, began = f"request to {spec.name}", monotonic()
    try:
        reply = asyncio.run(_ask(spec, environment))
    except TimeoutError:
        message = f"no answer within {LIMIT_SECONDS:.0f} s; check the log of the server"
        return Finding(check=check, verdict=Verdict.FAILED, message=message)
    except VideoMMEError as error:
        return Finding(check=check, verdict=Verdict.FAILED, message=str(error))
    message = f"answered {reply.text.strip()[:60]!r} after {monotonic() - began:.1f} s"
    if reply.usage.prompt_tokens is not None:
        message += f", {reply.usage.prompt_tokens:,} prompt tokens"
    if reply.warning is not None:
        return Finding(check=check, verdict=Verdict.WARNING, message=f"{message}; {reply.warning}")
    return Finding(check=check, verdict=Verdict.OK, message=message)


async def _ask(spec: ModelSpec, environment: Mapping[str, str]) -> Reply:
    model = build_model(spec.answering_at_once, environment)
    try:
        return await asyncio.wait_for(model.respond(_request()), LIMIT_SECONDS)
    finally:
        await model.close()


def _request() -> Request:
    question = Question(
        benchmark="probe",
        question_id="probe-1",
        video_id="probe",
        youtube_id=None,
        url=None,
        question="Which color does the picture show?",
        options=("A. Green.", "B. Red.", "C. Blue.", "D. White."),
        answer=Letter.B,
    )
    frames = _red_picture()
    prompt = render(
        parse_template(TemplateName.CONTRACT_V1_EXACT),
        question,
        None,
        frame_seconds=frames.seconds,
        interleaved=False,
    )
    return Request(question=question, prompt=prompt, frames=frames, decoding=Decoding())


def _red_picture() -> FrameSet:
    from PIL import Image  # noqa: PLC0415

    sink = io.BytesIO()
    Image.new("RGB", (_SIDE_PIXELS, _SIDE_PIXELS), "red").save(sink, "JPEG")
    picture = sink.getvalue()
    frame = Frame(
        requested_seconds=0.0,
        pts_seconds=0.0,
        index=0,
        is_keyframe=True,
        width=_SIDE_PIXELS,
        height=_SIDE_PIXELS,
        picture=picture,
    )
    return FrameSet(
        video_hash="probe",
        fingerprint=fingerprint("probe", picture.hex()),
        media_type="image/jpeg",
        frames=(frame,),
        asked=1,
    )
