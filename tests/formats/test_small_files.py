"""A results file of at most 1 MB is read or refused within 5 s of CPU time and 500 MB."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_files import MEGABYTE, SMALL_FILES

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
