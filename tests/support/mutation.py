"""Changes of the code that no test notices: `make mutation`.

    python -m tests.support.mutation --sample 100 --seed 1 frames subtitles

mutmut changes the functions of a room one expression at a time and runs the tests of the room that
call the changed function. Each room has tens of thousands of test runs, so a random sample of its
changes is tried. The same seed draws the same sample from the same code.

The rooms are copied to `mutants/`, because mutmut does not follow the link
`videomme_pipeline/assets`. The copies keep the results: a second call tries only changes that were
not killed before, and changes of new code. Delete `mutants/` to try all again.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT

PACKAGE = "videomme_pipeline"
# The fixture of the package is not found in rooms that lack `cli`.
PYTEST_OPTIONS = ["-m", "not slow", "-p", "no:cacheprovider", "-p", f"no:{PACKAGE}"]
MULTIPLIER, CONSTANT_SECONDS = 3.0, 10.0
"""Tests have no end if they need more than `MULTIPLIER` times (`CONSTANT_SECONDS` and the seconds
that they need without a change)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The folder with the code of a room, and the tests that are run against its changes."""

    code: str
    tests: Sequence[str]


ROOMS: Mapping[str, Room] = {
    "scoring": Room(
        code=f"{PACKAGE}/scoring", tests=("tests/scoring", "tests/formats/test_official.py")
    ),
    "statistics": Room(code=f"{PACKAGE}/scoring/statistics", tests=("tests/scoring/statistics",)),
    "frames": Room(
        code=f"{PACKAGE}/frames", tests=("tests/frames", "tests/end_to_end/test_frame_files.py")
    ),
    "subtitles": Room(code=f"{PACKAGE}/subtitles", tests=("tests/subtitles",)),
    "responses": Room(code=f"{PACKAGE}/responses", tests=("tests/responses",)),
    "planning": Room(
        code=f"{PACKAGE}/stages",
        tests=(
            "tests/assets/planning",
            "tests/assets/test_run.py",
            "tests/assets/triggers",
            "tests/assets/stages/test_judge.py",
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomResult:
    """The number of all changes of a room, and the status of those that were tried, by name."""

    room: str
    changes: int
    statuses: Mapping[str, str] = field(default_factory=dict)

    @property
    def survivors(self) -> list[str]:
        """The changes that no test noticed. A test that has no end, or crashes, noticed its one."""
        killed = {"killed", "timeout", "segfault"}
        return sorted(name for name, status in self.statuses.items() if status not in killed)


def changes_of(root: Path, code: str) -> dict[str, Path]:
    """The path of the changed file, by the names of all changes that mutmut can make."""
    # Importing mutmut takes a second, in every process that collects the tests of this module.
    from mutmut.mutation.file_mutation import mutate_file_contents  # noqa: PLC0415
    from mutmut.utils.format_utils import get_mutant_name  # noqa: PLC0415

    with chdir(root):  # mutmut reads its settings from the current folder
        return {
            get_mutant_name(path, name): path
            for path in sorted(Path(code).rglob("*.py"))
            for name in mutate_file_contents(str(path), path.read_text()).mutant_names
        }


def drawn(changes: Mapping[str, Path], size: int, seed: int) -> list[str]:
    """A random sample of the changes, or all if there are no more."""
    return sorted(random.Random(seed).sample(sorted(changes), min(size, len(changes))))


def copy_of(root: Path, folder: Path, room: Room) -> Path:
    """Copy all files of the repository into `folder`, with settings of mutmut for `room`.

    Links become what they point at. Files that did not change keep their time, so that mutmut keeps
    its results about them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in _files(root):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.stat().st_mtime != (root / path).stat().st_mtime:
            shutil.copy2(root / path, target)
    settings = {
        "source_paths": [PACKAGE],
        "only_mutate": [f"{room.code}/*"],
        "also_copy": sorted(
            path.name for path in folder.iterdir() if path.name not in {PACKAGE, "mutants"}
        ),
        "pytest_add_cli_args": PYTEST_OPTIONS,
        "pytest_add_cli_args_test_selection": list(room.tests),
        "track_dependencies": False,
        # Forks of a process that ran tests may hang, because those tests left threads.
        "process_isolation": "forkserver",
        "timeout_constant": CONSTANT_SECONDS,
        "timeout_multiplier": MULTIPLIER,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n".join(["", "[tool.mutmut]", *lines, ""]))
    return folder


def _files(root: Path) -> Iterator[Path]:
    """The paths of all files of the repository. A link to a folder stands for its files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = root / name
        yield from (
            (Path(name) / file.relative_to(path) for file in path.rglob("*") if file.is_file())
            if path.is_dir()
            else [Path(name)]
        )


def try_changes(folder: Path, names: Sequence[str], children: int) -> None:
    """Run the tests of a copied room against each of the named changes."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(children), *names]
    subprocess.run(command, cwd=folder, stdout=sys.stderr, check=True)


def try_sample(
    folder: Path, changes: Mapping[str, Path], sample: Sequence[str], children: int
) -> dict[str, str]:
    """The status of every change, after those of `sample` that were not killed before are tried."""
    before = statuses_of(folder, changes)
    left = [change for change in sample if before.get(change) != "killed"]
    # mutmut tries all changes if none is named. When it runs, it forgets results about new code.
    try_changes(folder, left or sample[:1], children)
    statuses = statuses_of(folder, changes)
    if forgotten := [change for change in sample if change not in statuses]:
        try_changes(folder, forgotten, children)
    return statuses_of(folder, changes)


def tried_again(folder: Path, name: str, room: Room) -> str:
    """The status of a change from all tests of its room in a process of their own.

    A fork may hang before or after its tests, for example because of a thread that it lacks.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", *PYTEST_OPTIONS, *room.tests]
    stats = json.loads((folder / "mutants" / "mutmut-stats.json").read_text())
    try:
        ended = subprocess.run(
            command,
            cwd=folder / "mutants",
            env=os.environ | {"MUTANT_UNDER_TEST": name},
            stdout=sys.stderr,
            check=False,
            timeout=MULTIPLIER * (CONSTANT_SECONDS + sum(stats["duration_by_test"].values())),
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    return "killed" if ended.returncode else "survived"


def statuses_of(folder: Path, changes: Mapping[str, Path]) -> dict[str, str]:
    """The status of every change that was tried, by name."""
    from mutmut.stats import status_by_exit_code  # noqa: PLC0415

    statuses: dict[str, str] = {}
    for path in sorted(set(changes.values())):
        results = folder / "mutants" / f"{path}.meta"
        if results.exists():
            exit_codes = json.loads(results.read_text())["exit_code_by_key"]
            statuses |= {
                name: status_by_exit_code[code]
                for name, code in exit_codes.items()
                if code is not None
            }
    return statuses


def table(rows: Sequence[RoomResult]) -> str:
    """A table with one row per room, in Markdown, and the names of all survivors below."""
    lines = [
        "| room | changes | tried | killed | no test calls the function |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        tried = len(row.statuses)
        killed = tried - len(row.survivors)
        share = f"{killed:,} ({killed / max(tried, 1):.0%})"
        uncalled = Counter(row.statuses.values())["no tests"]
        lines.append(f"| `{row.room}` | {row.changes:,} | {tried:,} | {share} | {uncalled:,} |")
    survivors = [
        f"{row.room}: {name}: {row.statuses[name]}" for row in rows for name in row.survivors
    ]
    return "\n".join([*lines, "", *survivors])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--sample", type=int, default=100, help="changes of each room (100)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws another sample (1)")
    parser.add_argument(
        "--children", type=int, default=1, help="tests run in so many processes (1)"
    )
    arguments = parser.parse_args()
    rows = []
    for name in arguments.rooms or ROOMS:
        folder = copy_of(ROOT, ROOT / "mutants" / name, ROOMS[name])
        changes = changes_of(folder, ROOMS[name].code)
        sample = drawn(changes, arguments.sample, arguments.seed)
        statuses = try_sample(folder, changes, sample, arguments.children)
        for change in sample:
            if statuses[change] == "timeout":
                statuses[change] = tried_again(folder, change, ROOMS[name])
            # mutmut does not see that a child process calls a function.
            elif statuses[change] == "no tests":
                again = tried_again(folder, change, ROOMS[name])
                statuses[change] = "no tests" if again == "survived" else again
        rows.append(
            RoomResult(
                room=name,
                changes=len(changes),
                statuses={change: statuses[change] for change in sample},
            )
        )
    sys.stdout.write(table(rows) + "\n")


if __name__ == "__main__":
    main()
