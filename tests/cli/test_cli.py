"""Output and exit status of each command.

Most tests run `main` in this process on a small real project; tests about pipes start a process.
"""

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from tests.support.cli import CommandResult, use, videomme
from tests.support.hub_server import running_hub
from tests.support.model_server import ModelServer
from tests.support.paths import GOLDEN
from tests.support.projects import EVALUATIONS, Copy, write_project_in
from videomme_pipeline.cli.commands import PANELS, app
from videomme_pipeline.demo.smoke.media import make_video
from videomme_pipeline.scoring import scored_question

GOLDEN_SCORES = GOLDEN / "scores"
V1_RESPONSES = GOLDEN_SCORES / "v1_responses.json"
V2_RESPONSES = GOLDEN_SCORES / "v2_responses.json"
VIDEOMME = str(Path(sys.executable).with_name("videomme"))
USED = ("few", "few-subtitles")


def write_project(root: Path, evaluations: Mapping[str, Mapping[str, Any]]) -> None:
    write_project_in(root, Copy(root / "copy"))(evaluations, videos=["002", "003"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A project of two evaluations, and the results of the commands that built it."""

    root: Path
    planned: CommandResult
    first: CommandResult
    second: CommandResult


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    root = tmp_path_factory.mktemp("project")
    write_project(root, {name: EVALUATIONS[name] for name in USED})
    with pytest.MonkeyPatch.context() as patch:
        use(patch, root)
        yield Built(
            root=root,
            planned=videomme("run", "--dry-run"),
            first=videomme("run", *USED),
            second=videomme("run", *USED),
        )


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without any data."""
    use(monkeypatch, tmp_path)
    write_project(tmp_path, {name: EVALUATIONS[name] for name in USED})
    return tmp_path


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its name."""
    if not isinstance(group, TyperGroup):
        yield path, group
        return
    for name, command in group.commands.items():
        yield from commands(command, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_a_valid_example(path: tuple[str, ...]) -> None:
    shown = videomme(*path, "--help")
    assert shown.status == 0
    assert f"Example: videomme {' '.join(path)}" in " ".join(shown.out.split())
    words = shlex.split((COMMANDS[path].epilog or "").removeprefix("Example: videomme "))
    for sign in "<>":
        words = words[: words.index(sign)] if sign in words else words
    assert tuple(words[: len(path)]) == path
    COMMANDS[path].make_context("videomme", words[len(path) :])


def test_the_help_has_panels_of_at_most_23_commands() -> None:
    shown = videomme("--help").out
    assert [shown.index(f"─ {title} ─") for title in PANELS] == sorted(
        shown.index(f"─ {title} ─") for title in PANELS
    )
    names = [name for group in PANELS.values() for name in group]
    assert names[:2] == ["init", "doctor"]
    assert len(names) <= 23
    assert sorted(names) == sorted({path[0] for path in COMMANDS})


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_fits_one_screen_and_shows_no_types(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = videomme(*path, "--help").out
    assert len(shown.splitlines()) <= 50
    assert "<bool>" not in shown


def test_an_option_means_the_same_in_all_commands() -> None:
    """`--benchmark` selects evaluations, or is the benchmark of files and videos."""
    parameters = [parameter for command in COMMANDS.values() for parameter in command.params]
    for option, texts in {"--benchmark": 3, "--annotations": 1, "--output": 1}.items():
        helps = {
            (parameter.help, parameter.default)
            for parameter in parameters
            if option in parameter.opts
        }
        assert len(helps) <= texts, option
    assert sum("--against" in parameter.opts for parameter in parameters) == 1


def test_every_argument_and_option_has_a_help_text() -> None:
    for path, command in COMMANDS.items():
        assert [p.name for p in command.params if not getattr(p, "help", "help")] == [], path


def test_short_options_and_the_version() -> None:
    assert videomme("run", "-h").out == videomme("run", "--help").out
    assert re.fullmatch(r"videomme \d+\.\d+\.\d+\S*\n", videomme("--version").out)


def test_the_shell_completes_the_names_of_evaluations(empty: Path) -> None:
    typed = {"COMP_WORDS": "videomme run few", "COMP_CWORD": "2"}
    settings = {"_VIDEOMME_COMPLETE": "complete_bash", **typed}
    ended = subprocess.run(
        [VIDEOMME], capture_output=True, text=True, check=True, env=os.environ | settings
    )
    assert ended.stdout.split() == ["few", "few-subtitles"]


def test_without_a_command_the_commands_are_listed() -> None:
    shown = videomme()
    for path in COMMANDS:
        assert path[0] in shown.out


def test_a_dry_run_lists_what_would_be_built(built: Built) -> None:
    assert built.planned.status == 0
    header, *lines = built.planned.out.splitlines()
    assert header.split("\t") == ["asset", "build"]
    cells = [line.split("\t") for line in lines]
    assert cells[0] == ["videomme/questions", "1"]
    assert cells[1] == ["videomme/videos", "2"], "the annotations are on this disk"


def test_a_run_lists_what_it_built_and_the_scores(built: Built) -> None:
    assert built.first.status == 0
    assert "2 videomme/videos" in built.first.err
    assert "Report page" in built.first.err
    header, *rows = (line.split("\t") for line in built.first.out.splitlines())
    assert header[:4] == ["benchmark", "evaluation", "questions", "accuracy"]
    assert sorted(row[1:3] for row in rows) == [
        ["few", "6 of 2,700"],
        ["few-subtitles", "6 of 2,700"],
    ]


def test_a_plan_and_a_run_as_json(built: Built) -> None:
    assert videomme("run", "--dry-run", "--json").json == {"build": [], "requests": []}
    result = videomme("run", "few", "--json").json
    assert (result["run_id"], result["failures"], result["not_fresh"]) == (None, [], [])
    assert [row["evaluation"] for row in result["scores"]] == ["few"]
    assert {row["evaluation"] for row in result["citation"]} == {"few"}


def test_a_second_run_reports_everything_fresh(built: Built) -> None:
    assert built.second.status == 0
    assert "Everything is fresh. No frame was extracted and no model was asked." in built.second.err
    assert built.second.out == built.first.out


def test_progress_is_plain_lines_without_a_terminal(built: Built) -> None:
    assert "few: responses: 6 of 6" in built.first.err
    assert "\x1b" not in built.first.err + built.first.out


def test_status_counts_the_fresh_partitions_of_a_fresh_project(built: Built) -> None:
    status = videomme("status", "--json").json
    assert status["not_fresh"] == []
    assert status["assets"]["videomme/responses"] == {"fresh": 4}
    assert status["assets"]["videomme/scores"] == {"fresh": 2}


def test_status_of_one_evaluation_counts_only_what_it_needs(built: Built) -> None:
    assert videomme("status", "few", "--json").json["assets"]["videomme/scores"] == {"fresh": 1}


def test_status_has_a_reason_for_every_partition_that_is_not_fresh(empty: Path) -> None:
    status = videomme("status", "--json").json
    assert {state["state"] for state in status["not_fresh"]} == {"missing"}
    assert {reason["cause"] for s in status["not_fresh"] for reason in s["reasons"]} >= {
        "never built",
        "upstream",
    }
    assert status["causes"]["videomme/questions"] == {"never built": 1}
    header, questions, *_ = videomme("status").out.splitlines()
    assert header.split("\t")[-1] == "because"
    assert questions.split("\t")[-1] == "never built (1)"
    shown = videomme("status", "--reasons")
    assert "videomme/questions: missing\n  never built\n" in shown.out


def test_status_explains_the_named_partitions(built: Built) -> None:
    shown = videomme("status", "--explain", "videomme/prompts few|002")
    assert shown.out == "videomme/prompts few|002: fresh\n"
    partitions = videomme("status", "--explain", "002", "--json").json
    assert {state["state"] for state in partitions} == {"fresh"}
    assert "did you mean `few`" in videomme("status", "--explain", "fwe").failed_with
    message = videomme("status", "--explain", "zzz").failed_with
    assert message.partition("known: ")[2].startswith("questions, videos, frames, ")
    assert message.endswith(" more")


def test_a_run_with_failed_partitions_exits_with_an_error(empty: Path) -> None:
    evaluations = {"few": EVALUATIONS["few"]}
    write_project_in(empty, Copy(empty / "copy"))(evaluations, accept_license=False)
    ended = videomme("run", "few")
    assert ended.status == 1
    assert ended.err.count("Failed ") == ended.err.count("Failed videomme/questions: ") == 1
    assert "accept_license: true" in ended.err


@pytest.mark.slow
def test_failures_with_one_cause_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    write = write_project_in(tmp_path, Copy(tmp_path / "copy"))
    write({"asked": {"benchmark": "videomme", "model": "no-key"}}, videos=["002", "003"])
    models = {"no-key": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "NOT_SET"}}
    (tmp_path / "configuration" / "models.yaml").write_text(yaml.safe_dump(models))
    ended = videomme("run")
    (line,) = (line for line in ended.err.splitlines() if line.startswith("Failed "))
    assert line.startswith("Failed 2 partitions of videomme/responses: ")
    (header, row) = (line.split("\t") for line in ended.out.splitlines())
    scores = dict(zip(header, row, strict=True))
    assert (scores["accuracy"], scores["interval"], scores["failed"]) == ("", "", "6")
    (failure,) = videomme("status", "--json").json["failures"]
    partitions = [f"videomme/responses asked|{video}" for video in ("002", "003")]
    assert failure["partitions"] == partitions


def test_an_evaluation_file_with_a_typo_is_skipped_with_a_message(empty: Path) -> None:
    path = empty / "configuration" / "evaluations" / "typo.yaml"
    path.write_text(yaml.safe_dump(dict(EVALUATIONS["few"]) | {"samplng": "uniform_n-4"}))
    listed = videomme("status", "--json")
    assert "Skipped: " in listed.err
    assert "did you mean `sampling`?" in listed.err
    named = videomme("run", "typo")
    assert (named.status, named.err.count("samplng")) == (1, 1)
    assert videomme("doctor").status == 1


def test_scores_shows_what_the_run_showed(built: Built) -> None:
    shown = videomme("scores", "videomme")
    assert shown.out.splitlines() == built.second.out.splitlines()[: len(shown.out.splitlines())]
    assert set(videomme("scores", "videomme", "--json").json) == {"scores", "repeats", "citation"}
    assert [row["scores"].keys() for row in videomme("scores", "--json").json] == [{"videomme"}] * 2


def test_sql_prints_a_table_or_json(built: Built) -> None:
    select = "select evaluation, questions from leaderboard order by evaluation"
    assert videomme("sql", select).out == "evaluation\tquestions\nfew\t6\nfew-subtitles\t6\n"
    assert videomme("sql", select, "--json").json == [
        {"evaluation": "few", "questions": 6},
        {"evaluation": "few-subtitles", "questions": 6},
    ]


def test_sql_without_rows_succeeds(built: Built) -> None:
    assert videomme("sql", "select 1 where false", "--json").json == []


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('{path}')",
        "select * from '{path}'",
        "copy (select 1) to '{path}.copy'",
        "attach '{path}.duckdb' as other",
        "set enable_external_access = true",
    ],
)
def test_sql_uses_no_other_file(built: Built, tmp_path: Path, statement: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text("secret\n1\n", encoding="utf-8")
    ended = videomme("sql", statement.format(path=path))
    assert "1" not in ended.out
    assert ended.failed_with.startswith("DuckDB: ")
    assert list(tmp_path.glob("other*")) == [path]


@pytest.mark.parametrize(
    "statement",
    ["select content from read_text('.tmp/other.csv')", "copy (select 1) to '.tmp/new.csv'"],
)
def test_sql_uses_no_file_in_the_folder_for_temporary_files_of_duckdb(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "other.csv").write_text("secret")
    monkeypatch.chdir(tmp_path)
    ended = videomme("sql", statement)
    assert ended.failed_with.startswith("DuckDB: ")
    assert [path.name for path in (tmp_path / ".tmp").iterdir()] == ["other.csv"]


def test_sql_reads_other_files_if_that_is_allowed(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("label\n1\n", encoding="utf-8")
    select = f"select label from read_csv('{path}')"
    assert "--allow-files" in videomme("sql", select).failed_with
    assert videomme("sql", select, "--allow-files", "--json").json == [{"label": 1}]


def test_sql_shows_escape_sequences_as_text(built: Built) -> None:
    select = "select chr(27) || '[31mred' || chr(155) as label"
    assert videomme("sql", select).out == "label\n\\u001b[31mred\\u009b\n"
    as_json = videomme("sql", select, "--json")
    assert "\x9b" not in as_json.out
    assert as_json.json == [{"label": "\x1b[31mred\x9b"}]


@pytest.mark.parametrize("statement", ["", " ; ", "/* nothing */"])
def test_sql_without_a_statement_is_an_error(built: Built, statement: str) -> None:
    assert "query is empty" in videomme("sql", statement).failed_with


def test_invalid_sql_shows_the_error_of_duckdb(built: Built) -> None:
    ended = videomme("sql", "select nothing from leaderboard")
    assert ended.status == 1
    assert ended.err.startswith("Error: DuckDB: Binder Error")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("form", ["official", "lmms_eval", "vlmevalkit"])
def test_an_export_scores_as_the_evaluation_did(built: Built, tmp_path: Path, form: str) -> None:
    exported = videomme("export", "few", "--format", form)
    assert exported.status == 0
    assert "Warning few (release): 6 questions on 2 videos: a subset" in exported.err
    path = tmp_path / {"lmms_eval": "x.jsonl", "vlmevalkit": "x.tsv"}.get(form, "x.json")
    path.write_text(exported.out)
    overall = videomme("score", str(path), "--report", "json").json["breakdowns"]["overall"][0]
    (stored,) = videomme("sql", "select * from overall where evaluation = 'few'", "--json").json
    assert stored["accuracy"] == overall["accuracy"] > 0


def test_a_published_score_is_a_pull_request_with_one_file(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ("export", "few", "--to", "hub:made-up/model")
    monkeypatch.chdir(tmp_path)
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        few = videomme(*target, "--yes").failed_with
        assert "few: only 6 of 2,700 questions have an answer, less than 90%" in few
        assert hub.requests == []
        monkeypatch.setattr(scored_question, "MIN_ANSWERED_SHARE", 0.0)
        dry = videomme(*target, "--dry-run")
        written = (tmp_path / ".eval_results" / "few.yaml").read_bytes()
        asked = videomme(*target)
        assert hub.requests == []
        sent = videomme(*target, "--yes")
        odd = {"pullRequestUrl": "\x1b[31m/x", "commitUrl": "\x1b[31m/x", "commitOid": "0"}
        for answer in (b"no JSON", b"[]", b"{}", json.dumps(odd).encode()):
            hub.commit_answer = answer
            not_understood = videomme(*target, "--yes")
            assert not_understood.status == 1
            assert "made-up/model: the answer of the hub is not as its" in not_understood.err
            assert "Traceback" not in not_understood.err
            assert "\x1b" not in not_understood.err
        hub.commit_answer = None
        hub.token = "another"
        refused = videomme(*target, "--yes")
    assert dry.out == written.decode() == sent.out
    assert yaml.safe_load(written)[0]["dataset"]["id"] == "lmms-eval/Video-MME"
    assert ".eval_results/few.yaml of made-up/model" in asked.err
    assert (asked.status, sent.status) == (1, 0)
    assert hub.proposed == 5 * [("made-up/model", {".eval_results/few.yaml": written})]
    assert f"Opened {hub.url}/made-up/model/discussions/1" in sent.err
    assert refused.status == 1
    assert "made-up/model: the repository does not exist, or your token" in refused.err


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        ("hub", "few: `` is no repository of a model on the hub"),
        ("hub:a/b/c", "few: `a/b/c` is no repository of a model on the hub"),
        ("hug", "no site `hug`: did you mean `hub`?"),
    ],
)
def test_a_score_is_published_only_in_a_model_repository(
    built: Built, to: str, problem: str
) -> None:
    assert problem in videomme("export", "few", "--to", to).failed_with


def test_an_export_has_the_answers_of_its_evaluation(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(videomme("export", "few", "--format", "lmms_eval").out)
    compared = videomme("compare", "few", str(path))
    assert compared.status == 0
    assert "Accuracy B − A  not significant: +0.0 points" in compared.out
    assert "A and B have the same answers" in compared.out
    assert "the track of the results file is unknown" in compared.err
    stated = ("compare", "few", str(path), "--track")
    assert "results file" not in videomme(*stated, "without_subtitles").err
    other = videomme(*stated, "with_subtitles")
    assert (other.status, "they are of different tracks" in other.err) == (1, True)


def test_compare_refuses_another_model_on_another_track(built: Built) -> None:
    ended = videomme("compare", "few", "few-subtitles")
    assert (ended.status, ended.out) == (1, "")
    tracks = "few is without subtitles and few-subtitles is with subtitles: they are of different"
    assert tracks in ended.err


def test_an_audit_of_evaluations_has_their_citation_findings(built: Built) -> None:
    document = videomme("audit", "few", "few-subtitles", "--json").json
    findings = {(row["run"], row["check"]): row for row in document["findings"]}
    assert {run for run, _ in findings} == {"few", "few-subtitles"}
    assert ("few", "missing_questions") not in findings
    assert findings["few", "release"]["status"] == "warning"
    assert "a subset" in findings["few", "release"]["summary"]


@pytest.mark.slow
def test_a_model_is_asked_by_a_recipe(empty: Path) -> None:
    ended = videomme("recipe", "run", "gemini-2.5-pro", "--model", "random", "--json")
    assert ended.status == 3, "six answers are too few for a verdict"
    name = "gemini-2.5-pro-random-without_subtitles"
    path = empty / "configuration" / "evaluations" / f"{name}.yaml"
    assert f"The evaluation is {path}" in ended.err
    assert "Not kept: reader: string match" in ended.err
    assert yaml.safe_load(path.read_text())["sampling"] == "fps_based-1-max-256"
    (value,) = ended.json["values"]
    assert (value["published"], value["is_consistent"]) == (84.8, None)
    assert ended.json["not_proven"] == ["reader: string match"]
    assert ended.json["notes"] == ["frames and sizes were not compared with the authors' code"]
    again = videomme("recipe", "run", "gemini-2.5-pro", "--model", "random")
    assert "Everything is fresh" in again.err
    assert "published 84.8, here" in again.out


def page_data(path: Path) -> str:
    """The text of a page, with its packed data."""
    html = path.read_text()
    packed = re.findall(r"H4sI[A-Za-z0-9+/=]+", html)
    assert packed
    return html + "".join(gzip.decompress(b64decode(data)).decode() for data in packed)


def test_a_shared_report_has_no_text_of_the_benchmark(built: Built, tmp_path: Path) -> None:
    whole, shared = tmp_path / "whole.html", tmp_path / "shared.html"
    assert videomme("report", "--output", str(whole)).status == 0
    ended = videomme("report", "few", "--share", "--output", str(shared))
    assert ended.err == f"Wrote {shared}\n"
    assert "What happens in 002-1?" in page_data(whole)
    assert "What happens in" not in page_data(shared)
    assert "few" in page_data(shared)


def test_frames_show_writes_a_contact_sheet_of_a_stored_video(built: Built, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    ended = videomme(
        *("frames", "show", "002", "--benchmark", "videomme"),
        *("--sampling", "uniform_n-4", "--output", str(sheet)),
    )
    assert "4 of 4 requested frames" in ended.err
    assert sheet.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_frames_of_a_file_need_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    video = make_video("002", tmp_path)
    before = set(tmp_path.iterdir())
    ended = videomme("frames", "show", video.name, "--sampling", "uniform_n-4")
    assert f"Wrote {video.stem}.uniform_n-4.jpg: 4 of 4 requested frames" in ended.err
    assert set(tmp_path.iterdir()) - before == {tmp_path / f"{video.stem}.uniform_n-4.jpg"}


def test_doctor_succeeds_after_a_successful_run(built: Built) -> None:
    ended = videomme("doctor", "--json")
    assert ended.status == 0
    verdicts = {finding["check"]: finding["status"] for finding in ended.json}
    assert verdicts["videomme videos"] == verdicts["dagster"] == "ok"


def test_doctor_reports_problems_that_would_fail_a_run(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {
        "no-key": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "A_KEY_THAT_IS_NOT_SET"},
        "down": {"base_url": "http://127.0.0.1:9/v1"},
    }
    monkeypatch.delenv("A_KEY_THAT_IS_NOT_SET", raising=False)
    evaluations = {name: {"benchmark": "videomme", "model": name} for name in models}
    write_project_in(empty, Copy(empty / "copy"))(evaluations, accept_license=False)
    (empty / "configuration" / "models.yaml").write_text(yaml.safe_dump(models))
    ended = videomme("doctor", "--json")
    assert ended.status == 1
    failed = {f["check"]: f["summary"] for f in ended.json if f["status"] == "error"}
    assert "A_KEY_THAT_IS_NOT_SET is not set" in failed["model no-key"]
    assert "is the server up" in failed["model down"]
    assert "accept_license: true" in failed["videomme license"]


def test_doctor_sends_one_small_request_to_the_named_model(empty: Path) -> None:
    ended = videomme("doctor", "constant-B", "--json")
    (finding,) = ended.json
    assert (ended.status, finding["check"]) == (0, "request to constant-B")
    assert finding["summary"] == "one picture is answered with 'B'"
    assert "did you mean `constant-B`?" in videomme("doctor", "constant_B").failed_with


def test_init_writes_a_valid_evaluation(empty: Path) -> None:
    ended = videomme("init", "mine", "--benchmark", "videomme")
    path = empty / "configuration" / "evaluations" / "mine.yaml"
    evaluated = "which evaluates longest-option. Edit it, then: videomme run mine\n"
    assert ended.err == f"Wrote {path}, {evaluated}"
    assert videomme("status", "mine").status == 0
    again = videomme("init", "mine", "--benchmark", "videomme")
    assert "an evaluation with this name exists" in again.failed_with


def test_one_command_writes_a_project_with_an_evaluation_of_an_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    with ModelServer() as server:
        init = ("init", "mine", "--model", server.base_url, "--benchmark", "smoke", "--limit", "2")
        assert "mine.yaml, which evaluates served" in videomme(*init).err
        (request,) = videomme("run", "mine", "--dry-run", "--json").json["requests"]
    assert (request["model"], request["questions"]) == ("served", 6)


def test_init_of_a_folder_without_a_benchmark_says_how_to_name_it(empty: Path) -> None:
    error = videomme("init", str(empty), "--benchmark", "videomme").failed_with
    assert error.endswith(f"its benchmark: videomme init {empty} --benchmark my-set")


LINES = """\
{"id": 7, "response": "The answer is (B)."}
not json
{"response": null}

{"response": "none of them"}
"""


def test_read_reads_every_line_and_fails_for_an_invalid_one() -> None:
    ended = videomme("read", stdin=LINES)
    assert ended.status == 1
    first, bad, unanswered, unread = map(json.loads, ended.out.splitlines())
    assert (first["id"], first["letter"]) == (7, "B")
    start, end = first["span"]
    assert "B" in first["response"][start:end]
    assert bad["line"] == 2
    assert "is not JSON" in bad["error"]
    assert (unanswered["letter"], unanswered["rule"]) == ("", "no_response")
    assert (unread["letter"], unread["span"]) == ("", None)


def test_read_uses_the_given_reader_and_letters() -> None:
    line = '{"response": "H"}\n'
    assert json.loads(videomme("read", "--letters", "ABCDEFGH", stdin=line).out)["letter"] == "H"
    assert json.loads(videomme("read", "--letters", "ABCD", stdin=line).out)["letter"] == ""
    ended = videomme("read", "--reader", "official_v1", stdin='{"response": "A bird"}\n')
    assert (ended.status, json.loads(ended.out)["letter"]) == (0, "A")


FLAGS = (
    "return_categories_accuracy",
    "return_sub_categories_accuracy",
    "return_task_types_accuracy",
)
CASES = {
    case["name"]: case
    for case in json.loads((GOLDEN_SCORES / "v1_official_reports.json").read_text())["cases"]
}


@pytest.mark.parametrize(
    "name",
    ["60v_skip_missing_short,medium,long", "60v_skip_missing_long", "60v_skip_missing_short,long"],
)
def test_the_official_report_of_v1_equals_that_of_the_official_script(name: str) -> None:
    kwargs = CASES[name]["kwargs"]
    flags = [f"--{flag}" for flag in FLAGS if kwargs.get(flag)]
    assert flags
    durations = ["--video_duration_type", kwargs["video_types"]]
    official = ["--report", "official", "--skip_missing", *durations, *flags]
    ended = videomme("score", "--results_file", str(V1_RESPONSES), *official)
    assert (ended.status, ended.out) == (0, CASES[name]["stdout"])
    assert videomme("score", str(V1_RESPONSES), *official).out == ended.out


def test_score_needs_exactly_one_results_file() -> None:
    path = str(V1_RESPONSES)
    for arguments in ([], [path, "--results_file", path]):
        ended = videomme("score", *arguments)
        assert (ended.status, ended.out) == (1, "")
        assert "name one results file" in ended.err


def test_a_table_with_one_column_per_model_is_scored_with_columns(tmp_path: Path) -> None:
    table = tmp_path / "models.csv"
    lines = [f'{n:03d},Which?,"[""A. a"", ""B. b""]",A,A,{"AB"[n % 2]}' for n in range(10)]
    header = "video_id,question,options,label,Model 1,Model 2"
    table.write_text("\n".join([header, *lines]) + "\n")
    for model, accuracy in (("Model 1", 1.0), ("Model 2", 0.5)):
        columns = ["--columns", "answer=label", "--columns", f"prediction={model}"]
        scores = videomme("score", str(table), "--json", *columns).json
        assert scores["breakdowns"]["overall"][0]["accuracy"] == accuracy
    ended = videomme("score", str(table))
    assert (ended.status, "--columns prediction=COLUMN" in ended.err) == (1, True)
    ended = videomme("score", str(table), "--columns", "prediction=Model 3")
    assert "no row has the column 'Model 3'; did you mean `Model 2`?" in ended.err
    ended = videomme("score", str(table), "--columns", "prediction")
    assert "--columns prediction: write NAME=COLUMN" in ended.err


def test_the_official_report_of_v2_equals_that_of_the_official_script() -> None:
    recorded = json.loads((GOLDEN_SCORES / "v2_official_scores.json").read_text())["cases"]
    theirs = next(c["stdout"] for c in recorded if c["name"] == "official_no_csv_roundtrip")
    ended = videomme(
        *("score", str(V2_RESPONSES), "--benchmark", "videomme_v2"),
        *("--report", "official", "--group-rule", "official"),
    )
    assert ended.out == theirs.partition("\nRating saved")[0]


@pytest.mark.parametrize("path", [V1_RESPONSES, V2_RESPONSES], ids=["v1", "v2"])
def test_score_as_json_has_every_breakdown(path: Path) -> None:
    benchmark = "videomme_v2" if path is V2_RESPONSES else "videomme"
    report = videomme("score", str(path), "-b", benchmark, "--report", "json").json
    overall = report["breakdowns"]["overall"][0]
    assert overall["responses"] == report["questions"] > 0
    assert 0 < overall["accuracy"] < 1
    assert bool(report["group_breakdowns"]) == (benchmark == "videomme_v2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "fwe"], "no evaluation `fwe`"),
        (["run", "--benchmark", "smokey"], "benchmark smokey is not set up"),
        (["run", "--benchmark", "videomne"], "in benchmarks.yaml, did you mean `videomme`?"),
        (["status", "fwe"], "did you mean `few`?"),
        (["export", "fwe"], "evaluation fwe has no scores: did you mean `few`?"),
        (["export", "few", "--format", "offical"], "no format `offical`: did you mean `official`?"),
        (["compare", "few", "fwe"], "no file and no scored evaluation `fwe`: did you mean `few`?"),
        (["compare", "few", "zzzz"], "no file and no scored evaluation `zzzz`: known: few"),
        (["compare", "few", "zzzz.csv"], "`zzzz.csv`: known: few, few-subtitles ("),
        (["compare", f"{GOLDEN_SCORES}/v1_respons.json", "few"], str(V1_RESPONSES)),
        (["report", "fwe"], "fwe"),
        (["report", "--serve", "--share"], "a served page has frames and videos"),
        (["report", "--serve", "--output", "x"], "and is not written"),
        (["read", "--reader", "carful"], "no reader `carful`: did you mean `careful`?"),
        (["read", "--letters", "AXZ"], "only A to N are letters of options"),
        (["score", "gone.json"], "gone.json: no such file"),
        (["score", str(V1_RESPONSES), "--report", "offical"], "no report `offical`"),
        (["score", str(V1_RESPONSES), "--group-rule", "best"], "no group rule `best`"),
        (["score", str(V1_RESPONSES), "--video_duration_type", "tiny"], "tiny"),
        (["score", str(V1_RESPONSES), "--benchmark", "videommee"], "videommee"),
        (
            ["frames", "show", "nothing.mp4", "--sampling", "keyframe-4"],
            "nothing.mp4 is neither a file nor a stored video",
        ),
        (["init", "few", "--benchmark", "smokey"], "benchmark smokey is not set up"),
        (
            ["init", "--benchmark", "smoke"],
            "--benchmark smoke: give the name of the new evaluation",
        ),
        (["init", "a b", "--benchmark", "videomme"], "the file name is the evaluation's name"),
        (["nightly"], "no evaluation is tracked"),
    ],
    ids=lambda value: " ".join(map(str, value))[:40] if isinstance(value, list) else "",
)
def test_a_wrong_argument_is_one_paragraph_without_traceback(
    built: Built, arguments: Sequence[str], message: str
) -> None:
    assert message in videomme(*arguments).failed_with


def test_a_folder_without_configuration_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    for command in ("run", "nightly", "checkpoint watch", "status", "doctor", "ui"):
        message = videomme(*command.split()).failed_with
        assert "benchmarks.yaml: no such file; run this in the project's folder" in message
    assert list(tmp_path.iterdir()) == []


def test_the_entry_point_exits_with_the_status_of_its_command(tmp_path: Path) -> None:
    ended = subprocess.run(
        [VIDEOMME, "read"], input=LINES, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    assert len(ended.stdout.splitlines()) == 4


def test_a_judge_is_asked_once_and_counted_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    with ModelServer(answer=lambda _: "B") as server:
        write_project_in(tmp_path, Copy(tmp_path / "copy"))({})
        models = tmp_path / "configuration" / "models.yaml"
        models.write_text(yaml.safe_dump({"small": {"base_url": server.base_url}}))
        score = ("score", str(V1_RESPONSES), "--judge", "small", "--report", "json")
        first = videomme(*score)
        asked = server.request_count
        scored = videomme(*score)
    assert scored.json == first.json
    assert server.request_count == asked
    assert scored.json["judge"]["judge"] == "small"
    assert scored.json["judge"]["letters"] == asked
    assert "careful" in videomme(*score, "--reader", "lmms_eval").failed_with


def test_read_exits_silently_when_its_pipe_is_closed(tmp_path: Path) -> None:
    """`videomme read < many.jsonl | head -c 100`, with more lines than fit into a pipe."""
    many = tmp_path / "many.jsonl"
    many.write_text('{"response": "The answer is B."}\n' * 20_000)
    with (
        many.open() as lines,
        subprocess.Popen(
            [VIDEOMME, "read"], stdin=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        assert os.read(process.stdout.fileno(), 100).startswith(b'{"response"')
        process.stdout.close()
        assert process.stderr.read() == b""
