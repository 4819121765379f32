"""Hostile configuration: one file that is too large, too deep or misleading stops nothing else."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.configuration import MAX_NAME_CHARACTERS, read_spec
from videomme_pipeline.demo.smoke.scripts import questions
from videomme_pipeline.errors import ConfigurationError, PromptError
from videomme_pipeline.evaluation.folder import Configuration, read_configuration
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.project.project import open_project
from videomme_pipeline.project.runs.settings import RunsSpec
from videomme_pipeline.prompts.render import Template, render
from videomme_pipeline.storage.names import StoredName
from videomme_pipeline.storage.tables import SET_ASIDE

GOOD = "benchmark: smoke\nmodel: random\n"


def doubled(line: str, levels: int) -> str:
    """Lines a0, a1 …, each of which refers to the line before it twice."""
    return "".join(line.format(n=n, before=n - 1) for n in range(1, levels))


HOSTILE: Mapping[str, tuple[str, str]] = {
    "brackets": ("sampling: " + "[" * 5_000, "nested more than 20 levels deep"),
    "a million brackets": ("sampling: " + "[" * 250_000, "nested more than 20 levels deep"),
    "question marks": ("? " * 5_000, "nested more than 20 levels deep"),
    "dashes": (GOOD + "sampling:\n  " + "- " * 5_000 + "a\n", "nested more than 20 levels"),
    "aliases": (
        "a0: &a0 [x, x]\n" + doubled("a{n}: &a{n} [*a{before}, *a{before}]\n", 40),
        "more than 20,000 values",
    ),
    "aliases under a key": (
        GOOD
        + "sampling:\n  a0: &a0 [x, x]\n"
        + doubled("  a{n}: &a{n} [*a{before}, *a{before}]\n", 40),
        "more than 20,000 values",
    ),
    "merge keys": (
        "a0: &a0 {x0: 1, y0: 1}\n"
        + doubled("a{n}: &a{n} {{<<: [*a{before}, *a{before}], x{n}: 1}}\n", 40),
        "more than 20,000 values",
    ),
    "an alias of itself": (GOOD + "sampling: &a [*a]\n", "more than 20,000 values"),
    "a mapping of itself": (GOOD + "sampling: &a {<<: *a}\n", "more than 20,000 values"),
    "30 MB of text": (GOOD + "prompt: " + "x" * 30_000_000, "larger than 256 KiB"),
    "a long text": (GOOD + "prompt: " + "x" * 20_000, "a text of more than 10,000 characters"),
    "200,000 keys": ("".join(f"k{n}: 1\n" for n in range(200_000)), "larger than 256 KiB"),
    "15,000 keys": ("".join(f"k{n}: 1\n" for n in range(15_000)), "more than 20,000 values"),
    "5,000 unknown keys": ("".join(f"k{n}: 1\n" for n in range(5_000)), "and 4,997 more"),
    "a huge integer": (GOOD + "repeats: " + "9" * 9_000, "not readable as YAML"),
    "a huge hexadecimal": (GOOD + "repeats: 0x" + "f" * 9_000, "more than 64 bits"),
    "a huge sexagesimal": (GOOD + "repeats: 1" + ":59" * 3_000, "more than 64 bits"),
    "a huge float": (GOOD + "generation: {temperature: 1" + ":59" * 3_000 + ".5}", "not readable"),
    "not a number": (GOOD + "generation: {temperature: .nan}", "`generation.temperature` is nan"),
    "an impossible date": (GOOD + "prompt: 2026-13-45", "no such template"),
    "bytes": (GOOD + "prompt: !!binary aGk=", "could not determine a constructor"),
    "a set": (GOOD + "sampling: !!set {a, b}", "could not determine a constructor"),
    "a Python object": ("model: !!python/object/apply:os.system [ls]", "could not determine"),
    "a key that is a list": ("? [a, b]\n: 1\n", "unhashable key"),
    "a key that is a number": (GOOD + "1: 2\n", "should be strings"),
    "a NUL character": (GOOD + 'prompt: "a\\0b"', "no such template"),
    "a path of 5,000 characters": (GOOD + "prompt: " + "x" * 5_000, "at most 500 characters"),
    "a path of 400 characters": (GOOD + "prompt: " + "x" * 400, "no such template"),
    "a sequence for a sampling": (GOOD + "sampling: 5", "`sampling"),
    "frames": (GOOD + "sampling: uniform_n-99999999999", "at most 10000"),
    "frames of the fps": (GOOD + "sampling: fps_based-99999999", "at most 240"),
    "budgets": (GOOD + "sampling: keyframe-8.frames_by_duration-1-1-999999", "at most 10000"),
    "a side": (GOOD + "sampling: uniform_n-8.long_side-9999999", "is above 8192"),
    "an area": (GOOD + "sampling: uniform_n-8.area-99999999999", "at most 67108864"),
}
"""Text of an evaluation file and a part of the message about it, by what is wrong."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration folder with one good evaluation."""
    (tmp_path / "evaluations").mkdir()
    (tmp_path / "benchmarks.yaml").write_text("smoke:\n")
    (tmp_path / "evaluations" / "good.yaml").write_text(GOOD)
    return tmp_path


def problem(configuration: Configuration, name: str) -> str:
    """The message about the evaluation `name`, which must be the only one that has a problem."""
    assert list(configuration.evaluations) == ["good"]
    assert list(configuration.problems) == [name]
    return str(configuration.problems[name])


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_one_short_problem_and_stops_no_other(folder: Path, kind: str) -> None:
    text, expected = HOSTILE[kind]
    (folder / "evaluations" / "bad.yaml").write_text(text)
    message = problem(read_configuration(folder), "bad")
    assert expected in message
    assert len(message) < 2_000
    assert "\n" not in message


LIMITED = """
import resource, sys
from pathlib import Path
from videomme_pipeline.evaluation.folder import read_configuration
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
configuration = read_configuration(Path(sys.argv[1]))
print(len(configuration.evaluations), len(configuration.problems))
"""


@pytest.mark.slow
def test_all_hostile_files_together_need_little_time_and_memory(folder: Path) -> None:
    """Three copies of each, with limits that one of them alone exceeded without the checks."""
    files = [text for text, _ in HOSTILE.values()] * 3
    for number, text in enumerate(files):
        (folder / "evaluations" / f"bad-{number}.yaml").write_text(text)
    command = [sys.executable, "-c", LIMITED, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == ["1", str(len(files))], done.stderr


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "unreadable link"])
def test_a_path_that_is_not_a_file_is_a_problem(folder: Path, kind: str) -> None:
    path = folder / "evaluations" / "bad.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.symlink_to("/proc/self/mem")
    assert problem(read_configuration(folder), "bad").startswith(f"{path}: ")


@pytest.mark.parametrize("value", ["[a, b]", "5", "text", "false", "{accept_license: [a]}"])
def test_a_wrong_entry_of_a_benchmark_is_a_configuration_error(folder: Path, value: str) -> None:
    (folder / "benchmarks.yaml").write_text(f"smoke: {value}\n")
    with pytest.raises(ConfigurationError, match=r"benchmarks\.yaml, `smoke`: "):
        read_configuration(folder)


@pytest.mark.parametrize("name", ["1", "null", "1.5"])
def test_a_benchmark_whose_name_is_not_text_is_a_configuration_error(
    folder: Path, name: str
) -> None:
    (folder / "benchmarks.yaml").write_text(f"{name}: {{}}\n")
    with pytest.raises(ConfigurationError, match="there is no benchmark"):
        read_configuration(folder)


@pytest.mark.parametrize("value", ["5", "uniform_n-8", "[5]", "[[a]]", "[uniform_n-99999999]"])
def test_a_wrong_list_of_samplings_is_a_configuration_error(folder: Path, value: str) -> None:
    (folder / "samplings.yaml").write_text(f"smoke: {value}\n")
    with pytest.raises(ConfigurationError, match=r"samplings\.yaml, `smoke`: "):
        read_configuration(folder)


# Prompt files.


def test_a_prompt_file_is_inside_the_configuration_folder(folder: Path) -> None:
    (folder / "prompts").mkdir()
    (folder / "prompts" / "mine.txt").write_text("{{ question }}")
    (folder / "evaluations" / "link.txt").symlink_to(folder / "prompts" / "mine.txt")
    for name, prompt in (("above", "../prompts/mine.txt"), ("linked", "link.txt")):
        (folder / "evaluations" / f"{name}.yaml").write_text(GOOD + f"prompt: {prompt}\n")
    configuration = read_configuration(folder)
    assert configuration.problems == {}
    assert configuration.evaluation("above").template.text == "{{ question }}"


@pytest.mark.parametrize("kind", ["absolute", "relative", "link", "linked folder"])
def test_a_prompt_file_elsewhere_is_a_problem(folder: Path, kind: str) -> None:
    with tempfile.TemporaryDirectory() as elsewhere:
        secret = Path(elsewhere) / "secret.txt"
        secret.write_text("secret")
        evaluations = folder / "evaluations"
        (evaluations / "link.txt").symlink_to(secret)
        (evaluations / "linked").symlink_to(elsewhere)
        prompt = {
            "absolute": str(secret),
            "relative": os.path.relpath(secret, evaluations),
            "link": "link.txt",
            "linked folder": "linked/secret.txt",
        }[kind]
        (evaluations / "bad.yaml").write_text(GOOD + f"prompt: {prompt}\n")
        message = problem(read_configuration(folder), "bad")
    assert "outside of the configuration folder" in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"x" * 500_000, "at most 100000 characters"),
        (b"\xff\xfe", "can't decode"),
        (b"{{ question", "line 1"),
    ],
)
def test_an_unusable_prompt_file_is_a_problem(folder: Path, content: bytes, expected: str) -> None:
    (folder / "evaluations" / "mine.txt").write_bytes(content)
    (folder / "evaluations" / "bad.yaml").write_text(GOOD + "prompt: mine.txt\n")
    message = problem(read_configuration(folder), "bad")
    assert expected in message
    assert len(message) < 1_000
    assert "\n" not in message


# Templates.

COMPILED: Mapping[str, str] = {
    "joined constants": "{{ " + "'aaaa'|join(" * 30 + "'a'" + ")" * 30 + " }}",
    "rounded constant": "{{ 1.5|round(99999999, 'ceil') }}",
    "nested conditions": "{% if num_frames %}" * 150 + "{% endif %}" * 150,
    "long sum": "{{ 1" + "+1" * 5_000 + " }}",
    "brackets": "{{ " + "[" * 40_000,
    "huge integer": "{{ " + "9" * 9_000 + " }}",
    "escaping": "{% autoescape 'aaaa'|join('aaaa') %}{% endautoescape %}",
}
"""Templates that are dangerous already when they are compiled."""

FILLED: Mapping[str, str] = {
    "doubled by ~": "{% set x = question %}" + "{% set x = x ~ x %}" * 40,
    "doubled by +": "{% set x = question %}" + "{% set x = x + x %}" * 40,
    "doubled by blocks": "{% set x = question %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40,
    "doubled lists": "{% set x = [question] %}" + "{% set x = [x, x] %}" * 40 + "{{ x }}",
    "power": "{{ 9 ** 999999999 }}",
    "repeated": "{{ 'x' * 99999999999 }}",
    "formatted": "{{ '%99999999999d' % 1 }}",
    "squared": "{% set x = 3 %}" + "{% set x = x * x %}" * 60 + "{{ x }}",
    "joined": "{% set x = question %}" + "{% set x = x|join(x) %}" * 6,
    "joined constants": "{{ " + "'aaaa'|join(" * 30 + "'a'" + ")" * 30 + " }}",
    "rounded": "{{ 1.5|round(999999999, 'ceil') }}",
    "silent loops": "{% set x = 'a' %}"
    + "{% set x = x ~ x %}" * 20
    + "{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}",
}
"""Templates that request too much time or memory when they are filled."""


def filled(text: str) -> str:
    template = Template(name="hostile", text=text)
    return render(template, questions("smoke")[0], None, frame_seconds=[]).text


@pytest.mark.parametrize("kind", COMPILED)
def test_a_template_computes_nothing_when_it_is_read(folder: Path, kind: str) -> None:
    (folder / "evaluations" / "mine.txt").write_text(COMPILED[kind])
    (folder / "evaluations" / "other.yaml").write_text(GOOD + "prompt: mine.txt\n")
    configuration = read_configuration(folder)
    assert "good" in configuration.evaluations
    assert all(len(str(error)) < 500 for error in configuration.problems.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILLED)
def test_a_template_that_needs_too_much_fails_for_its_question(kind: str) -> None:
    with pytest.raises(PromptError, match="template hostile: ") as caught:
        filled(FILLED[kind])
    assert len(str(caught.value)) < 500
    assert filled("{{ question }}")


# Names.


def test_a_name_has_a_length_that_file_systems_accept(folder: Path) -> None:
    evaluations = folder / "evaluations"
    (evaluations / f"{'a' * (MAX_NAME_CHARACTERS + 1)}.yaml").write_text(GOOD)
    message = problem(read_configuration(folder), "a" * (MAX_NAME_CHARACTERS + 1))
    assert "at most 100 characters" in message


def test_the_longest_file_names_can_be_written(tmp_path: Path) -> None:
    """The folder of a track or an evaluation, and a damaged file that lacks answers."""
    sampling = parse_sampling(
        "fps_based-0.12345678901234568-min-10000-max-10000.frames_by_duration-10000-10000-10000"
        ".short_side-8192.jpeg-100.use_what_decodes.decord"
    )
    track = f"{sampling.name}.window-3600000-3600000"
    for variant in (track, "a" * MAX_NAME_CHARACTERS):
        name = StoredName(variant=variant, video="视" * 64, fingerprint="0" * 24, part="0" * 16)
        path = tmp_path.joinpath(*f"{name}{SET_ASIDE}".split("/"))
        path.parent.mkdir()
        path.touch()


def test_a_model_with_a_long_name_is_a_configuration_error(folder: Path) -> None:
    (folder / "models.yaml").write_text(f"{'m' * 101}:\n  kind: random\n")
    with pytest.raises(ConfigurationError, match="at most 100 characters"):
        read_configuration(folder).catalog.find("m" * 101)


@pytest.mark.parametrize("name", ["b" * 101, "../b", "", "a b"])
def test_a_benchmark_with_an_unusable_name_is_not_declared(name: str) -> None:
    with pytest.raises(ValueError, match="at most 100 characters"):
        Benchmark(**dict(find_benchmark("smoke")) | {"name": name})


@pytest.mark.parametrize(
    ("name", "message"),
    [("x" * 5_000, "no such file"), ("", "no such file")],
    ids=["5,000 letters", "nothing"],
)
def test_the_name_of_a_configuration_folder_may_be_anything(
    name: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        open_project(tmp_path / name, str(tmp_path / "data"))


def test_a_data_folder_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.yaml").write_text("smoke: {}")
    (tmp_path / "no.zip").write_text("no archive")
    with pytest.raises(ConfigurationError, match="install the fsspec package of this storage"):
        open_project(tmp_path, f"zip://::{tmp_path}/no.zip")


@pytest.mark.parametrize(
    "line",
    [
        "code_location: ñ",
        f"code_location: {'x' * 101}",
        "code_location: a-b",
    ],
    ids=lambda line: line[:20],
)
def test_a_name_in_runs_yaml_that_python_or_dagster_cannot_use_is_one_sentence(
    line: str, tmp_path: Path
) -> None:
    (tmp_path / "runs.yaml").write_text(line)
    key = line.partition(":")[0]
    with pytest.raises(ConfigurationError, match=f"runs.yaml: `{key}` is"):
        read_spec(tmp_path / "runs.yaml", RunsSpec)
