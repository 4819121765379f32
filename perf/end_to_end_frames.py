"""CPU time and memory from a video file to request bodies, compared with other evaluators.

    python -m perf.end_to_end_frames [--quick] [--json]

One 40-minute 720p video, three questions, 64 frames. `peer` works like lmms-eval's client for chat
endpoints: decord for each question, then Pillow, PNG and base64 at the size of the video. It
caches nothing between questions and builds the bodies of a batch before it sends the first, so
all three are in memory. `cold` starts with the file and an empty data folder, `warm` with stored
frames; both also keep all three bodies. Peak memory is that of the whole process, and that above
the imports. The last lines extrapolate to an evaluation of 900 such videos. `--quick` uses the
smallest clip.
"""

import argparse
import base64
import importlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from perf.memory import peak_rss_mb
from tests.support.clips import QUICK, clip
from videomme_pipeline.frames.cache import frames_fingerprint, read_frames
from videomme_pipeline.frames.extract import FrameJob, extract_here
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.container import index_packets
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.probe import content_hash

QUESTIONS = 3
SAMPLING = parse_sampling("uniform_n-64")
VIDEOS = 900
WORKERS = 2


def body(urls: list[str], question: int) -> bytes:
    """A chat request of many pictures and a question."""
    content: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": url}} for url in urls
    ]
    content.append({"type": "text", "text": f"Question {question}"})
    return orjson.dumps({"messages": [{"role": "user", "content": content}]})


def peer(path: Path, _: Path) -> list[bytes]:
    """Decode and encode the frames separately for each question."""
    import decord  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    bodies = []
    frames = list(SAMPLING.choose(index_packets(path).times).frames)
    for question in range(QUESTIONS):
        pictures = decord.VideoReader(str(path)).get_batch(frames).asnumpy()
        urls = []
        for picture in pictures:
            sink = io.BytesIO()
            Image.fromarray(picture).save(sink, "PNG")
            encoded = base64.b64encode(sink.getvalue()).decode("ascii")
            urls.append(f"data:image/png;base64,{encoded}")
        bodies.append(body(urls, question))
    return bodies


def ours(path: Path, folder: Path) -> list[bytes]:
    """Hash the video, read the cache or extract the frames, then build a body per question."""
    store = Store.at(folder)
    with HashCache(store.hashes) as hashes:
        video_hash = content_hash(path, hashes)
    fingerprint = frames_fingerprint(SAMPLING)
    try:
        frames = read_frames(store, video_hash, fingerprint)
    except FileNotFoundError:
        job = FrameJob(video_id=path.stem, path=path, video_hash=video_hash, samplings=(SAMPLING,))
        extract_here(job, store=store)
        frames = read_frames(store, video_hash, fingerprint)
    head = f"data:{frames.media_type};base64,"
    urls = [head + base64.b64encode(f.picture).decode("ascii") for f in frames.frames]
    return [body(urls, question) for question in range(QUESTIONS)]


WAYS: dict[str, Callable[[Path, Path], list[bytes]]] = {"peer": peer, "cold": ours, "warm": ours}
IMPORTS = {"peer": ("decord", "PIL.Image"), "cold": ("av", "simplejpeg"), "warm": ()}
"""Modules that each way needs. They are imported before memory is measured."""


def measure(way: str, name: str, folder: Path) -> dict[str, float]:
    """Measure one way in its own process."""
    command = [sys.executable, "-m", "perf.end_to_end_frames", "--way", way, name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_here(way: str, name: str, folder: Path) -> dict[str, float]:
    path = clip(name)
    for module in IMPORTS[way]:
        importlib.import_module(module)
    imported = peak_rss_mb()
    started = time.process_time()
    bodies = WAYS[way](path, folder)
    return {
        "cpu_seconds": time.process_time() - started,
        "peak_rss_mb": peak_rss_mb(),
        "peak_mb_above_imports": peak_rss_mb() - imported,
        "payload_mb": sum(map(len, bodies)) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest clip")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--way", nargs=3, metavar=("WAY", "CLIP", "FOLDER"))
    arguments = parser.parse_args()
    if arguments.way:
        way, name, folder = arguments.way
        print(json.dumps(measure_here(way, name, Path(folder))))
        return
    name = QUICK[0].name if arguments.quick else "40min_720p25"
    clip(name)
    with tempfile.TemporaryDirectory() as folder:
        measured = {way: measure(way, name, Path(folder)) for way in WAYS}
        frame_bytes = sum(p.stat().st_size for p in Path(folder).rglob("frames/*.parquet"))
    result: dict[str, Any] = {
        "clip": name,
        "questions": QUESTIONS,
        "sampling": SAMPLING.name,
        **measured,
        "cpu_times_less_cold": measured["peer"]["cpu_seconds"] / measured["cold"]["cpu_seconds"],
        "cpu_times_less_warm": measured["peer"]["cpu_seconds"] / measured["warm"]["cpu_seconds"],
        "payload_times_smaller": measured["peer"]["payload_mb"] / measured["cold"]["payload_mb"],
        "rss_times_smaller": measured["peer"]["peak_rss_mb"] / measured["cold"]["peak_rss_mb"],
        "rss_above_imports_times_smaller": measured["peer"]["peak_mb_above_imports"]
        / measured["cold"]["peak_mb_above_imports"],
        "hours_for_900_such_videos": {
            way: measured[way]["cpu_seconds"] * VIDEOS / WORKERS / 3600 for way in WAYS
        },
        "disk_gb_for_900_videos": frame_bytes * VIDEOS / 1e9,
    }
    print("| way | CPU s | peak RSS MB | above imports | payload MB |\n|---|---|---|---|---|")
    for way, figures in measured.items():
        print(
            f"| {way} | {figures['cpu_seconds']:.2f} | {figures['peak_rss_mb']:.0f} "
            f"| {figures['peak_mb_above_imports']:.0f} | {figures['payload_mb']:.1f} |"
        )
    for key, value in result.items():
        if key not in WAYS:
            print(f"{key}: {value}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
