"""Cost of fetching a part of a benchmark whose videos are spread over archives.

    python -m perf.fetch [--quick] [--json]

A hub on the loopback interface has 20 archives, as v1 does, of 12 random videos of 1 MiB each. For
several numbers of wanted videos, drawn at random, the script compares three ways: download every
needed archive whole, fetch only the wanted members by HTTP ranges, and let this project choose for
each archive. It counts bytes and requests at the hub, and the bytes on disk at the end, with
archives kept. It reports no seconds, since times on a loopback interface differ from a network's.
"""

import argparse
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.hub_server import HubServer, running_hub
from tests.support.published_data import REVISION, V1, zip_bytes
from videomme_pipeline.fetch import download
from videomme_pipeline.fetch.release import VideoReference

VIDEOS_PER_ARCHIVE = 12
VIDEO_BYTES = 1 << 20
WAYS = {"whole": 0.0, "ranges": 1.0, "ours": download.WHOLE_ARCHIVE_SHARE}
"""Share of wanted videos above which an archive is downloaded whole."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 archives instead of 20")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    result = measure(archives=4 if arguments.quick else 20)
    for row in result["rows"]:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    if arguments.json:
        print(json.dumps(result))


def measure(archives: int) -> dict[str, Any]:
    with running_hub() as hub, patch.dict(os.environ, {"HF_ENDPOINT": hub.url}):
        videos = publish(hub, archives)
        counts = [1, 3, 10, len(videos) // 4, len(videos) // 2, len(videos)]
        rows = [
            {"wanted": count, "way": way} | fetch(hub, videos, count, share)
            for count in dict.fromkeys(counts)
            for way, share in WAYS.items()
        ]
    return {"archives": archives, "videos": len(videos), "rows": rows}


def publish(hub: HubServer, archives: int) -> list[VideoReference]:
    """Fill the first `archives` archives of v1, leave the others empty, and return the videos."""
    names = [f"video-{number:04d}" for number in range(archives * VIDEOS_PER_ARCHIVE)]
    shuffled = random.Random(0).sample(names, len(names))
    for number, archive in enumerate(V1.hub.archives):
        members = {
            f"data/{name}.mp4": os.urandom(VIDEO_BYTES) for name in shuffled[number::archives]
        }
        content = members if number < archives else {}
        hub.add(V1.hub.repository, REVISION, archive, zip_bytes(content))
    return [VideoReference(name[-4:], name) for name in names]


def fetch(hub: HubServer, videos: list[VideoReference], count: int, share: float) -> dict[str, Any]:
    requested = random.Random(count).sample(videos, count)
    hub.requests.clear()
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(download, "WHOLE_ARCHIVE_SHARE", share),
    ):
        problems = download.fetch_videos(V1, requested, Path(folder))
        on_disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    if problems:
        raise RuntimeError(f"not everything was fetched: {problems}")
    return {
        "mebibytes_transferred": round(transferred(hub) / 2**20, 1),
        "requests": len(hub.requests),
        "mebibytes_on_disk": round(on_disk / 2**20, 1),
    }


def transferred(hub: HubServer) -> int:
    files = hub.files[V1.hub.repository, REVISION]
    return sum(
        request.length if request.range else len(files[request.path.rpartition("/")[2]])
        for request in hub.requests
        if request.path.startswith("/content/")
    )


if __name__ == "__main__":
    main()
