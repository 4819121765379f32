"""Requests with the video itself, from which vLLM takes the frames.

The sampling of the evaluation is translated to vLLM's parameters, by which vLLM then places the
frames itself. A sampling without such parameters is an error.

Source: the code of vLLM 0.19 to 0.32. Versions from 0.24 on choose a loader by the model's video
processor. The loaders of Qwen's models ignore `num_frames`, and only these loaders know
`min_frames` and `max_frames`. The backend `opencv` is the loader of all earlier versions.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import WholeVideo
from videomme_pipeline.frames.sampling import (
    FpsBased,
    Placement,
    Qwen2Vl,
    Qwen3Vl,
    Sampling,
    UniformN,
)
from videomme_pipeline.models.endpoint.frame_tokens import family_of
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.identity import release_of
from videomme_pipeline.models.video_llm import FailureKind, Request, ResponseFailure
from videomme_pipeline.storage.publish import place_copy

VIDEO_FILE_VERSION = 2
"""Part of the fingerprint of requests with a video. Increase it when a form changes so that an
endpoint takes other frames."""
MAX_INLINE_BYTES = 64 << 20
"""Default limit of a body with a video in a data URL, for entries and profiles without a limit."""
_MAX_FRAMES, _MAX_FPS = 768, 30
"""Limits of vLLM's loaders for Qwen's models, which take fewer frames without an error."""


def fields_of(spec: EndpointSpec, request: Request) -> Mapping[str, Any]:
    """The fields of a body with the video of `request`. Raise ModelError as `video_fields`."""
    sampling, family = _video(spec, request).sampling, family_of(spec.token_family)
    strategy = None if family is None else family.video_strategy
    return video_fields(sampling, spec.known_version, strategy)


def video_fields(
    sampling: Sampling, version: str | None, strategy: str | None = None
) -> Mapping[str, Any]:
    """The fields of a body with a video, so that this version of vLLM applies `sampling` itself.

    `strategy` is the sampling of the model's own processor, or None if it is unknown. Raises
    ModelError if there are no known parameters for the sampling, or for the version.
    """
    release = release_of(version)
    if release is None or release < (0, 19):
        reported = "no version" if version is None else f"the version {version}"
        raise ModelError(
            f"the server reports {reported}, and the frames that vLLM takes from a video are only "
            "known for 0.19 and later; use such a version, state the version that a gateway serves "
            "(`engine_version`), or send frames (without `frames_as: video_file`)"
        )
    video = _video_settings(sampling, strategy, chooses_loader=release >= (0, 24))
    patches = sampling.picture.patches
    names = {"min_pixels", "max_pixels", "total_pixels"}
    limits = {} if patches is None else patches.model_dump(include=names, exclude_none=True)
    if video is None or set(limits) not in (set(), {"min_pixels", "max_pixels"}):
        raise ModelError(
            f"sampling {sampling.name}: profile vllm has no parameters for these frames of a "
            "video; use fps_based-1, uniform_n-32-endpoints, or from 0.24 on the rule of the "
            "model's processor (qwen3_vl-2 or qwen2_vl-2, with at most 768 frames), or send frames "
            "(without `frames_as: video_file`)"
        )
    fields: dict[str, Any] = {"media_io_kwargs": {"video": video}}
    if limits:
        size = {"shortest_edge": limits["min_pixels"], "longest_edge": limits["max_pixels"]}
        fields["mm_processor_kwargs"] = {"size": size}
    return fields


def video_file(spec: EndpointSpec, request: Request) -> Path:
    """The file of the video of `request`: for a shared folder, the file in it that is read.

    Raises ModelError without a video, and ResponseFailure if it is too large for a data URL.
    """
    source = _video(spec, request).path
    if spec.shared_folder is not None:
        source, folder = source.resolve(), spec.shared_folder.resolve()
        is_inside = source.is_relative_to(folder)
        return source if is_inside else folder / f"{request.frames.video_hash}{source.suffix}"
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
    target = video_file(spec, request)
    if not target.exists():
        place_copy(_video(spec, request).path, target)


def _video(spec: EndpointSpec, request: Request) -> WholeVideo:
    if request.frames.video is None:
        raise ModelError(
            f"model {spec.name}: the request has frames without their video, which "
            "`frames_as: video_file` needs; use an entry without it"
        )
    return request.frames.video


def _video_settings(
    sampling: Sampling, strategy: str | None, *, chooses_loader: bool
) -> dict[str, Any] | None:
    """The settings of the loader that takes the frames of `sampling`, or None if there is none."""
    if isinstance(sampling, Qwen2Vl | Qwen3Vl) and chooses_loader:
        is_other = strategy not in (None, sampling.strategy)
        if is_other or sampling.fps > _MAX_FPS or sampling.max_frames > _MAX_FRAMES:
            return None
        limits = {"min_frames": sampling.min_frames, "max_frames": sampling.max_frames}
        return {"num_frames": -1, "fps": sampling.fps, **limits}
    loader = {"video_backend": "opencv"} if chooses_loader else {}
    match sampling:  # the loader takes the smaller number of frames of `num_frames` and `fps`
        case FpsBased(min_frames=None):
            return {"num_frames": sampling.max_frames or -1, "fps": sampling.fps, **loader}
        case UniformN(placement=Placement.ENDPOINTS):
            return {"num_frames": sampling.frames, "fps": -1, **loader}
    return None
