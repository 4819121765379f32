"""Commands and snippets of README and docs work as written.

Shell blocks: each `videomme` command runs on a small project that was built for these tests.
Python blocks run. YAML blocks are put into the file that they belong to and read by the project.
"""

import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from tests.support.cli import use, videomme
from tests.support.paths import ROOT
from tests.support.reference_pages import GENERATED
from videomme_pipeline.cli.commands import app
from videomme_pipeline.cli.run import PLANNING
from videomme_pipeline.cluster.dask import DaskSpec
from videomme_pipeline.configuration import read_spec
from videomme_pipeline.demo.smoke.media import make_video
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.evaluation.reading import EvaluationFile
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.project.checkpoints import read_training_runs
from videomme_pipeline.project.nightly.tracked import read_nightly
from videomme_pipeline.project.runs.settings import RUNS_FILE, STORAGE_FILE, RunsSpec, StorageSpec

USAGE = ROOT / "docs" / "commands.md"
"""This page is written from the code. Its blocks are no commands to run, but their usage."""
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page != USAGE),
)
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
BENCHMARKS = ("smoke", "smoke_v2", "videomme", "videomme_v2", "longvideobench_val")
EVALUATION: dict[str, Any] = {
    "benchmark": "smoke",
    "model": "constant-A",
    "sampling": "uniform_n-4",
}
DECLARATION: dict[str, Any] = {
    "title": "Documented",
    "folder": "/data/my-set",
    "annotations": "questions.jsonl",
    "columns": {"video": "video", "question": "question", "answer": "answer"},
}
MODELS = ("my-model", "my-small-model", "qwen")
NOT_RUN = ("ui", "nightly", "cache journal", "checkpoint submit", "checkpoint wait")
"""Commands that do not end, or need an endpoint, a database or a UI."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [
        Block(page.name, text.count("\n", 0, match.start()) + 1, match[1], dedent(match[2]))
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for match in BLOCK.finditer(text)
        if match[1] in languages
    ]


def commands_of(block: Block) -> Iterator[list[str]]:
    """Arguments of each `videomme` command of a shell block."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True) if "videomme " in line else []
        if words and Path(words[0]).name == "videomme":
            yield words[1:]


FIRST_BLOCKS: dict[tuple[str, ...], Block] = {}
"""Each documented command, and the first block with it."""
for block in blocks("sh", "console"):
    for command in commands_of(block):
        if not " ".join(command).startswith(NOT_RUN):
            FIRST_BLOCKS.setdefault(tuple(command), block)
COMMANDS = [
    pytest.param(
        [*words],
        id=f"{block} {' '.join(words)}",
        marks=[pytest.mark.slow] * (words[0] == "sweep" or words == ("run",)),  # build much
    )
    for words, block in FIRST_BLOCKS.items()
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder of a user who built the evaluations that the docs name."""
    root = tmp_path_factory.mktemp("documentation")
    write_configuration(root / "configuration", {})
    shutil.copy(make_video("002", root / "media"), root / "clip.mp4")
    (root / "my-videos").mkdir()
    shutil.copy(root / "clip.mp4", root / "my-videos" / "clip.mp4")
    row = {"video": "clip.mp4", "question": "Which?", "options": ["One", "Two"], "answer": "A"}
    (root / "my-videos" / "questions.json").write_text(json.dumps([row]))
    with pytest.MonkeyPatch.context() as patch:
        use(patch, root)
        patch.chdir(root)
        for name, seed in (("results", 1), ("blind", 2)):
            (root / f"{name}.jsonl").write_text("".join(results(seed)))
        shutil.copy(root / "blind.jsonl", root / "copy.jsonl")
        ended = videomme("run", "my-evaluation", "smoke-embedded")
        assert ended.status == 0, ended.err
        yield root


def results(seed: int) -> Iterator[str]:
    """The lines of a made-up results file with all questions of Video-MME."""
    chance = random.Random(seed)
    for number in range(2_700):
        row = {
            "video_id": f"{number // 3:03d}",
            "duration": ("short", "medium", "long")[number // 900],
            "question_id": f"{number // 3:03d}-{number % 3 + 1}",
            "question": "What is shown?",
            "options": ["A. Apples", "B. Boats", "C. Cars", "D. Dogs"],
            "answer": "ABCD"[number % 4],
            "prediction": "ABCD"[(number + max(0, chance.randint(-4, 3))) % 4],
        }
        yield json.dumps(row) + "\n"


def write_configuration(folder: Path, files: Mapping[str, Any]) -> None:
    """Write a configuration of three evaluations, with `files` merged into its files."""
    defaults: dict[str, dict[str, Any]] = {
        "benchmarks.yaml": {"smoke": {"videos": ["002", "004"]}},
        "models.yaml": {name: {"base_url": "http://127.0.0.1:9/v1"} for name in MODELS},
        "evaluations/my-evaluation.yaml": EVALUATION,
        "evaluations/smoke-embedded.yaml": EVALUATION | {"model": "constant-B"},
        "evaluations/smoke-blind.yaml": {"benchmark": "smoke", "model": "constant-C"},
    }
    for name in defaults.keys() | files.keys():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(defaults.get(name, {}) | files.get(name, {})))


OTHER_FILES: Mapping[str, type[Spec]] = {
    "storage.yaml": StorageSpec,
    "cluster.yaml": DaskSpec,
    "runs.yaml": RunsSpec,
}


def file_of(content: dict[str, Any]) -> tuple[str, dict[str, Any]]:  # noqa: PLR0911 - one per file
    """The configuration file that a YAML block belongs to, and the content to add to that file."""
    keys = content.keys()
    if keys <= EvaluationFile.model_fields.keys():
        return "evaluations/documented.yaml", EVALUATION | content
    if keys <= set(BENCHMARKS):
        is_list = all(isinstance(value, list) for value in content.values())
        return "samplings.yaml" if is_list else "benchmarks.yaml", content
    if "since" in keys:
        [settings] = content["evaluations"].values()
        return "nightly.yaml", {**content, "evaluations": {"my-evaluation": settings}}
    if all(isinstance(entry, dict) and "pattern" in entry for entry in content.values()):
        runs = {name: {**run, "template": "my-evaluation"} for name, run in content.items()}
        return "checkpoints.yaml", runs
    if keys & {"annotations", "grouping"}:
        own = {} if "hub" in keys else DECLARATION
        return "benchmarks/documented.yaml", own | content
    for name, spec in OTHER_FILES.items():
        if keys & spec.model_fields.keys():
            return name, content
    if "limits" in keys:
        content = {"my-model": {"base_url": "http://127.0.0.1:9/v1"} | content}
    return "models.yaml", content


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_blocks_are_valid_configuration(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, content = file_of(yaml.safe_load(block.text))
    write_configuration(tmp_path / "configuration", {name: content})
    use(monkeypatch, tmp_path)
    ended = videomme("status")
    assert (ended.status, ended.err) == (0, f"{PLANNING}\n"), f"{name}: {ended.err}"
    configuration = read_configuration(tmp_path / "configuration")
    read_nightly(configuration)  # `status` does not need these files
    read_training_runs(configuration)
    read_spec(configuration.folder / STORAGE_FILE, StorageSpec)
    read_spec(configuration.folder / RUNS_FILE, RunsSpec)


@pytest.mark.parametrize("words", COMMANDS)
def test_documented_commands_run(words: list[str], folder: Path) -> None:
    ended = videomme(*words)
    assert ended.status == 0, ended.err


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_blocks_run(block: Block, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "data", tmp_path / "data")
    ended = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


JSON_FORM = re.compile(
    r"^`videomme ([^`]* --json)`.*?^```json\n(.*?)^```", re.MULTILINE | re.DOTALL
)


def check_keys(documented: Any, actual: Any) -> None:
    """Check that both have the same keys wherever both have values. Keys with `/` are names.

    A part that is empty on one side is not compared, since each finding has its own numbers.
    """
    if not actual or not documented:
        return
    if isinstance(documented, dict) and not any("/" in key for key in documented):
        assert documented.keys() == actual.keys()
        for key, value in documented.items():
            check_keys(value, actual[key])
    elif isinstance(documented, list):
        check_keys(documented[0], actual[0])


@pytest.mark.slow
def test_documented_json_has_the_keys_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    no_key = {"my-model": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "NOT_SET"}}
    fails = {"evaluations/my-evaluation.yaml": {"model": "my-model"}}
    write_configuration(tmp_path / "configuration", {"models.yaml": no_key} | fails)
    videomme("run", "smoke-embedded")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.json").write_text("".join(results(1)))
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    forms = {command: json.loads(text) for command, text in JSON_FORM.findall(page)}
    assert len(forms) == page.count("```json") == 7
    dry_run = videomme("run", "--dry-run", "--json").json
    assert dry_run["build"]
    assert dry_run["requests"]
    run = videomme("run", "--json").json
    assert run["failures"]
    for command, documented in forms.items():
        check_keys(documented, videomme(*command.split()).json)
    check_keys(forms["run --dry-run --json"], dry_run)
    check_keys(forms["run --json"], run)


def command_named(words: list[str]) -> Any:
    """The command that `words` begin with, or None if there is no such command."""
    command: Any = typer.main.get_command(app)
    while isinstance(command, TyperGroup) and words:
        command = command.commands.get(words.pop(0))
    return command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_in_the_text_exists(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for mentioned in re.findall(r"`videomme ([a-z][^`]*)`", text):
        words = mentioned.replace("[", " ").replace("]", " ").split()
        command = command_named(words)
        assert command is not None, mentioned
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= options, mentioned


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_in_the_text_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", page.read_text(encoding="utf-8"))) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        path = page.parent / target if target else page
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [anchor_of(heading) for heading in headings], f"{target}#{anchor}"


def anchor_of(heading: str) -> str:
    """The anchor of a heading on GitHub."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_show_the_code(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == GENERATED[name](), "run `python -m tests.support.reference_pages`"


def test_the_limits_of_several_machines_are_computed() -> None:
    command = [sys.executable, "-m", "perf.cluster_model", "--page"]
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert table in (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")


def test_every_helper_of_tests_is_in_their_readme() -> None:
    folder = ROOT / "tests" / "support"
    named = set(re.findall(r"`(\w+\.py)", (folder / "README.md").read_text()))
    assert named == {path.name for path in folder.glob("*.py")} - {"__init__.py"}
