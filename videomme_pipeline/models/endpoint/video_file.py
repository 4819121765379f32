"""Requests with the video itself, from which the endpoint takes the frames.

The sampling of the evaluation is translated to the parameters of each family of endpoints, which
then place the frames by their own rule. A sampling without such parameters is an error.

Sources: the code of vLLM 0.19 to 0.32, SGLang 0.5.23 and LMDeploy, and the request schema of
`transformers serve`. vLLM 0.24 and later choose a loader by the model's video processor. The
loaders of Qwen's models ignore `num_frames`, and only these loaders know `min_frames` and
`max_frames`. The backend `opencv` is the loader that earlier versions use for every model. SGLang
takes the frames of Qwen's models by the settings that the server was started with. Other clients of
Qwen's API send `fps` beside `video_url`. Whether it reads limits of pixels there is not confirmed.
Gemini's OpenAI-compatible API has no documented form; it accepts a video as a data URL in the place
of an image.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import WholeVideo
from videomme_pipeline.frames.sampling import (
    FpsBased,
    Placement,
    Qwen2Vl,
    Qwen3Vl,
    QwenRate,
    QwenSglang,
    QwenVl,
    Sampling,
    UniformN,
)
from videomme_pipeline.models.endpoint.endpoints import Profile
from videomme_pipeline.models.endpoint.served import VideoServer
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.identity import release_of
from videomme_pipeline.models.video_llm import FailureKind, Request, ResponseFailure
from videomme_pipeline.storage.publish import put_in_place, scratch_folder, writing

VIDEO_FILE_VERSION = 2
"""Part of the fingerprint of requests with a video. Increase it when a form changes so that an
endpoint takes other frames."""
MAX_INLINE_BYTES = 64 << 20
"""Default limit of a body with a video in a data URL, for entries and profiles without a limit."""
_MAX_FRAMES, _MAX_FPS = 768, 30
"""Limits of vLLM's loaders for Qwen's models, which take fewer frames without an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoForm:
    """The JSON of a video: the type of its part, and fields beside the URL and in the body."""

    type: str = "video_url"
    in_part: Mapping[str, Any] = field(default_factory=dict)
    in_body: Mapping[str, Any] = field(default_factory=dict)


def video_form(profile: Profile, sampling: Sampling, server: VideoServer) -> VideoForm:
    """The form in which a video is sent so that the endpoint applies `sampling` itself.

    Raises:
        ModelError: if the endpoint has no known parameters for the sampling.
    """
    find, examples = _FORMS[profile]
    form = find(sampling, server)
    if form is None:
        raise ModelError(
            f"sampling {sampling.name}: profile {profile.value} has no parameters for these frames "
            f"of a video; use {examples}, or send frames (without "
            "`frames_as: video_file`)"
        )
    return form


def form_of(spec: EndpointSpec, request: Request) -> VideoForm:
    """The form of the video of `request`. Raise ModelError as `video_form`."""
    return video_form(spec.profile, _video(spec, request).sampling, spec.video_server)


def video_file(spec: EndpointSpec, request: Request) -> Path:
    """The file of the video of `request`: for a shared folder, the file in it that is read.

    Raises:
        ModelError: if the request has no video.
        ResponseFailure: if the video is too large for a data URL.
    """
    source = _video(spec, request).path
    if spec.shared_folder is not None:
        return _shared(source, spec.shared_folder, request.frames.video_hash)
    limit = spec.max_body_bytes or spec.endpoint_profile.max_body_bytes or MAX_INLINE_BYTES
    needed = source.stat().st_size * 4 // 3
    if needed > limit:
        raise ResponseFailure(
            FailureKind.TOO_LARGE,
            f"video {request.question.video_id} needs {needed:,} bytes in a request, and "
            f"{spec.name} accepts {limit:,}; set `shared_folder` (or `max_body_bytes`) if the "
            "endpoint can read it, or send frames",
        )
    return source


def share_video(spec: EndpointSpec, request: Request) -> None:
    """Put the video of `request` into the shared folder, if the folder does not contain it."""
    target, source = video_file(spec, request), _video(spec, request).path
    if target.exists():
        return
    with writing(target), scratch_folder(target) as scratch:
        copy = scratch / target.name
        try:
            os.link(source, copy)
        except OSError:  # on another disk
            shutil.copyfile(source, copy)
        put_in_place(copy, target)


def _video(spec: EndpointSpec, request: Request) -> WholeVideo:
    if request.frames.video is None:
        raise ModelError(
            f"model {spec.name}: the request has frames without their video, which "
            "`frames_as: video_file` needs; use an entry without it"
        )
    return request.frames.video


def _shared(source: Path, folder: Path, video_hash: str) -> Path:
    """The path of a video in the shared folder: its own if it is there, else one by its content."""
    source, folder = source.resolve(), folder.resolve()
    return source if source.is_relative_to(folder) else folder / f"{video_hash}{source.suffix}"


def _for_vllm(sampling: Sampling, server: VideoServer) -> VideoForm | None:
    """Versions from 0.24 on choose the loader by the model, so the request names the loader."""
    version = release_of(server.version)
    if version is None or version < (0, 19):
        reported = "no version" if server.version is None else f"the version {server.version}"
        raise ModelError(
            f"the server reports {reported}, and the frames that vLLM takes from a video are only "
            "known for 0.19 and later; use such a version, state the version behind a gateway "
            "(`engine_version`), or send frames (without `frames_as: video_file`)"
        )
    chooses_loader = version >= (0, 24)
    if isinstance(sampling, Qwen2Vl | Qwen3Vl) and chooses_loader:
        if server.strategy not in (None, sampling.strategy) or sampling.fps > _MAX_FPS:
            return None
        limits = {"min_frames": sampling.min_frames, "max_frames": sampling.max_frames}
        video = {"num_frames": -1, "fps": sampling.fps, **limits}
        return _kwargs(video, sampling) if sampling.max_frames <= _MAX_FRAMES else None
    loader = {"video_backend": "opencv"} if chooses_loader else {}
    return _by_number_and_rate(sampling, loader)


def _for_lmdeploy(sampling: Sampling, _server: VideoServer) -> VideoForm | None:
    """LMDeploy passes `num_frames` to its loader, but not `fps`."""
    return None if isinstance(sampling, FpsBased) else _by_number_and_rate(sampling, {})


def _by_number_and_rate(sampling: Sampling, loader: Mapping[str, str]) -> VideoForm | None:
    """The form for a loader that takes the smaller number of frames of `num_frames` and `fps`."""
    match sampling:
        case FpsBased(min_frames=None):
            most = sampling.max_frames or -1
            return _kwargs({"num_frames": most, "fps": sampling.fps, **loader}, sampling)
        case UniformN(placement=Placement.ENDPOINTS):
            return _kwargs({"num_frames": sampling.frames, "fps": -1, **loader}, sampling)
    return None


def _kwargs(video: Mapping[str, object], sampling: Sampling) -> VideoForm | None:
    body: dict[str, Any] = {"media_io_kwargs": {"video": video}}
    match _pixel_limits(sampling):
        case {"min_pixels": least, "max_pixels": most, **others} if not others:
            size = {"shortest_edge": least, "longest_edge": most}
            return VideoForm(in_body=body | {"mm_processor_kwargs": {"size": size}})
        case limits if limits:
            return None
    return VideoForm(in_body=body)


def _for_sglang(sampling: Sampling, server: VideoServer) -> VideoForm | None:
    """SGLang ignores the fields of a request, so the server must have been started with them."""
    if not isinstance(sampling, QwenSglang) or _pixel_limits(sampling):
        return None
    needed = {"fps": sampling.fps, "max_frames": sampling.max_frames}
    needed |= {} if sampling.min_frames == 4 else {"min_frames": sampling.min_frames}
    has = "unknown"
    if server.video_settings is not None:
        settings = {"fps": 2.0, "min_frames": 4, "max_frames": 768} | dict(server.video_settings)
        if settings == settings | needed:
            return VideoForm()
        has = json.dumps(dict(server.video_settings))
    option = json.dumps({"video": needed})
    raise ModelError(
        f"sampling {sampling.name}: SGLang takes frames by the settings of its server, which are "
        f"{has}; start the server with `--mm-process-config '{option}'` (in `serve: args`: "
        f"`mm-process-config: {option}`), or send frames (without `frames_as: video_file`)"
    )


def _for_qwen(sampling: Sampling, _server: VideoServer) -> VideoForm | None:
    match sampling:
        case QwenRate(min_frames=4, max_frames=768) | FpsBased(min_frames=None, max_frames=None):
            return VideoForm(in_part={"fps": sampling.fps, **_pixel_limits(sampling)})
    return None


def _for_gemini(sampling: Sampling, _server: VideoServer) -> VideoForm | None:
    match sampling:
        case FpsBased(fps=1, min_frames=None, max_frames=None) if not _pixel_limits(sampling):
            return VideoForm(type="image_url")
    return None


def _for_transformers(sampling: Sampling, _server: VideoServer) -> VideoForm | None:
    if _pixel_limits(sampling):
        return None
    match sampling:
        case QwenVl() | QwenSglang():
            return None
        case QwenRate(min_frames=4, max_frames=768) | FpsBased(min_frames=None, max_frames=None):
            settings: dict[str, Any] = {"num_frames": None, "fps": sampling.fps}
        case UniformN():
            settings = {"num_frames": sampling.frames}
        case _:
            return None
    return VideoForm(in_body={"chat_template_kwargs": settings})


def _pixel_limits(sampling: Sampling) -> dict[str, int]:
    """The limits of the size of a picture that the sampling sets itself."""
    patches = sampling.picture.patches
    names = {"min_pixels", "max_pixels", "total_pixels"}
    return {} if patches is None else patches.model_dump(include=names, exclude_none=True)


_FORMS: Mapping[Profile, tuple[Callable[[Sampling, VideoServer], VideoForm | None], str]] = {
    Profile.VLLM: (
        _for_vllm,
        "fps_based-1, uniform_n-32-endpoints, or from 0.24 on the rule of the model's processor "
        "(qwen3_vl-2 or qwen2_vl-2, with at most 768 frames)",
    ),
    Profile.SGLANG: (_for_sglang, "qwen_sglang-2 or qwen_sglang-1-max-64"),
    Profile.LMDEPLOY: (_for_lmdeploy, "uniform_n-32-endpoints"),
    Profile.QWEN: (_for_qwen, "qwen_vl-2 or fps_based-1"),
    Profile.GEMINI: (_for_gemini, "fps_based-1"),
    Profile.TRANSFORMERS: (_for_transformers, "uniform_n-32 or fps_based-1"),
}
"""The function that finds the form of each family, and examples of samplings that it takes."""
