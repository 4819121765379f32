"""Made-up data of other published benchmarks on a loopback hub, in the layouts of the real ones.

Nothing of the real ones is contained: ids, questions and videos are invented.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support.builders import write_video
from tests.support.hub_server import HubServer
from tests.support.published_data import REVISION, declared, parquet_bytes, zip_bytes

UNPINNED = ("cgbench_mini", "mlvu_test", "video_holmes")
"""Benchmarks whose commit the user has to name."""
FROM_FOLDER = ("cgbench_mini", "lvbench")
"""Benchmarks whose videos the hub does not have, or not in a known layout."""
COUNTS: Mapping[str, tuple[int, int]] = {
    "cgbench_mini": (2, 2),
    "longvideobench_val": (3, 2),
    "lvbench": (3, 2),
    "mlvu_dev": (2, 2),
    "mlvu_test": (2, 2),
    "mvbench": (6, 6),
    "video_holmes": (2, 2),
}
"""Questions and videos (or clips) of the made-up data, by benchmark."""
OPTIONS = ["Red", "Blue", "Green"]
IN_QUESTION = "Which?\n(A) Red\n(B) Blue\n(C) Green"


def settings(name: str, folder: Path) -> dict[str, Any]:
    """The entry of benchmarks.yaml with which the made-up data is fetched."""
    values: dict[str, Any] = {"accept_license": True}
    if name in UNPINNED:
        values["revision"] = REVISION
    return values | ({"folder": str(folder / name)} if name in FROM_FOLDER else {})


class OtherBenchmarks:
    """Publishes each benchmark on `hub`, with the videos that it lacks in `folder`."""

    def __init__(self, hub: HubServer, folder: Path) -> None:
        self.hub, self.folder = hub, folder
        self.clip = write_video(folder / "clip.mp4", frames=40, width=64, height=48).read_bytes()

    def publish(self, name: str) -> None:
        getattr(self, f"_{name}")()

    def _add(self, name: str, path: str, data: bytes, *, in_lfs: bool = True) -> None:
        hub = declared(name).hub
        assert hub is not None
        self.hub.add(hub.repository, hub.revision or REVISION, path, data)
        if not in_lfs:
            self.hub.outside_lfs.add(path)

    def _add_split(self, name: str, archive: str, data: bytes) -> None:
        """Cut an archive into its declared parts, of which the last ones are empty."""
        hub = declared(name).hub
        assert hub is not None
        parts = hub.parts[archive]
        size = -(-len(data) // min(3, len(parts)))
        for number, part in enumerate(parts):
            self._add(name, part, data[number * size : (number + 1) * size])

    def _write(self, name: str, path: str, data: bytes) -> None:
        target = self.folder / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def _longvideobench_val(self) -> None:
        name, rows = "longvideobench_val", []
        for number, video in enumerate(("vid_a", "vid_b", "vid_b")):
            rows.append(
                {
                    "id": f"{video}_{number}",
                    "video_id": video,
                    "video_path": f"{video}.mp4",
                    "subtitle_path": f"{video}_en.json",
                    "question": "Which?",
                    "candidates": [*OPTIONS, "Pink", "Grey"][: 2 + number],
                    "correct_choice": number % 2,
                    "duration_group": (15, 3600, 3600)[number],
                    "question_category": "E2O",
                    "topic_category": "NP-News-Programs",
                    "starting_timestamp_for_subtitles": 100 * (video == "vid_b"),
                    "duration": 4.0,
                }
            )
        subtitles: dict[str, list[dict[str, Any]]] = {
            "vid_a": [{"start": "00:00:01.000", "end": "00:00:02.000", "line": "hello"}],
            "vid_b": [{"timestamp": [101.0, 102.0], "text": "hello"}],
        }
        self._add(name, "lvb_val.json", _json(rows))
        videos = {f"videos/{video}.mp4": self.clip for video in subtitles}
        self._add_split(name, "videos.tar", tar_bytes(videos))
        cues = {
            f"subtitles/{video}_en.json": _json(cues_of_video)
            for video, cues_of_video in subtitles.items()
        }
        self._add(name, "subtitles.tar", tar_bytes(cues))

    def _mlvu_dev(self) -> None:
        rows = [
            {
                "video_name": f"{kind}_1.mp4",
                "duration": 4.0,
                "question": IN_QUESTION,
                "candidates": OPTIONS,
                "answer": "B",
                "task_type": kind,
                "question_id": f"{kind}_0",
            }
            for kind in ("needle", "count")
        ]
        self._add("mlvu_dev", "mlvu/test-00000-of-00001.parquet", parquet_bytes(rows))
        for number in range(1, 9):
            names = [row["video_name"] for row in rows[number - 1 : number]] or ["other.mp4"]
            members = {f"part/{name}": self.clip for name in names}
            self._add("mlvu_dev", f"video_part_{number}.zip", zip_bytes(members))

    def _mlvu_test(self) -> None:
        rows = [
            {
                "video": f"test_{kind}_1.mp4",
                "duration": 4.0,
                "question": "Which?",
                "candidates": [*OPTIONS, "Pink", "Grey", "White"],
                "answer": "White",
                "question_type": kind,
                "question_id": kind,
            }
            for kind in ("needleQA", "sportsQA")
        ]
        self._add("mlvu_test", "test-ground-truth/test_mcq_gt.json", _json(rows), in_lfs=False)
        videos = tar_bytes({f"video/{row['video']}": self.clip for row in rows})
        self._add_split("mlvu_test", "MLVU_Test/test_video.tar.gz", gzip.compress(videos))

    def _lvbench(self) -> None:
        kinds = ([["reasoning"]], [["temporal grounding", "entity recognition"], ["summarization"]])
        rows = [
            {
                "key": f"-youtube{video}",
                "type": "sports",
                "video_info": {"duration_minutes": 60},
                "qa": [
                    {
                        "uid": f"{video}{position}",
                        "question": IN_QUESTION,
                        "answer": "A",
                        "question_type": kind,
                    }
                    for position, kind in enumerate(kinds_of_video)
                ],
            }
            for video, kinds_of_video in enumerate(kinds)
        ]
        lines = "\n".join(json.dumps(row) for row in rows)
        self._add("lvbench", "video_info.meta.jsonl", lines.encode(), in_lfs=False)
        for row in rows:
            self._write("lvbench", f"videos/{row['key']}.mp4", self.clip)

    def _cgbench_mini(self) -> None:
        rows = [
            {
                "qid": number,
                "video_uid": f"uid{number}",
                "question": "Which?",
                "choices": [f"Number {option}" for option in range(14 - number)],
                "right_answer": "M",
                "clue_intervals": [[1.0, 2.0]],
                "domain": "Life Record",
                "sub_category": "Object",
                "duration": 4,
            }
            for number in range(2)
        ]
        self._add("cgbench_mini", "cgbench_mini.json", _json(rows))
        for row in rows:
            self._write("cgbench_mini", f"cg_videos_720p/{row['video_uid']}.mp4", self.clip)
        srt = b"1\n00:00:01,000 --> 00:00:02,000\nhello\n"
        self._write("cgbench_mini", "cg_subtitles/uid0.srt", srt)

    def _mvbench(self) -> None:
        """Questions of six tasks: clips, the same name in two archives, and folders of pictures."""
        name, declaration = "mvbench", declared("mvbench")
        videos: dict[str, dict[str, Any]] = {
            "action_sequence": {"video": "x.mp4", "start": 1.0, "end": 2.5},
            "action_prediction": {"video": "x.mp4", "start": 2.0, "end": 3.0},
            "object_existence": {"video": "video_1.mp4"},
            "object_shuffle": {"video": "video_1.mp4"},
            "episodic_reasoning": {"video": "show_s01e01", "start": 1.0, "end": 3.0},
            "fine_grained_pose": {"video": "requested.mp4"},
        }
        for file in declaration.annotations:
            task = Path(file.file).stem
            row: dict[str, Any] = {
                "question": "Which?",
                "candidates": OPTIONS,
                "answer": "Blue",
            }
            rows = [row | videos[task]] if task in videos else [row | {"video": "-", "answer": ""}]
            self._add(name, file.file, _json(rows), in_lfs=False)
        pictures = {
            f"tvqa/frames_fps3_hq/show_s01e01/{number:05}.jpg": jpeg(number)
            for number in range(1, 13)
        }
        members = {
            "video/star.zip": {"star/Charades_v1_480/other.mp4": self.clip},
            "video/data0613.zip": {"data0613/star/Charades_v1_480/x.mp4": self.clip},
            "video/clevrer.zip": {"clevrer/video_validation/video_1.mp4": self.clip},
            "video/perception.zip": {"perception/videos/video_1.mp4": self.clip},
            "video/tvqa.zip": pictures,
        }
        hub = declaration.hub
        assert hub is not None
        for archive in hub.archives:
            self._add(name, archive, zip_bytes(members.get(archive, {"unused.mp4": self.clip})))

    def _video_holmes(self) -> None:
        rows = [
            {
                "video ID": f"film{number}",
                "Question ID": 1,
                "Question": "Who?",
                "Options": dict(zip("ABCDEF", [*OPTIONS, "Pink", "Grey", "White"], strict=True)),
                "Answer": "F",
                "Question Type": ("SR", "TA")[number],
            }
            for number in range(2)
        ]
        self._add("video_holmes", "test_Video-Holmes.json", _json(rows), in_lfs=False)
        members = {f"videos_cropped/{row['video ID']}.mp4": self.clip for row in rows}
        self._add("video_holmes", "videos.zip", zip_bytes(members))


def tar_bytes(members: Mapping[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def jpeg(number: int) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (64, 48), (20 * number, 0, 0)).save(sink, "JPEG")
    return sink.getvalue()


def _json(rows: Sequence[Any]) -> bytes:
    return json.dumps(rows).encode()
