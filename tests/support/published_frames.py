"""Frame numbers by qwen-vl-utils and transformers, as one JSON object.

Runs in an environment that has `qwen-vl-utils`, `transformers` and `torch`. The argument is the
JSON of the cases: `qwen_vl` has [total, fps of the video, fps, minimum, maximum], and `segments`
has [total, count].
"""
# ruff: noqa: T201, PLC0415 - a script, whose imports exist only in that environment

import json
import sys
from importlib.metadata import version
from types import SimpleNamespace


def main() -> None:
    import torch
    from qwen_vl_utils.vision_process import smart_nframes
    from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor

    cases = json.loads(sys.argv[1])
    qwen = []
    for total, video_fps, fps, least, most in cases["qwen_vl"]:
        wanted = {"fps": fps, "min_frames": least, "max_frames": most}
        count = smart_nframes(wanted, total_frames=total, video_fps=video_fps)
        qwen.append(torch.linspace(0, total - 1, count).round().long().tolist())
    processor = InternVLVideoProcessor()
    segments = [
        processor.sample_frames(
            SimpleNamespace(total_num_frames=total), num_frames=count, initial_shift=True
        ).tolist()
        for total, count in cases["segments"]
    ]
    versions = {name: version(name) for name in ("qwen-vl-utils", "transformers", "torch")}
    print(json.dumps({"qwen_vl": qwen, "segments": segments, "versions": versions}))


if __name__ == "__main__":
    main()
