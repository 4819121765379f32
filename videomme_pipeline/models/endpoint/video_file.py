"""Requests with the video itself, from which the endpoint takes the frames.

The sampling of the evaluation is translated to the parameters of vLLM, or compared with the
settings of an SGLang server. Both place the frames by their own rule. A sampling without such
parameters is an error.

Sources: the code of vLLM 0.19 to 0.32 and SGLang 0.5.23. vLLM 0.24 and later choose a loader by the
model's video processor. The loaders of Qwen's models ignore `num_frames`, and only these loaders
know `min_frames` and `max_frames`. The backend `opencv` is the loader that earlier versions use for
every model. SGLang takes the frames of Qwen's models by the settings that the server was started
with.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import WholeVideo
from videomme_pipeline.frames.sampling import (
    FpsBased,
    Placement,
    Qwen2Vl,
    Qwen3Vl,
    QwenSglang,
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


def video_fields(profile: Profile, sampling: Sampling, server: VideoServer) -> Mapping[str, Any]:
    """The fields of a body with a video, so that the endpoint applies `sampling` itself.

    Raises:
        ModelError: if the endpoint has no known parameters for the sampling.
    """
    find, examples = _FIELDS[profile]
    fields = find(sampling, server)
    if fields is None:
        raise ModelError(
            f"sampling {sampling.name}: profile {profile.value} has no parameters for these frames "
            f"of a video; use {examples}, or send frames (without "
            "`frames_as: video_file`)"
        )
    return fields


def fields_of(spec: EndpointSpec, request: Request) -> Mapping[str, Any]:
    """The fields of a body with the video of `request`. Raise ModelError as `video_fields`."""
    return video_fields(spec.profile, _video(spec, request).sampling, spec.video_server)


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


def _for_vllm(sampling: Sampling, server: VideoServer) -> Mapping[str, Any] | None:
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
    match sampling:  # the loader takes the smaller number of frames of `num_frames` and `fps`
        case FpsBased(min_frames=None):
            most = sampling.max_frames or -1
            return _kwargs({"num_frames": most, "fps": sampling.fps, **loader}, sampling)
        case UniformN(placement=Placement.ENDPOINTS):
            return _kwargs({"num_frames": sampling.frames, "fps": -1, **loader}, sampling)
    return None


def _kwargs(video: Mapping[str, object], sampling: Sampling) -> Mapping[str, Any] | None:
    body = {"media_io_kwargs": {"video": video}}
    match _pixel_limits(sampling):
        case {"min_pixels": least, "max_pixels": most, **others} if not others:
            size = {"shortest_edge": least, "longest_edge": most}
            return body | {"mm_processor_kwargs": {"size": size}}
        case limits if limits:
            return None
    return body


def _for_sglang(sampling: Sampling, server: VideoServer) -> Mapping[str, Any] | None:
    """SGLang ignores the fields of a request, so the server must have been started with them."""
    if not isinstance(sampling, QwenSglang) or _pixel_limits(sampling):
        return None
    needed = {"fps": sampling.fps, "max_frames": sampling.max_frames}
    needed |= {} if sampling.min_frames == 4 else {"min_frames": sampling.min_frames}
    has = "unknown"
    if server.video_settings is not None:
        settings = {"fps": 2.0, "min_frames": 4, "max_frames": 768} | dict(server.video_settings)
        if settings == settings | needed:
            return {}
        has = json.dumps(dict(server.video_settings))
    option = json.dumps({"video": needed})
    raise ModelError(
        f"sampling {sampling.name}: SGLang takes frames by the settings of its server, which are "
        f"{has}; start the server with `--mm-process-config '{option}'` (in `serve: args`: "
        f"`mm-process-config: {option}`), or send frames (without `frames_as: video_file`)"
    )


def _pixel_limits(sampling: Sampling) -> dict[str, int]:
    """The limits of the size of a picture that the sampling sets itself."""
    patches = sampling.picture.patches
    names = {"min_pixels", "max_pixels", "total_pixels"}
    return {} if patches is None else patches.model_dump(include=names, exclude_none=True)


_FIELDS: Mapping[
    Profile, tuple[Callable[[Sampling, VideoServer], Mapping[str, Any] | None], str]
] = {
    Profile.VLLM: (
        _for_vllm,
        "fps_based-1, uniform_n-32-endpoints, or from 0.24 on the rule of the model's processor "
        "(qwen3_vl-2 or qwen2_vl-2, with at most 768 frames)",
    ),
    Profile.SGLANG: (_for_sglang, "qwen_sglang-2 or qwen_sglang-1-max-64"),
}
"""The function that finds the fields of each family, and examples of samplings that it takes."""
