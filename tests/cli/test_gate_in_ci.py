"""The gate in other people's CI: the GitHub action and the workflow of the docs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.paths import GOLDEN, ROOT

BASELINE = str(GOLDEN / "scores" / "v1_responses.json")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the action as GitHub does: with inputs in variables, under `bash -e`."""
    (step,) = ACTION["runs"]["steps"]
    values = {name: value.get("default", "") for name, value in ACTION["inputs"].items()} | inputs
    variables = {
        variable: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda name: values[name[1]], text)
        for variable, text in step["env"].items()
    }
    programs = str(Path(sys.executable).parent)
    github = {"GITHUB_OUTPUT": str(folder / "outputs"), "GITHUB_ACTIONS": "true"}
    environment = os.environ | github | {"PATH": f"{programs}:{os.environ['PATH']}"} | variables
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_action_runs_the_gate_and_gives_its_outputs(tmp_path: Path) -> None:
    same = {"baseline": BASELINE, "candidate": BASELINE, "package": ""}
    ended = run_action(tmp_path, **same, options="--margin 6")
    assert ended.returncode == 0, ended.stderr
    outputs = (tmp_path / "outputs").read_text().splitlines()
    assert "verdict=equivalent" in outputs
    assert {line.partition("=")[0] for line in outputs} >= ACTION["outputs"].keys()
    assert (tmp_path / "gate.xml").exists()


def test_inputs_of_the_action_are_no_shell_commands(tmp_path: Path) -> None:
    text = '"; touch harmed; echo $(touch harmed) `touch harmed`'
    ended = run_action(tmp_path, baseline=text, candidate=text, package="", options=text)
    assert ended.returncode == 2
    assert not (tmp_path / "harmed").exists()


def test_the_workflow_of_the_docs_has_the_schema_of_workflows(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yml\n(.*?)```", (ROOT / "docs/compare.md").read_text(), re.DOTALL)
    assert len(block.splitlines()) == 10
    workflow = tmp_path / "gate.yml"
    workflow.write_text(block)
    check = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    program = Path(sys.executable).with_name(check[0])
    subprocess.run([str(program), *check[1:]], check=True)
    used = yaml.safe_load(block)["jobs"]["gate"]["steps"][-1]["with"]
    assert used.keys() <= ACTION["inputs"].keys()
