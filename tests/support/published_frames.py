"""Frames, sizes and pixels by qwen-vl-utils and transformers, as one JSON object.

Runs in an environment that has `qwen-vl-utils`, `decord`, `transformers`, `torch` and
`torchvision`. The standard input is the JSON of the cases:

numbers   for each strategy [total, fps of the video, fps, minimum, maximum], and for `segments` and
          `starts` [total, count]
sizes     [rule, width, height, frames, side of a patch, limits] of videos
videos    [path, folder], where the folder has our frames of the video as PNG in `native`,
          `patches-28` and `square-448`
"""
# ruff: noqa: T201 - a script

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

os.environ["FORCE_QWENVL_VIDEO_READER"] = "decord"

import numpy as np
import torch
from PIL import Image
from qwen_vl_utils import vision_process
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor
from transformers.models.llava_onevision.video_processing_llava_onevision import (
    LlavaOnevisionVideoProcessor,
)
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.video_processing_utils import BaseVideoProcessor

INTERNVL = InternVLVideoProcessor(size={"height": 448, "width": 448})
ONEVISION = LlavaOnevisionVideoProcessor()
QWEN2 = Qwen2VLVideoProcessor(cap_pixels_per_frame=True)
QWEN3 = Qwen3VLVideoProcessor(
    size={"shortest_edge": 4096, "longest_edge": 25_165_824}, cap_pixels_per_frame=False
)
"""With the limits that the published models have in their configuration."""


def main() -> None:
    cases = json.load(sys.stdin)
    results: dict[str, Any] = {
        "numbers": {
            rule: [numbers(rule, *case) for case in arguments]
            for rule, arguments in cases["numbers"].items()
        },
        "sizes": [size(*case) for case in cases["sizes"]],
        "videos": [video(path, Path(folder)) for path, folder in cases["videos"]],
        "versions": {name: version(name) for name in ("qwen-vl-utils", "transformers", "torch")},
    }
    print(json.dumps(results))


def numbers(rule: str, total: int, *case: Any) -> list[int]:
    """The numbers of the frames that a package chooses."""
    if rule in ("segments", "starts"):
        (count,) = case
        metadata = SimpleNamespace(total_num_frames=total, fps=None)
        if rule == "segments":
            chosen = INTERNVL.sample_frames(metadata, num_frames=count, initial_shift=True)
        else:
            chosen = ONEVISION.sample_frames(metadata, num_frames=count)
        return list(map(int, chosen))
    video_fps, fps, least, most = case
    if rule == "qwen_vl":
        settings = {"fps": fps, "min_frames": least, "max_frames": most}
        count = vision_process.smart_nframes(settings, total_frames=total, video_fps=video_fps)
        return list(map(int, torch.linspace(0, total - 1, count).round()))
    metadata = SimpleNamespace(total_num_frames=total, fps=video_fps)
    if rule == "qwen3_vl":
        processor = Qwen3VLVideoProcessor(min_frames=least, max_frames=most)
        return list(map(int, processor.sample_frames(metadata, fps=fps)))
    chosen = QWEN2.sample_frames(metadata, fps=fps, min_frames=least, max_frames=most)
    # vLLM keeps numbers beyond the end, which 32-bit steps can reach, at the last frame.
    return [min(int(number), total - 1) for number in chosen]


def size(
    rule: str, width: int, height: int, frames: int, side: int, limits: dict[str, int]
) -> list[int]:
    """Width and height to which a package resizes a video, without decoding or resizing one."""
    sizes: list[list[int]] = []
    made_up = torch.zeros(1, dtype=torch.uint8).expand(1, frames, 3, height, width)

    def read(_element: Any) -> Any:
        return made_up[0], {}, 2.0

    def resize(pictures: Any, size: list[int], **_: Any) -> Any:
        sizes.append([size[1], size[0]])
        return pictures[:1, :, :1, :1]

    def resize_processed(_self: Any, image: Any, size: Any, **_: Any) -> Any:
        sizes.append([size.width, size.height])
        return image

    processors = {"qwen2_vl": QWEN2, "qwen3_vl": QWEN3}
    if rule in processors:
        with patch.object(BaseVideoProcessor, "resize", resize_processed):
            processor = processors[rule]
            processor.resize(
                made_up,
                size=processor.size,
                resample=processor.resample,
                factor=side,
                temporal_factor=2,
                cap_pixels_per_frame=processor.cap_pixels_per_frame,
            )
        return sizes[0]
    with (
        patch.object(vision_process.transforms.functional, "resize", resize),
        patch.dict(vision_process.VIDEO_READER_BACKENDS, decord=read),
    ):
        vision_process.fetch_video({"video": "made-up", **limits}, image_patch_size=side // 2)
    return sizes[0]


def video(path: str, folder: Path) -> dict[str, Any]:
    """The frames of a video that the packages choose, and how far their pixels are from ours."""
    try:
        fetched, metadata = vision_process.fetch_video({"video": path}, return_video_metadata=True)
    except (ValueError, AttributeError) as error:  # its second reader is not in torchvision
        return {"error": str(error)}
    native = _pictures(folder / "native")
    height, width = fetched.shape[-2:]
    resized = _resized(native, width, height)
    ours = _pictures(folder / "patches-28")
    tokens = (
        QWEN2(videos=[ours], do_resize=False, return_tensors="pt")["video_grid_thw"].prod() // 4
    )
    square = _pictures(folder / "square-448")
    return {
        "numbers": list(map(int, metadata["frames_indices"])),
        "size": [width, height],
        "tokens": int(tokens),
        "decoder": _difference(resized, fetched),
        "resize": _difference(ours, resized),
        "internvl": _difference(square, INTERNVL.resize(native, INTERNVL.size, INTERNVL.resample)),
        "pillow": _difference(square, _pillow(native, 448)),
    }


def _pictures(folder: Path) -> Any:
    """The pictures in a folder, as a tensor (frames, channels, height, width)."""
    arrays = [np.asarray(Image.open(file)) for file in sorted(folder.iterdir())]
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)


def _resized(pictures: Any, width: int, height: int) -> Any:
    """The resize of qwen-vl-utils."""
    return vision_process.transforms.functional.resize(
        pictures,
        [height, width],
        interpolation=vision_process.InterpolationMode.BICUBIC,
        antialias=True,
    ).float()


def _pillow(pictures: Any, side: int) -> Any:
    images = [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in pictures]
    arrays = [np.asarray(image.resize((side, side), Image.Resampling.BICUBIC)) for image in images]
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)


def _difference(first: Any, other: Any) -> list[float]:
    """The largest difference of two tensors, the mean, and the share of values that differ."""
    differences = (first.float() - other.float()).abs()
    share = (differences > 0).float().mean()
    return [float(differences.max()), float(differences.mean()), float(share)]


if __name__ == "__main__":
    main()
