"""Shards of the tests, for machines that run them at the same time or one after the other.

A shard has whole files, because the tests of a file share fixtures that take minutes. Files are
distributed by the seconds that they took when they were last recorded.
"""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

SECONDS = Path(__file__).parents[1] / "seconds.json"
"""Seconds of the slow and of the other tests of each file, if they are one or more."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("shards")
    group.addoption("--shard", metavar="1/4", help="run only the files of this part")
    group.addoption("--record-seconds", action="store_true", help=f"update {SECONDS.name}")


def configure(config: pytest.Config) -> None:
    if config.getoption("--record-seconds"):
        config.pluginmanager.register(_Recorder())


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests of the shard that the option names, in the order of `mixed`."""
    text = config.getoption("--shard")
    if not text:
        return
    number, count = parse(text)
    by_file = defaultdict(list)
    for item in items:
        by_file[item.nodeid.partition("::")[0]].append(item)
    slow = all(item.get_closest_marker("slow") for item in items)
    seconds = recorded(slow=slow)
    shard = mixed(distribute(by_file, seconds, count)[number - 1], seconds)
    config.hook.pytest_deselected(
        items=[item for file in by_file.keys() - set(shard) for item in by_file[file]]
    )
    items[:] = [item for file in shard for item in by_file[file]]


def distribute(files: Iterable[str], seconds: Mapping[str, float], count: int) -> list[list[str]]:
    """`count` parts of `files` that take about the same time, each with its longest file first.

    A file without recorded seconds counts as one second.
    """
    totals = dict.fromkeys(range(count), 0.0)
    shards: list[list[str]] = [[] for _ in range(count)]
    for file in sorted(files, key=lambda name: (-seconds.get(name, 1), name)):
        lightest = min(totals, key=lambda number: (totals[number], number))
        shards[lightest].append(file)
        totals[lightest] += seconds.get(file, 1)
    return shards


def mixed(files: list[str], seconds: Mapping[str, float]) -> list[str]:
    """`files`, the longest first, in an order in which long and shorter ones take turns.

    Long files, which take two fifths of the time, mostly wait. The cores would be idle if all
    processes ran one. The shortest files come last, so that all processes end at the same time.
    """
    others = deque(files)  # the longest first
    long = deque[str]()
    long_seconds = 0.4 * sum(seconds.get(file, 1) for file in files)
    while long_seconds > 0:
        long.append(others.popleft())
        long_seconds -= seconds.get(long[-1], 1)
    order, ahead = list[str](), 0.0
    while long or others:
        is_long = bool(long) and (ahead <= 0 or not others)
        order.append((long if is_long else others).popleft())
        ahead += seconds.get(order[-1], 1) * (1 if is_long else -1)
    return order


def recorded(*, slow: bool) -> dict[str, float]:
    """The recorded seconds by file, of the slow tests or of the others."""
    return _stored()["slow" if slow else "everyday"]


def parse(text: str) -> tuple[int, int]:
    """The number and the count of `text`. Raises pytest.UsageError if there is no such shard."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--shard {text}: write 1/4 for the first of four parts")
    return int(number), int(count)


def _stored() -> dict[str, dict[str, float]]:
    seconds: dict[str, dict[str, float]] = json.loads(SECONDS.read_text(encoding="utf-8"))
    return seconds


class _Recorder:
    """Adds up the seconds of the tests of this run by file."""

    def __init__(self) -> None:
        self._seconds: dict[str, Counter[str]] = {"everyday": Counter(), "slow": Counter()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        suite = self._seconds["slow" if "slow" in report.keywords else "everyday"]
        suite[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return  # the process that started this one records
        stored = _stored()
        for suite, added in self._seconds.items():
            seconds = stored[suite] | {file: round(value, 1) for file, value in added.items()}
            stored[suite] = {
                file: seconds[file]
                for file in sorted(seconds)
                if seconds[file] >= 1 and Path(file).exists()
            }
        SECONDS.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
