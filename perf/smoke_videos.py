"""CPU time and size of the generated smoke videos.

    python -m perf.smoke_videos [--quick] [--json]

CPU seconds and bytes of every generated video, by duration class; nothing is fetched. `--quick`
generates two short ones.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from videomme_pipeline.demo.smoke.drawing import write_video
from videomme_pipeline.demo.smoke.scripts import Script, scripts


def measure(script: Script, folder: Path) -> tuple[float, int]:
    """CPU seconds and bytes of one video."""
    path = folder / f"{script.video_id}.mp4"
    started = time.process_time()
    write_video(script, path, "measured")
    return time.process_time() - started, path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short videos")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    chosen = scripts()[1:5:2] if arguments.quick else scripts()
    seconds: defaultdict[str, float] = defaultdict(float)
    drawn: defaultdict[str, int] = defaultdict(int)
    size: defaultdict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory() as folder:
        for script in chosen:
            cost, written = measure(script, Path(folder))
            for name in (script.duration.value, "all"):
                seconds[name] += cost
                drawn[name] += script.scenes[-1].end_seconds
                size[name] += written
    result = {
        name: {
            "cpu_seconds": round(seconds[name], 2),
            "video_seconds": drawn[name],
            "video_seconds_per_cpu_second": round(drawn[name] / seconds[name], 1),
            "megabytes": round(size[name] / 1e6, 2),
        }
        for name in seconds
    }
    for name, row in result.items():
        print(f"{name:8}", "  ".join(f"{key} {value}" for key, value in row.items()))
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
