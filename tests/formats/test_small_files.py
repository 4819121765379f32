"""A results file of at most 1 MB is read or refused within 5 s of CPU time and 500 MB."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import GOLDEN
from tests.support.small_files import MEGABYTE, SMALL_FILES
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, score_file

RESULTS = GOLDEN / "results"

_SCORE = """
import resource, sys
from pathlib import Path
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
imported = resource.getrusage(resource.RUSAGE_SELF)
try:
    score_file(Path(sys.argv[1]), ScoreOptions())
except ScoringError as error:
    assert str(error).startswith(sys.argv[1]), error
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = used.ru_utime + used.ru_stime - imported.ru_utime - imported.ru_stime
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, int(peak.split()[1]) / 1_000)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_small_file_costs_little(tmp_path: Path, name: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(SMALL_FILES[name]())
    assert path.stat().st_size <= MEGABYTE
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import resource; resource.setrlimit(resource.RLIMIT_CPU, (60, 60))\n{_SCORE}",
            path,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    seconds, megabytes = map(float, ended.stdout.split())
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
