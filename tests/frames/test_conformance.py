"""The frames of published rules equal those of the packages that define them.

VIDEOMME_PUBLISHED is the folder of a virtual environment with `qwen-vl-utils==0.0.14`, `decord`,
`transformers`, `torch`, `torchvision` and `pillow`. The tests write the table in docs/engines.md.
"""

import json
import os
import random
import re
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from tests.support.builders import rotate_mp4, write_video
from tests.support.clock import steady
from tests.support.paths import ROOT
from videomme_pipeline.frames.cache import Frame, frames_fingerprint, read_frames
from videomme_pipeline.frames.extract import FrameJob, extract_here
from videomme_pipeline.frames.picture import Patches
from videomme_pipeline.frames.sampling import Placement, QwenVl, place
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.recipes.recipe import find_recipe, recipe_names
from videomme_pipeline.storage.layout import Store

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "engines.md"
TABLE = re.compile(r"(?<=<!-- conformance -->\n).*?(?=<!-- end -->)", re.DOTALL)
CASES = 1_000
MAX_FRAMES = 108_000
"""An hour. In longer videos the 32-bit numbers of transformers depend on the processor."""
RATED = ("qwen_vl", "qwen2_vl", "qwen3_vl")
FULL_CHROMA = "odd size"
PICTURES = ("native", "patches-28", "square-448")
PLACED = {"segments": Placement.SEGMENTS, "starts": Placement.STARTS}


@pytest.fixture(scope="module")
def environment() -> str:
    folder = os.environ.get("VIDEOMME_PUBLISHED")
    if folder is None:
        pytest.skip("VIDEOMME_PUBLISHED does not name an environment with qwen-vl-utils")
    return folder


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """The lines of the table, which is written if all tests pass."""
    lines: list[str] = []
    yield lines
    if lines and lines[0].startswith("Compared"):
        text = "\n".join(("", *lines, "", ""))
        PAGE.write_text(TABLE.sub(lambda _: text, PAGE.read_text(encoding="utf-8")), "utf-8")


def published(environment: str, **cases: Any) -> dict[str, Any]:
    """The frames that the packages choose in `cases`."""
    asked = {"numbers": {}, "sizes": [], "videos": [], **cases}
    process = subprocess.run(
        [f"{environment}/bin/python", ROOT / "tests" / "support" / "published_frames.py"],
        input=json.dumps(asked),
        capture_output=True,
        check=False,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return dict(json.loads(process.stdout.splitlines()[-1]))


def test_published_rules_choose_equal_frames(environment: str, table: list[str]) -> None:
    chance = random.Random(1)
    totals = [chance.randint(2, MAX_FRAMES) for _ in range(CASES)]
    rates = (23.976, 24.0, 25.0, 29.97, 30.0, 60.0)
    rated = [(n, chance.choice(rates), 2.0, 4, chance.choice((64, 512, 768, 2048))) for n in totals]
    placed = [(total, min(chance.randint(1, 90), total - 1)) for total in totals]
    cases = dict.fromkeys(RATED, rated) | dict.fromkeys(PLACED, placed)
    numbers = published(environment, numbers=cases)["numbers"]
    moved = 0
    for strategy in RATED:
        for (total, fps, rate, least, most), frames in zip(rated, numbers[strategy], strict=True):
            sampling = parse_sampling(f"{strategy}-{rate:g}-min-{least}-max-{most}")
            chosen = sampling.choose(steady(total, fps)).frames
            if strategy == "qwen2_vl":
                # The rounded step can have room for one more frame, the last of the video.
                pairs = list(zip(chosen, frames[: len(chosen)], strict=True))
                assert all(abs(own - other) <= 1 for own, other in pairs), (total, fps, most)
                moved += sum(own != other for own, other in pairs)
            else:
                assert list(chosen) == frames, (strategy, total, fps, most)
    for rule, placement in PLACED.items():
        for (total, count), frames in zip(placed, numbers[rule], strict=True):
            assert place(total, count, placement).tolist() == frames, (rule, total, count)
    share = moved / sum(map(len, numbers["qwen2_vl"]))
    videos = f"frame numbers of {CASES:,} videos"
    table += [
        f"| `qwen_vl` | qwen-vl-utils: {videos} | all |",
        f"| `qwen2_vl` | `Qwen2VLVideoProcessor`: {videos} | {1 - share:.2%}, others differ by 1 |",
        f"| `qwen3_vl` | `Qwen3VLVideoProcessor`: {videos} | all |",
        f"| `uniform_n-…-segments` | `InternVLVideoProcessor`: {videos} | all |",
        f"| `uniform_n-…-starts` | `LlavaOnevisionVideoProcessor`: {videos} | all |",
    ]


def test_published_rules_have_equal_sizes(environment: str, table: list[str]) -> None:
    chance = random.Random(2)
    limits = {"min_pixels": 3584, "max_pixels": 401_408, "total_pixels": 19_267_584}
    cases: list[tuple[str, int, int, int, int, dict[str, int]]] = []
    for _ in range(CASES):
        made_up = chance.randint(120, 2000), chance.randint(120, 2000), 2 * chance.randint(1, 1024)
        some = {name: limits[name] for name in limits if chance.random() < 0.5}
        cases += [
            ("qwen_vl_utils", *made_up, chance.choice((28, 32)), some),
            ("qwen2_vl", *made_up, 28, {}),
            ("qwen3_vl", *made_up, 32, {}),
        ]
    sizes = published(environment, sizes=cases)["sizes"]
    for (rule, *video, side, some), size in zip(cases, sizes, strict=True):
        patches = Patches.model_validate({"side": side, "per_video": rule == "qwen3_vl", **some})
        assert list(patches.size(*video)) == size, (rule, video, side, some)
    videos = f"sizes of {CASES:,} videos"
    table += [
        f"| `patches-28`, `patches-32` with limits | qwen-vl-utils: {videos} | all |",
        f"| `patches-28` | `Qwen2VLVideoProcessor` with `cap_pixels_per_frame`: {videos} | all |",
        f"| `patches-32-video` | `Qwen3VLVideoProcessor`: {videos} | all |",
    ]


def test_certified_recipes_have_the_frames_and_sizes_of_the_packages(environment: str) -> None:
    chance = random.Random(3)
    recipes = [recipe for name in recipe_names() if (recipe := find_recipe(name)).certified]
    assert len(recipes) >= 5
    numbers: list[tuple[int, float, float, int, int]] = []
    sizes: list[tuple[str, int, int, int, int, dict[str, int]]] = []
    ours: list[tuple[tuple[int, ...], tuple[int, int]]] = []
    for recipe in recipes:
        sampling = parse_sampling(recipe.evaluation["sampling"])
        patches = sampling.picture.patches
        assert isinstance(sampling, QwenVl)
        assert isinstance(patches, Patches)
        limits = patches.model_dump(include={"min_pixels", "max_pixels", "total_pixels"})
        for _ in range(CASES // 10):
            total, rate = chance.randint(2, MAX_FRAMES), chance.choice((23.976, 25.0, 29.97))
            size = chance.randint(120, 2000), chance.randint(120, 2000)
            frames = sampling.choose(steady(total, rate)).frames
            numbers.append((total, rate, sampling.fps, sampling.min_frames, sampling.max_frames))
            sizes.append(("qwen_vl_utils", *size, len(frames), patches.side, limits))
            ours.append((frames, patches.size(*size, len(frames))))
    result = published(environment, numbers={"qwen_vl": numbers}, sizes=sizes)
    theirs = zip(result["numbers"]["qwen_vl"], result["sizes"], strict=True)
    assert [[list(frames), list(size)] for frames, size in ours] == [list(pair) for pair in theirs]
    package = f"qwen-vl-utils {result['versions']['qwen-vl-utils']}"
    assert {recipe.certified for recipe in recipes} == {package}


def odd_videos(folder: Path) -> dict[str, Path]:
    """Videos at which decoders and rules may differ, by description."""
    uneven = [second * 30 + offset for second in range(8) for offset in (0, 1, 2, 11, 20)]
    return {
        "plain": write_video(folder / "plain.mp4", frames=120, width=320, height=240),
        FULL_CHROMA: write_video(
            folder / "size.mp4", frames=40, width=161, height=121, pixel_format="yuv444p"
        ),
        "variable frame rate": write_video(
            folder / "vfr.mp4",
            frames=len(uneven),
            pts=uneven,
            time_base=Fraction(1, 30),
            options={"bf": "0"},
        ),
        "rotated": rotate_mp4(write_video(folder / "rotated.mp4", frames=40), 90),
        "four frames": write_video(folder / "four.mp4", frames=4),
        "two frames": write_video(folder / "two.mp4", frames=2),
        "one frame": write_video(folder / "one.mp4", frames=1),
    }


def write_frames(video: Path, folder: Path, store: Store) -> dict[str, tuple[Frame, ...]]:
    """Our frames of a video by the name of their size, also written as files."""
    samplings = {name: parse_sampling(f"qwen_vl-2.{name}.png") for name in PICTURES}
    job = FrameJob(
        video_id=video.stem, path=video, video_hash=video.stem, samplings=tuple(samplings.values())
    )
    assert extract_here(job, store=store).error is None
    frames: dict[str, tuple[Frame, ...]] = {}
    for name, sampling in samplings.items():
        frames[name] = read_frames(store, video.stem, frames_fingerprint(sampling)).frames
        (folder / name).mkdir(parents=True)
        for number, frame in enumerate(frames[name]):
            (folder / name / f"{number:05d}.png").write_bytes(frame.picture)
    return frames


def test_pixels_of_odd_videos_are_those_of_the_packages(
    environment: str, table: list[str], tmp_path: Path
) -> None:
    store, videos = Store(UPath(tmp_path / "data")), odd_videos(tmp_path)
    ours = {name: write_frames(path, tmp_path / path.stem, store) for name, path in videos.items()}
    cases = [(str(path), str(tmp_path / path.stem)) for path in videos.values()]
    result = published(environment, videos=cases)
    facts_of = dict(zip(videos, result["videos"], strict=True))
    assert "error" in facts_of.pop("one frame")
    for name, facts in facts_of.items():
        frames = ours[name]["patches-28"]
        size = [frames[0].width, frames[0].height]
        assert [frame.index for frame in frames] == facts["numbers"], name
        assert size == facts["size"], name
        assert facts["tokens"] == len(frames) // 2 * (size[0] // 28) * (size[1] // 28), name
    kinds = ("resize", "pillow", "internvl", "decoder")
    most, mean, share = (
        {kind: max(facts[kind][part] for facts in facts_of.values()) for kind in kinds}
        for part in range(3)
    )
    assert most["pillow"] == facts_of[FULL_CHROMA]["decoder"][0] == 0
    assert most["resize"] <= 1
    assert share["resize"] < 0.001
    odd = f"{len(facts_of)} odd videos"
    table += [
        f"| `qwen_vl-2.patches-28.png` | qwen-vl-utils with decord, `Qwen2VLVideoProcessor`: frame "
        f"numbers, sizes and tokens of {odd} | all |",
        f"| `patches-28.png` | the resize of qwen-vl-utils, applied to `native.png` of {odd} | "
        f"{1 - share['resize']:.3%} of the values, others differ by 1 of 255 |",
        "| `square-448.png` | the same with the resize of Pillow, as in the code of InternVL and "
        "LLaVA-Video | all |",
        "| `square-448.png` | the same with the resize of `InternVLVideoProcessor` | "
        f"{1 - share['internvl']:.1%}, others differ by at most {most['internvl']:.0f} |",
        "| `native.png` | decord, after the same resize: a video with full color resolution "
        "(4:4:4) | all |",
        "| `native.png` | the same, 4:2:0, drawn with sharp colored edges | differs by "
        f"{mean['decoder']:.1f} of 255 on average, because decord interpolates colors otherwise |",
    ]
    table[:0] = [
        f"Compared with qwen-vl-utils {result['versions']['qwen-vl-utils']} and transformers "
        f"{result['versions']['transformers']}:",
        "",
        "| ours | compared with | equal |",
        "|---|---|---|",
    ]
