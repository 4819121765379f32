"""CPU time and memory of decoding frames, compared with decord and torchcodec.

    python -m perf.frames [--quick | --clip NAME_OR_VIDEO …] [--sampling NAME …] [--repeat 3]
                          [--floor-seconds 15] [--torchcodec-python PATH] [--json]

`qwen_vl-2` is also compared with the readers of qwen-vl-utils, which choose the same frames, if
VIDEOMME_PUBLISHED is the folder of a virtual environment with qwen-vl-utils.

Every backend decodes the same frames of the same files to RGB at native size, in one thread and
its own process. The backends take turns `--repeat` times. The table has the minimum CPU time of
each, since other work on the machine can only increase it; the JSON also has the medians. The
floor is the decoder alone, on the packets of the plan, already in memory; `planned` without the
conversion to RGB takes turns with it in one process. Peak memory is that above the imports. Also
measured: the packet index, the picture encoder compared with Pillow, the frame cache, several
samplings in one pass, and one long video on two cores.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from perf.memory import peak_rss_mb, reset_peak
from perf.peers import QWEN_VL_UTILS
from tests.support.clips import QUICK, clip, facts
from tests.support.stored_frames import write_frames
from videomme_pipeline.frames.backends import DecodedFrame, decode_frames
from videomme_pipeline.frames.cache import Frame, read_frames
from videomme_pipeline.frames.encoding import encode
from videomme_pipeline.frames.extract import FrameJob, extract, extract_here
from videomme_pipeline.frames.picture import PictureSpec
from videomme_pipeline.frames.plan import plan
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.tasks import LocalWorkers
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.container import demux_packets, index_packets
from videomme_pipeline.videos.packets import FrameTimes
from videomme_pipeline.videos.probe import content_hash

QWEN_VL = "qwen_vl-2"
"""2 frames per second, at most 768, as qwen-vl-utils chooses them."""
SAMPLINGS = (
    "uniform_n-16",
    "uniform_n-64",
    "uniform_n-384",
    "fps_based-1-max-512",
    "keyframe-32",
    QWEN_VL,
)
QUICK_SAMPLINGS = ("uniform_n-64", "keyframe-32", QWEN_VL)
FUSED = ("uniform_n-16", "uniform_n-64", "fps_based-1-max-512")
MAIN_CLIP = "10min_720p30"
"""The clip of the ratios by sampling, if it is measured; else the first one."""
CLIPS_OF_ALL = ("60s_720p30", "10min_720p30", "60min_720p25", "60min_360p30", "10min_1080p25")


def read_to_rgb(path: Path, sampling: str) -> None:
    """The measurement `planned`: open, index, decode, convert. No frame stays in memory."""
    index = index_packets(path)
    for item in decode_frames(path, index, parse_sampling(sampling).choose(index.times).frames):
        assert isinstance(item, DecodedFrame)
        item.frame.reformat(format="rgb24", threads=1).to_ndarray()


def times_the_floor(path: Path, sampling: str, seconds: float) -> float:
    """CPU time of `planned` without the conversion to RGB, divided by that of the floor.

    Each is the minimum of at least two turns, and of more within these seconds.
    """
    planned: list[float] = []
    floors: list[float] = []
    while len(planned) < 2 or sum(planned) + sum(floors) < seconds:
        planned.append(_cpu(lambda: _read_only(path, sampling)))
        floors.append(floor(path, sampling))
    return min(planned) / min(floors)


def _read_only(path: Path, sampling: str) -> None:
    index = index_packets(path)
    for item in decode_frames(path, index, parse_sampling(sampling).choose(index.times).frames):
        assert isinstance(item, DecodedFrame)


def read_to_jpeg(path: Path, sampling: str) -> None:
    """Encode each frame to the default picture, as an evaluation does."""
    index, spec = index_packets(path), PictureSpec()
    frames = parse_sampling(sampling).choose(index.times).frames
    for item in decode_frames(path, index, frames):
        assert isinstance(item, DecodedFrame)
        encode(item.frame, item.rotation, spec, len(frames))


def floor(path: Path, sampling: str) -> float:
    """CPU seconds of the decoder alone on the needed packets."""
    index = index_packets(path)
    frames = parse_sampling(sampling).choose(index.times).frames
    spans = plan(index, frames)
    chosen = set(index.shown[list(frames)].tolist())
    needed = {p for s in spans for p in range(s.first, s.last + 1)}
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        packets = {
            position: packet
            for position, packet in enumerate(p for p in container.demux(stream) if p.size)
            if position in needed
        }
        codec = stream.codec_context
        started = time.process_time()
        for span in spans:
            for position in range(span.first, span.last + 1):
                decode = position in chosen or bool(index.is_keyframe[position])
                codec.skip_frame = "DEFAULT" if decode else "NONREF"
                codec.decode(packets[position])
            codec.decode(None)
            codec.flush_buffers()
        return time.process_time() - started


TIMES_THE_FLOOR = "times_the_floor"
OWN: dict[str, Callable[[Path, str], Any]] = {
    "planned": read_to_rgb,
    "planned_to_jpeg": read_to_jpeg,
}


def measure_here(name: str, path: Path, sampling: str, floor_seconds: float) -> dict[str, float]:
    """Measure one of `OWN`, or the ratio to the floor, in this process."""
    if name == TIMES_THE_FLOOR:
        return {name: times_the_floor(path, sampling, floor_seconds)}
    before = reset_peak()
    cpu_seconds = _cpu(lambda: OWN[name](path, sampling))
    return {"cpu_seconds": cpu_seconds, "peak_mb": peak_rss_mb() - before}


def measure(command: list[str]) -> dict[str, float] | None:
    """The figures that a child process prints, or None if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    if done.returncode != 0:
        print(f"failed: {' '.join(command[:4])}: {done.stderr[-200:]}", file=sys.stderr)
        return None
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(
    name: str, sampling: str, repeat: int, floor_seconds: float, torchcodec_python: str | None
) -> dict[str, Any]:
    """All backends on one clip and sampling: CPU time (minimum, median) and highest peak."""
    path = clip(name)
    frames = [str(n) for n in parse_sampling(sampling).choose(index_packets(path).times).frames]
    commands = {
        own: [sys.executable, "-m", "perf.frames", "--own", own, name, sampling] for own in OWN
    }
    peers = {"decord": sys.executable, "torchcodec": torchcodec_python}
    if sampling == QWEN_VL and (environment := os.environ.get("VIDEOMME_PUBLISHED")):
        peers |= dict.fromkeys(QWEN_VL_UTILS, f"{environment}/bin/python")
    commands |= {
        # Isolated, else modules of `perf` hide packages such as `requests`.
        peer: [python, "-I", "perf/peers.py", peer, str(path), *frames]
        for peer, python in peers.items()
        if python
    }
    of_floor = ["--own", TIMES_THE_FLOOR, name, sampling, "--floor-seconds", str(floor_seconds)]
    compared = measure([sys.executable, "-m", "perf.frames", *of_floor])
    row: dict[str, Any] = {"clip": name, "sampling": sampling, "frames": len(frames)}
    row[TIMES_THE_FLOOR] = compared and compared[TIMES_THE_FLOOR]
    turns = [{way: measure(command) for way, command in commands.items()} for _ in range(repeat)]
    for way in commands:
        measurements = [measured for turn in turns if (measured := turn[way]) is not None]
        if measurements:
            cpu_seconds = [measured["cpu_seconds"] for measured in measurements]
            row[way] = {
                "cpu_seconds": min(cpu_seconds),
                "median_cpu_seconds": statistics.median(cpu_seconds),
                "peak_mb": max(measured["peak_mb"] for measured in measurements),
            }
    return row


def ratio(row: dict[str, Any], way: str, other: str, figure: str = "cpu_seconds") -> float | None:
    """The ratio of a figure of one backend to that of another, or None without both."""
    if not row.get(way) or not row.get(other):
        return None
    return float(row[way][figure] / row[other][figure])


def index_milliseconds(path: Path) -> dict[str, float]:
    """CPU time of the packet index, from the sample tables and by demuxing."""
    index_packets(path)
    times = [_cpu(lambda: index_packets(path)) for _ in range(5)]
    return {
        "tables_ms": statistics.median(times) * 1e3,
        "demux_ms": _cpu(lambda: demux_packets(path)) * 1e3,
    }


def picture_milliseconds(path: Path) -> dict[str, float]:
    """CPU time to encode a 720p frame to the default JPEG, and with Pillow at the same size."""
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    spec = PictureSpec()
    size = spec.size(frame.width, frame.height, 1)

    def pillow() -> None:
        picture = Image.fromarray(np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))
        picture.resize(size).save(io.BytesIO(), "JPEG", quality=spec.jpeg_quality)

    return {
        "ours_ms": _cpu(lambda: encode(frame, 0, spec, 1), 30) * 1e3,
        "pillow_ms": _cpu(pillow, 30) * 1e3,
    }


def cache_milliseconds() -> dict[str, float]:
    """Time to write and to read 64 pictures of 58 kB. Reading verifies the checksum."""
    random = np.random.default_rng(0)
    sampling = parse_sampling("uniform_n-64")
    frames = [
        Frame(
            requested_seconds=i / 3,
            pts_seconds=i / 3,
            index=i,
            is_keyframe=False,
            width=796,
            height=448,
            picture=random.bytes(58_000),
        )
        for i in range(64)
    ]
    choice = sampling.choose(FrameTimes(np.arange(64) / 3, np.arange(0, 64, 8), 64 / 3))
    with tempfile.TemporaryDirectory() as folder:
        store = Store.at(folder)
        frame_set = write_frames(store, "video", sampling, choice, frames)
        return {
            "write_ms": _cpu(lambda: write_frames(store, "video", sampling, choice, frames)) * 1e3,
            "read_ms": statistics.median(
                _cpu(lambda: read_frames(store, "video", frame_set.fingerprint)) * 1e3
                for _ in range(20)
            ),
        }


def fusion_cpu_seconds(path: Path) -> dict[str, float]:
    """CPU time to extract three samplings of one video, separately and in one pass."""
    samplings = tuple(map(parse_sampling, FUSED))
    return {
        "one_by_one": sum(_stored_cpu_seconds(path, sampling) for sampling in samplings),
        "one_pass": _stored_cpu_seconds(path, *samplings),
    }


def _stored_cpu_seconds(path: Path, *samplings: Sampling) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return extract_here(_job(path, *samplings), store=Store.at(folder)).cpu_seconds


def split_seconds(path: Path) -> dict[str, float]:
    """Wall time of one video in one child process, and split over two."""
    job, seconds = _job(path, parse_sampling("uniform_n-64")), {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            store = Store.at(folder)
            index_packets(path).save(store.packets(job.video_hash))
            started = time.perf_counter()
            (result,) = extract([job], store=store, workers=LocalWorkers(workers))
            seconds[f"{workers}_workers"] = time.perf_counter() - started
            assert result.error is None
    return seconds


def _job(path: Path, *samplings: Sampling) -> FrameJob:
    return FrameJob(
        video_id=path.stem, path=path, video_hash=content_hash(path), samplings=samplings
    )


def _cpu(work: Callable[[], Any], times: int = 1) -> float:
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times


HEADER = """\
| clip | sampling | frames | planned | decord | torchcodec | ratio to decord | \
ratio to torchcodec | ratio to floor | peak MB planned / decord / torchcodec |
|---|---|---|---|---|---|---|---|---|---|"""


def line(row: dict[str, Any]) -> str:
    """A row as Markdown, under `HEADER`."""
    backends = ("planned", "decord", "torchcodec")
    ratios = [
        "–" if value is None else f"{value:.2f}"
        for value in (
            ratio(row, "planned", "decord"),
            ratio(row, "planned", "torchcodec"),
            row[TIMES_THE_FLOOR],
        )
    ]
    seconds = [_number(row.get(backend), "cpu_seconds") for backend in backends]
    peaks = " / ".join(_number(row.get(backend), "peak_mb", 0) for backend in backends)
    cells = [row["clip"], row["sampling"], str(row["frames"]), *seconds, *ratios, peaks]
    return f"| {' | '.join(cells)} |"


def _number(measured: dict[str, float] | None, key: str, digits: int = 2) -> str:
    return f"{measured[key]:.{digits}f}" if measured else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="the smallest clip, three samplings and one turn"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--torchcodec-python", help="a Python that has torchcodec")
    parser.add_argument("--clip", action="append", help="only this clip or video (may be repeated)")
    parser.add_argument(
        "--sampling", action="append", help="only the backends, on this sampling (may be repeated)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="turns of each backend")
    parser.add_argument(
        "--floor-seconds", type=float, default=15.0, help="turns of the floor within these seconds"
    )
    parser.add_argument("--own", nargs=3, metavar=("OWN", "CLIP", "SAMPLING"))
    arguments = parser.parse_args()
    if arguments.own:
        own, name, sampling = arguments.own
        seconds = arguments.floor_seconds
        print(json.dumps(measure_here(own, clip(name), sampling, seconds)))
        return
    samplings = arguments.sampling or SAMPLINGS
    repeat, floor_seconds = arguments.repeat, arguments.floor_seconds
    if arguments.quick:
        samplings, repeat, floor_seconds = arguments.sampling or QUICK_SAMPLINGS, 1, 0.0
    names = [c.name for c in QUICK] if arguments.quick else arguments.clip or list(CLIPS_OF_ALL)
    rows = []
    print(HEADER)
    for name in names:
        for sampling in samplings:
            row = compare(name, sampling, repeat, floor_seconds, arguments.torchcodec_python)
            rows.append(row)
            print(line(rows[-1]), flush=True)
    main_clip = MAIN_CLIP if MAIN_CLIP in names else names[0]
    main_rows = [row for row in rows if row["clip"] == main_clip]
    result: dict[str, Any] = {
        "clip": main_clip,
        "cpu_ratio_to_decord": {
            row["sampling"]: ratio(row, "planned", "decord") for row in main_rows
        },
        "median_cpu_ratio_to_decord": {
            row["sampling"]: ratio(row, "planned", "decord", "median_cpu_seconds")
            for row in main_rows
        },
        "cpu_ratio_to_qwen_vl_utils": {
            f"{row['clip']} {peer}": ratio(row, "planned", peer)
            for row in rows
            for peer in QWEN_VL_UTILS
            if peer in row
        },
        "cpu_ratio_to_floor": {
            f"{row['clip']} {row['sampling']}": row[TIMES_THE_FLOOR] for row in rows
        },
        "peak_mb": max(
            row[own]["peak_mb"] for row in rows for own in ("planned", "planned_to_jpeg")
        ),
        "clips": {name: asdict(facts(clip(name))) for name in names},
        "rows": rows,
    }
    if arguments.sampling is None:
        long = clip(names[0] if arguments.quick else "60min_720p25")
        result |= {
            "index": index_milliseconds(long),
            "picture": picture_milliseconds(clip(names[0] if arguments.quick else "60s_720p30")),
            "cache": cache_milliseconds(),
            "fusion_cpu_seconds": fusion_cpu_seconds(clip(main_clip)),
            "split_seconds": split_seconds(long),
        }
    for part, figures in result.items():
        if part != "rows":
            print(f"{part}: {figures}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
