"""The frames of published rules equal those of the packages that define them.

VIDEOMME_PUBLISHED is the folder of a virtual environment with `qwen-vl-utils==0.0.14`,
`transformers`, `torch`, `torchvision` and `pillow`. The test writes the table in docs/engines.md.
"""

import json
import os
import random
import re
import subprocess

import numpy as np
import pytest

from tests.support.clock import Clock
from tests.support.paths import ROOT
from videomme_pipeline.frames.sampling import Placement, QwenVl, place

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "engines.md"
TABLE = re.compile(r"(?<=<!-- conformance -->\n).*?(?=<!-- end -->)", re.DOTALL)
CASES = 1_000
MOST_FRAMES = 108_000
"""An hour. In longer videos the 32-bit numbers of transformers depend on the processor."""


def test_published_rules_choose_equal_frames() -> None:
    environment = os.environ.get("VIDEOMME_PUBLISHED")
    if environment is None:
        pytest.skip("VIDEOMME_PUBLISHED does not name an environment with qwen-vl-utils")
    chance = random.Random(1)
    totals = [chance.randint(2, MOST_FRAMES) for _ in range(CASES)]
    rates = (23.976, 24.0, 25.0, 29.97, 30.0, 60.0)
    most = (64, 512, 768, 2048)
    qwen = [(total, chance.choice(rates), 2.0, 4, chance.choice(most)) for total in totals]
    segments = [(total, min(chance.randint(1, 90), total - 1)) for total in totals]
    published = subprocess.run(
        [
            f"{environment}/bin/python",
            ROOT / "tests" / "support" / "published_frames.py",
            json.dumps({"qwen_vl": qwen, "segments": segments}),
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    found = json.loads(published.stdout)
    for (total, fps, rate, least, limit), frames in zip(qwen, found["qwen_vl"], strict=True):
        sampling = QwenVl(fps=rate, min_frames=least, max_frames=limit)
        assert list(sampling.choose(Clock.steady(total, fps)).frames) == frames, (total, fps)
    for (total, count), frames in zip(segments, found["segments"], strict=True):
        assert np.array_equal(place(total, count, Placement.SEGMENTS), frames), (total, count)
    write_table(found["versions"])


def write_table(versions: dict[str, str]) -> None:
    """Write the table of the rules that were compared into the page."""
    qwen, internvl = versions["qwen-vl-utils"], versions["transformers"]
    rows = (
        "| sampling | compared with | equal |",
        "|---|---|---|",
        f"| `qwen_vl` | qwen-vl-utils {qwen}: frame numbers of {CASES:,} videos | all |",
        f"| `uniform_n-…-segments` | transformers {internvl}, `InternVLVideoProcessor`: "
        f"frame numbers of {CASES:,} videos | all |",
    )
    table = "\n".join(("", *rows, "", ""))
    PAGE.write_text(TABLE.sub(lambda _: table, PAGE.read_text(encoding="utf-8")), "utf-8")
