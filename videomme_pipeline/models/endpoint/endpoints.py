"""Families of OpenAI-compatible endpoints and their engines. `profiles.yaml` contains them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ByteSize

from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.cache import FrameSet, VideoLength
from videomme_pipeline.models.spec import Schedule


class FramesAs(StrEnum):
    """A way to send the frames of a video."""

    IMAGES = "images"
    """One `image_url` part per frame, with a JPEG data URL."""
    FRAME_SEQUENCE = "frame_sequence"
    """One `video_url` part: JPEG frames in one data URL, and their real times in a parameter."""
    VIDEO_FILE = "video_file"
    """One part with the video itself, from which the endpoint takes the frames."""

    @property
    def in_fingerprints(self) -> str:
        """The word in request fingerprints. With another word, every question is asked again."""
        return {"frame_sequence": "video", "video_file": "native"}.get(self, self.value)


class AnswerConstraint(StrEnum):
    """The request field that restricts the output to the option letters."""

    STRUCTURED_OUTPUTS = "structured_outputs"
    """vLLM ≥ 0.12: `structured_outputs: {"choice": […]}` (`guided_choice` is ignored there)."""
    JSON_SCHEMA = "json_schema"
    """`response_format` with an enum. The answer is a JSON object that contains the letter."""
    REGEX_SCHEMA = "regex_schema"
    """LMDeploy: `response_format` with a regular expression."""
    REGEX = "regex"
    """SGLang: `regex`."""
    GRAMMAR = "grammar"
    """llama.cpp: `grammar` (GBNF)."""


class Engine(Spec):
    """The way to start the server of an engine, and to find the version of the engine."""

    command: tuple[str, ...]
    package: str | None = None
    """The Python package with the engine's version. Without one, only running servers report it."""
    weights_option: str | None = None
    """Without this option, the weights are an argument."""
    name_option: str | None = None
    """Without this option, requests name the weights."""
    host_option: str = "--host"
    port_option: str = "--port"
    revision_option: str | None = None
    gpus_option: str | None = None
    device_option: str | None = None
    """With this option, a replica of one GPU ends if it finds no GPU, or too little memory on it.
    Without it, the engine would use the CPU."""
    trusting_option: str | None = None
    """With this option, versions from `trusting_since` on accept settings of frames in requests.
    Earlier versions always do and do not know the option."""
    trusting_since: tuple[int, int] | None = None
    environment: Mapping[str, str] = {}
    """Variables of a server, if the environment of the run does not set them."""


class EndpointProfile(Spec):
    """The abilities and reports of a family of endpoints."""

    frames_as: tuple[FramesAs, ...] = (FramesAs.IMAGES,)
    """The ways to send frames, the default first."""
    max_images: int | None = None
    """Checked before anything is sent, as `max_body_bytes` is."""
    max_body_bytes: ByteSize | None = None
    max_decoded_bytes: int | None = None
    """Default limit of all pictures of a request as pixels, at servers that were not changed."""
    max_decoded_since: tuple[int, int] = (0, 0)
    """Major and minor number of the first version that has this limit."""
    token_limit_parameter: str = "max_tokens"
    answer_constraint: AnswerConstraint | None = None
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    """Fields of the message that contain the reasoning."""
    schedule: Schedule = Schedule.TOGETHER
    takes_prompt_cache_key: bool = False
    is_paid: bool = False
    reports_context: bool = False
    """The list of models has the context of each model."""
    takes_audio: bool = False
    """The endpoint accepts `input_audio` with a WAV file."""
    reports: Mapping[str, Mapping[str, str]] = {}
    """Paths at which a server reports what it is. Each has the keys of values in a JSON object, by
    the names of the values in an identity."""
    reports_in_answers: bool = False
    """Answers have the hash of the server's configuration, and its list of models the weights."""
    owned_by: str | None = None
    """The value in lists of models by which a new entry gets this profile."""
    engine: Engine | None = None
    """Without one, `serve` cannot start a server of this family."""


PROFILES: Mapping[str, EndpointProfile] = {
    name: parse_spec(values, EndpointProfile, f"profile {name}")
    for name, values in read_yaml(Path(__file__).with_name("profiles.yaml")).items()
}
ENGINES: Mapping[str, Engine] = {
    name: profile.engine for name, profile in PROFILES.items() if profile.engine is not None
}

# Names are those of the file, so that a family of endpoints and its engine are one row there.
if TYPE_CHECKING:
    Profile = str
    EngineName = str
else:
    Profile = Literal[tuple(PROFILES)]
    EngineName = Literal[tuple(ENGINES)]


def constrained_to(constraint: AnswerConstraint, letters: Sequence[str]) -> dict[str, Any]:
    """The request fields that restrict the output to one of `letters`."""
    pattern = f"[{''.join(letters)}]"
    match constraint:
        case AnswerConstraint.STRUCTURED_OUTPUTS:
            return {"structured_outputs": {"choice": list(letters)}}
        case AnswerConstraint.REGEX:
            return {"regex": pattern}
        case AnswerConstraint.REGEX_SCHEMA:
            return {"response_format": {"type": "regex_schema", "regex_schema": pattern}}
        case AnswerConstraint.GRAMMAR:
            return {"grammar": "root ::= " + " | ".join(f'"{letter}"' for letter in letters)}
        case AnswerConstraint.JSON_SCHEMA:
            schema = {
                "type": "object",
                "properties": {"answer": {"type": "string", "enum": list(letters)}},
                "required": ["answer"],
                "additionalProperties": False,
            }
            named = {"name": "answer", "strict": True, "schema": schema}
            return {"response_format": {"type": "json_schema", "json_schema": named}}


def video_sampling(frames: FrameSet) -> dict[str, Any]:
    """vLLM's `media_io_kwargs` for frames that are already sampled.

    vLLM 0.33 keeps the first 32 frames of a `video/jpeg` data URL unless `num_frames` is -1, and
    computes their times as `index / fps`. These are the source's, so the times are the real ones.
    """
    ordered = sorted(frames.frames, key=lambda frame: frame.index)
    first, last = ordered[0], ordered[-1]
    shown_seconds = last.pts_seconds - first.pts_seconds
    fps = (last.index - first.index) / shown_seconds if shown_seconds > 0 else 1.0
    length = frames.length
    if length is None or length.frames <= last.index:
        length = VideoLength(frames=last.index + 1, seconds=(last.index + 1) / fps)
    video = {
        "num_frames": -1,
        "fps": round(fps, 6),
        "frames_indices": [frame.index for frame in frames.frames],
        "total_num_frames": length.frames,
        "duration": round(length.seconds, 6),
    }
    return {"media_io_kwargs": {"video": video}}
