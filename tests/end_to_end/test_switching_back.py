"""Settings that come and go, and folders that are copied: what was stored once is used again."""

import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.builders import write_video
from tests.support.model_server import Fault, ModelServer, always, no_faults
from tests.support.projects import SERVED, Copy, write_project_in
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.runner import shown_versions
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.stages.chain import chain
from videomme_pipeline.stages.data_folder import DataFolder, Garbage, remove
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.stages.stage import BenchmarkStage
from videomme_pipeline.storage.layout import LOCAL, Store
from videomme_pipeline.storage.records import sequence
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import verify
from videomme_pipeline.warehouse.database import connect, query

VIDEOS = ("002", "003")
LOCAL_RESULTS = {"warehouse": 1, "report_page": 1}
"""The results that a switch builds again: they have fixed names and show one setting at a time."""
PROMPTS = ("{{ question }}\n{{ options }}\nFirst.", "{{ question }}\n{{ options }}\nSecond.")
DAY_SECONDS = 86_400


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(answer=lambda text: "B" if "Second" in text else "A") as server:
        yield server


Machine = Callable[..., Project]


@pytest.fixture
def machine(tmp_path: Path, server: ModelServer) -> Machine:
    """A function that writes the configuration of a machine and opens its project."""

    def write(
        name: str, *, prompt: str | None = None, data: str | None = None, **evaluation: Any
    ) -> Project:
        root = tmp_path / name
        folder = root / "configuration" / "evaluations"
        folder.mkdir(parents=True, exist_ok=True)
        if prompt is not None:
            (folder / "mine.txt").write_text(prompt)
            evaluation["prompt"] = "mine.txt"
        (root / "configuration" / "models.yaml").write_text(
            yaml.safe_dump({"served": {"base_url": server.base_url}})
        )
        write_project = write_project_in(root, Copy(tmp_path / "copy"))
        write_project({"served": {**SERVED, **evaluation}}, videos=list(VIDEOS))
        return open_project(root / "configuration", str(tmp_path / (data or name) / "data"))

    return write


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with instance_in(tmp_path / "home") as instance:
        yield instance


@contextmanager
def instance_in(home: Path) -> Iterator[dg.DagsterInstance]:
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        yield instance


def run(project: Project, instance: dg.DagsterInstance) -> Counter[str]:
    """Run everything to the end, and return what was built."""
    refreshed = refresh_project(project, instance, ["served"])
    assert refreshed.not_fresh == []
    return refreshed.built


def stale(project: Project) -> list[str]:
    """The partitions of the benchmark that are not fresh."""
    return [
        state.name
        for state in plan_project(project, ["served"])
        if isinstance(state.stage, BenchmarkStage) and state.freshness is not Freshness.FRESH
    ]


def tables(project: Project) -> Mapping[str, Sequence[object]]:
    """The rows of every table and view."""
    with connect(project.store) as connection:
        names = query(connection, "select table_name as name from information_schema.tables")
        return {
            row["name"]: connection.execute(f'from "{row["name"]}" order by all').fetchall()
            for row in names
        }


def stored(project: Project) -> dict[str, int]:
    """The times at which the files of the data folder were written, without local ones."""
    root = Path(project.store.root.path)
    return {
        path.relative_to(root).as_posix(): path.stat().st_mtime_ns
        for path in root.rglob("*")
        if path.is_file() and LOCAL not in path.relative_to(root).parts
    }


@pytest.mark.slow
def test_changing_a_prompt_and_changing_it_back_builds_and_asks_nothing(
    machine: Machine, server: ModelServer, instance: dg.DagsterInstance
) -> None:
    first = machine("mine", prompt=PROMPTS[0])
    run(first, instance)
    before, asked = tables(first), server.request_count

    second = machine("mine", prompt=PROMPTS[1])
    built = run(second, instance)
    assert built == {
        **{f"videomme/{name}": len(VIDEOS) for name in ("prompts", "responses")},
        "videomme/scores": 1,
        **LOCAL_RESULTS,
    }
    assert server.request_count == 2 * asked
    between = tables(second)
    assert between != before
    assert {name: len(rows) for name, rows in between.items()} == {
        name: len(rows) for name, rows in before.items()
    }, "no reader counts the files of both settings"

    server.faults = always(Fault.SERVER_ERROR)
    files = stored(first)
    again = machine("mine", prompt=PROMPTS[0])
    assert stale(again) == []
    assert run(again, instance) == LOCAL_RESULTS
    assert server.request_count == 2 * asked
    assert tables(again) == before
    left = stored(again)
    assert {name: left[name] for name in files} == files, "no file was written again"
    assert {name.split("/")[1] for name in left.keys() - files.keys()} == {"shown"}
    for stage in chain(again, "videomme"):
        shown = shown_versions(instance, stage)
        assert all(shown[p] == stage.fingerprint(p) for p in stage.partitions())


@pytest.mark.slow
def test_two_versions_of_the_package_share_a_folder(
    machine: Machine,
    server: ModelServer,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = machine("mine")
    run(project, instance)
    asked = server.request_count
    with monkeypatch.context() as newer:
        newer.setitem(CODE_VERSIONS, "prompts", (*CODE_VERSIONS["prompts"], 1))
        assert run(machine("mine"), instance)["videomme/prompts"] == len(VIDEOS)
        assert stale(machine("mine")) == []
    assert stale(machine("mine")) == []
    assert run(machine("mine"), instance) == LOCAL_RESULTS
    assert server.request_count == asked, "the journal has the answers to the same requests"


def without_times(rows: Mapping[str, Sequence[object]]) -> Mapping[str, Sequence[object]]:
    """The tables without those that sum up what both machines have decoded."""
    return {
        name: of_table for name, of_table in rows.items() if name not in ("decode_times", "usage")
    }


def copied(source: Project, names: Sequence[str], target: Path) -> None:
    """Copy files of a data folder that are not in `target` yet, as `cp -n` does."""
    target.mkdir(parents=True, exist_ok=True)
    command = ["cp", "--no-clobber", "--parents", *names, str(target)]
    subprocess.run(command, check=False, cwd=source.store.root.path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_folders_of_two_settings_can_be_copied_into_one_in_any_order(
    machine: Machine, server: ModelServer, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    projects = [machine(f"machine-{n}", prompt=prompt) for n, prompt in enumerate(PROMPTS)]
    before = []
    for number, project in enumerate(projects):
        with instance_in(tmp_path / f"home-{number}") as own:
            run(project, own)
        before.append(tables(project))
    asked = server.request_count

    target = tmp_path / "third" / "data"
    files = [(project, name) for project in projects for name in stored(project)]
    chance.shuffle(files)
    for project, name in files[: len(files) // 2]:  # this copy is interrupted
        copied(project, [name], target)
    for number, prompt in enumerate(PROMPTS):
        stale(machine(f"machine-{number}", prompt=prompt, data="third"))
    for project in chance.sample(projects, 2):
        copied(project, [*stored(project)], target)

    for number, prompt in enumerate(PROMPTS):
        merged = machine(f"machine-{number}", prompt=prompt, data="third")
        assert stale(merged) == []
        with instance_in(tmp_path / f"home-of-merged-{number}") as own:
            assert run(merged, own).keys() >= LOCAL_RESULTS.keys()
        assert server.request_count == asked
        assert without_times(tables(merged)) == without_times(before[number])


def aged(project: Project, days: int) -> None:
    """Let the files of the data folder be older, and what was shown be shown earlier."""
    root = Path(project.store.root.path)
    now = time.time()
    for name in stored(project):
        os.utime(root / name, (now, now - days * DAY_SECONDS))
    for at, name, path in sequence(project.store.shown("videomme", "served")):
        earlier = at - timedelta(days=days)
        path.rename(str(path.with_name(f"{earlier:%Y%m%dT%H%M%S%fZ}.{name}.json")))


def garbage(project: Project) -> list[Garbage]:
    return DataFolder(project).garbage()


def stage_of(item: Garbage) -> str:
    return item.why.partition(" ")[0]


@pytest.mark.slow
def test_garbage_is_what_neither_a_plan_nor_scores_of_the_last_month_need(
    machine: Machine, server: ModelServer, instance: dg.DagsterInstance
) -> None:
    earlier = machine("mine", sampling="uniform_n-8")
    run(earlier, instance)
    aged(earlier, 31)
    assert garbage(earlier) == [], "the plan needs all files"
    current = machine("mine", sampling="uniform_n-4")
    run(current, instance)
    unused = garbage(current)
    assert Counter(map(stage_of, unused)) == {"frames": len(VIDEOS), "prompts": len(VIDEOS)}
    remove(unused)
    assert garbage(current) == []
    assert stale(current) == []

    asked = server.request_count
    server.faults = always(Fault.SERVER_ERROR)
    again = machine("mine", sampling="uniform_n-8")
    assert run(again, instance) == {
        "videomme/frames": len(VIDEOS),
        "videomme/prompts": len(VIDEOS),
        **LOCAL_RESULTS,
    }
    assert server.request_count == asked


@pytest.mark.slow
def test_garbage_of_scores_that_were_shown_in_the_last_month_is_kept(
    machine: Machine, instance: dg.DagsterInstance
) -> None:
    for days, sampling in ((20, "uniform_n-8"), (20, "uniform_n-2"), (0, "uniform_n-4")):
        project = machine("mine", sampling=sampling)
        run(project, instance)
        aged(project, days)
    root = Path(project.store.root.path)
    old = time.time() - 100 * DAY_SECONDS
    for name in stored(project):
        os.utime(root / name, (old, old))
    assert {stage_of(item) for item in garbage(project)} == {"frames", "prompts"}
    needed = Results(project.store).recorded_since("videomme", time.time() - 30 * DAY_SECONDS)
    assert len(needed) == 2
    kept = {row["from_prompts"] for scores in needed for row in scores.manifest}
    removed = {item.path.name.split(".")[1] for item in garbage(project)}
    assert kept.isdisjoint(removed)


def truncated(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def swapped(path: Path, other: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def copied_over(path: Path, other: Path) -> None:
    shutil.copy(other, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "damage"),
    [
        ("prompts", swapped),
        ("responses", truncated),
        ("scores", copied_over),
        ("videos", swapped),
    ],
)
def test_a_file_with_the_name_of_another_one_is_damage_and_never_read(
    machine: Machine,
    server: ModelServer,
    instance: dg.DagsterInstance,
    damage: Callable[[Path, Path], None],
    stage: str,
) -> None:
    other = machine("mine", prompt=PROMPTS[1])
    run(other, instance)
    project = machine("mine", prompt=PROMPTS[0])
    run(project, instance)
    before, asked = tables(project), server.request_count
    path, another = (Path(file.path) for file in two_files(project.store, stage))
    damage(path, another)
    intact, problems = verify(project.store.tables())
    assert len(problems) == (2 if damage is swapped else 1)
    assert all(
        "damaged" in problem and "run again to rebuild it" in problem for problem in problems
    )
    assert path not in [Path(file.path) for file in intact]
    project = machine("mine", prompt=PROMPTS[0])
    assert stale(project)
    run(project, instance)
    assert tables(project) == before
    assert server.request_count == asked


def two_files(store: Store, stage: str) -> Sequence[Any]:
    """The file of a stage that readers show, and another one of the same stage."""
    variant = None if stage == "videos" else "served"
    video = None if stage == "scores" else "002"
    shown = stored_file(store, stage, "videomme", variant, video)
    names = store.names("videomme", stage).by_partition
    others = [
        store.built("videomme", stage, name)
        for stored_names in names.values()
        for name in stored_names
    ]
    return shown, next(path for path in others if path != shown)


LONGEST_ID = "视频" * 32
LONGEST_NAME = "e" * 100


def own_project(root: Path, videos: Mapping[str, bytes], *names: str, **model: Any) -> Project:
    """A project with a benchmark of the user's own videos, and evaluations with these names."""
    folder, data = root / "configuration", root / "videos"
    for path in (folder / "benchmarks", folder / "evaluations", data):
        path.mkdir(parents=True, exist_ok=True)
    rows = [
        {"question_id": str(number), "video": f"{name}.mp4", "question": f"What is {number}?"}
        | {"options": ["Red", "Blue"], "answer": "A"}
        for number, name in enumerate(videos)
    ]
    for name, content in videos.items():
        (data / f"{name}.mp4").write_bytes(content)
    (data / "questions.json").write_text(json.dumps(rows))
    columns = ("question_id", "video", "question", "options", "answer")
    declaration = {
        "title": "Own",
        "folder": str(data),
        "annotations": "questions.json",
        "columns": {name: name for name in columns},
    }
    (folder / "benchmarks" / "own.yaml").write_text(yaml.safe_dump(declaration))
    (folder / "benchmarks.yaml").write_text("{}")
    (folder / "models.yaml").write_text(yaml.safe_dump({"served": model}))
    evaluation = {"benchmark": "own", "model": "served", "sampling": "uniform_n-2"}
    for name in names:
        (folder / "evaluations" / f"{name}.yaml").write_text(yaml.safe_dump(evaluation))
    return open_project(folder, str(root / "data"))


@pytest.mark.slow
def test_the_longest_names_are_stored_also_when_they_fail_lack_answers_or_are_damaged(
    tmp_path: Path, server: ModelServer, instance: dg.DagsterInstance
) -> None:
    intact = write_video(tmp_path / "clip.mp4", frames=12, width=64, height=48).read_bytes()
    served = {"base_url": server.base_url, "limits": {"max_attempts": 1}}
    videos = {LONGEST_ID: b"no video"}
    project = own_project(tmp_path, videos, LONGEST_NAME, **served)
    failed = refresh_project(project, instance, [LONGEST_NAME]).not_fresh
    reasons = {state.stage.name: state.reason for state in failed}
    assert "no video that can be opened" in reasons["videos"], reasons

    server.faults = always(Fault.SERVER_ERROR)
    project = own_project(tmp_path, {LONGEST_ID: intact}, LONGEST_NAME, **served)
    refresh_project(project, instance, [LONGEST_NAME])
    (part,) = project.store.names("own", "responses").by_partition[LONGEST_NAME, LONGEST_ID]
    assert part.part

    server.faults = no_faults
    assert refresh_project(project, instance, [LONGEST_NAME]).not_fresh == []
    for stage in ("responses", "prompts"):
        for name in project.store.names("own", stage).by_partition[LONGEST_NAME, LONGEST_ID]:
            path = Path(project.store.built("own", stage, name).path)
            path.write_bytes(path.read_bytes()[:100])
    _, problems = verify(project.store.tables())
    assert len(problems) == 3
    assert all("was renamed to" in problem for problem in problems)
    assert refresh_project(project, instance, [LONGEST_NAME]).not_fresh == []


@pytest.mark.slow
def test_names_that_differ_only_in_case_are_refused_or_share_no_file(
    tmp_path: Path, server: ModelServer, instance: dg.DagsterInstance
) -> None:
    clip = write_video(tmp_path / "clip.mp4", frames=12, width=64, height=48).read_bytes()
    served = {"base_url": server.base_url}
    project = own_project(tmp_path, {"a": clip, "A": clip}, "mine", "Mine", **served)
    assert list(project.configuration.evaluations) == ["Mine"]
    problem = str(project.configuration.problems["mine"])
    assert "`mine` and `Mine` differ only in case" in problem
    assert refresh_project(project, instance, ["Mine"]).not_fresh == []
    files = [str(path.relative_to(project.store.root)) for path in project.store.tables()]
    assert len({name.lower() for name in files}) == len(files)

    folder = tmp_path / "configuration" / "benchmarks"
    (folder / "OWN.yaml").write_text((folder / "own.yaml").read_text())
    with pytest.raises(ConfigurationError, match="`own` and `OWN` differ only in case"):
        open_project(tmp_path / "configuration", str(tmp_path / "data"))
