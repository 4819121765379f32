"""A results file of at most 1 MB is read or refused within 5 s of CPU time and 500 MB."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.paths import GOLDEN
from tests.support.small_files import MEGABYTE, SMALL_FILES
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.processes.children import Child, TaskLimits

RESULTS = GOLDEN / "results"


def cost_of(path: Path) -> tuple[float, float]:
    """The CPU seconds and the peak megabytes of this process while it scores a file."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
    began = time.process_time()
    try:
        score_file(path, ScoreOptions())
    except ScoringError as error:
        assert str(error).startswith(str(path)), error  # noqa: PT017 - some can be read
    seconds = time.process_time() - began
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return seconds, int(peak) / 1_000


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with closing(Child()) as child:
        yield child


@pytest.mark.slow
@pytest.mark.measurement
@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_small_file_costs_little(tmp_path: Path, child: Child, name: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(SMALL_FILES[name]())
    assert path.stat().st_size <= MEGABYTE
    seconds, megabytes = child.run(cost_of, path, TaskLimits(seconds=120))
    assert seconds <= 5
    assert megabytes <= 500


PIECES = (
    b"null",
    b"[",
    b"{",
    b'"',
    rb"\ud83d",
    b"1e999",
    b"-",
    b"\0",
    b"\xff",
    b"[]",
    b"{}",
    b"\n",
)


def damaged(data: bytes, draw: random.Random) -> bytes:
    """`data` with up to four changes: bits, removed, repeated and moved spans, and odd pieces."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        start, other = (draw.randrange(len(changed)) for _ in range(2))
        end = start + draw.choice([1, 3, 20, 300])
        change = draw.choice(["bit", "remove", "repeat", "move", "insert"])
        if change == "bit":
            changed[start] ^= 1 << draw.randrange(8)
        elif change == "remove":
            del changed[start:end]
        elif change == "repeat":
            changed[start:start] = changed[start:end] * draw.choice([1, 10, 1_000])
        elif change == "move":
            changed[start:end] = changed[other : other + end - start]
        else:
            changed[start:start] = draw.choice(PIECES)
    return bytes(changed[:MEGABYTE])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.[jepx]*")), ids=lambda path: str(path.name))
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, path: Path, seed: int) -> None:
    draw = random.Random(f"{path.name} {seed}")
    for _ in range(10):
        copy = tmp_path / path.name
        copy.write_bytes(damaged(path.read_bytes(), draw))
        began = time.process_time()
        try:
            score_file(copy, ScoreOptions(annotations=RESULTS / "annotations.json"))
        except ScoringError as error:
            assert str(copy) in str(error)  # noqa: PT017 - some of the files can be read
        assert time.process_time() - began <= 5
