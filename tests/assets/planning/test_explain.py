"""Reasons why partitions are not fresh, and estimates of a run, in a project that was built."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from tests.support.builders import write_video
from tests.support.projects import ALL, EVALUATIONS, Copy, WriteProject
from tests.support.published_data import parquet_bytes, v1_rows
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.project.state.versions import CODE_VERSIONS, code_version
from videomme_pipeline.prompts.render import parse_template
from videomme_pipeline.reports.terminal.runs import show_estimates
from videomme_pipeline.scoring.readers.read_answer import READERS, ReaderName
from videomme_pipeline.stages.explain import Cause, Explanation, matching
from videomme_pipeline.stages.plan import Freshness, failure_groups, plan_project
from videomme_pipeline.stages.refresh import estimate
from videomme_pipeline.videos import probe

Why = Callable[..., list[str]]


@pytest.fixture
def why(project: Project) -> Why:
    """Function that returns the printed reasons of the partition that `words` select."""

    def ask(words: str, of: Project = project) -> list[str]:
        states = plan_project(of)
        (state,) = matching(states, words)
        return [str(reason) for reason in Explanation(states).reasons(state)]

    return ask


def test_new_bytes_are_the_reason_of_everything_downstream(why: Why, copy: Copy) -> None:
    write_video(copy.video("003"), frames=44, width=64, height=48)
    (reason,) = why("videomme/videos 003")
    assert reason.startswith("new video bytes: ")
    began = "videomme/videos 003 (new video bytes)"
    for partition in (
        "frames uniform_n-4|003",
        "prompts few|003",
        "responses few|003",
        "scores few",
    ):
        assert why(f"videomme/{partition}") == [f"upstream: {began}"]
    assert why("videomme/frames uniform_n-4|002") == []


@pytest.mark.parametrize(
    ("change", "partition", "reason"),
    [
        (
            {"sampling": "uniform_n-8"},
            "prompts few|003",
            "changed setting: sampling.frames: 4 → 8",
        ),
        (
            {"sampling": "uniform_n-4.jpeg-60"},
            "prompts few|003",
            "changed setting: sampling.picture.jpeg_quality: 85 → 60",
        ),
        (
            {"prompt": "official_v1"},
            "prompts few|003",
            "changed setting: template.name: contract_v1 → official_v1",
        ),
        ({"model": "constant-D"}, "responses few|003", "changed setting: model.letter: A → D"),
        ({"repeats": 2}, "responses few|003", "changed setting: repeats: 1 → 2"),
        ({"reader": "official_v1"}, "scores few", "changed setting: reader: careful → official_v1"),
    ],
)
def test_a_changed_setting_is_shown_with_both_values(
    why: Why, write_project: WriteProject, change: dict[str, object], partition: str, reason: str
) -> None:
    changed = write_project(dict(EVALUATIONS) | {"few": dict(EVALUATIONS["few"]) | change})
    assert why(f"videomme/{partition}", changed)[0] == reason


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("right option, and write no other words.", "right option, and write no other words.⏎"),
        ("right option, and write no other words!!", "right option, and write no other words!!…"),
    ],
)
def test_a_changed_template_is_shown_where_it_begins_to_differ(
    why: Why, write_project: WriteProject, root: Path, end: str, shown: str
) -> None:
    own = parse_template("contract_v1").text.replace("correct option.", end)
    (root / "configuration" / "evaluations" / "own.txt").write_text(own)
    few = dict(EVALUATIONS["few"]) | {"prompt": "own.txt"}
    changed = write_project(dict(EVALUATIONS) | {"few": few})
    assert why("videomme/prompts few|003", changed) == [
        "changed setting: template.name: contract_v1 → own",
        "changed setting: template.text: …h the letter of the correct option.⏎ → "
        f"…h the letter of the {shown}",
    ]


def test_a_changed_setting_without_the_earlier_value_is_named_as_that(
    why: Why, project: Project, write_project: WriteProject
) -> None:
    path = str(stored_file(project.store, "prompts", "videomme", "few", "003"))
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    few = dict(EVALUATIONS["few"]) | {"prompt": "official_v1"}
    assert why("videomme/prompts few|003", write_project(dict(EVALUATIONS) | {"few": few})) == [
        "changed setting: the settings changed; the earlier values are not stored"
    ]


def test_a_new_reader_version_is_the_reason_of_scores(
    why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = READERS[ReaderName.CAREFUL]
    newer = replace(before, version="99")
    monkeypatch.setitem(cast("dict[ReaderName, Any]", READERS), ReaderName.CAREFUL, newer)
    assert why("videomme/scores few") == [f"reader version: careful-{before.version} → careful-99"]
    assert why("videomme/responses few|003") == []


def test_a_new_subtitle_file_is_the_reason_of_its_lines(why: Why, copy: Copy) -> None:
    copy.subtitle("003").write_text("1\n00:00:00,000 --> 00:00:01,000\nanother line\n")
    (video,) = why("videomme/videos 003")
    assert re.fullmatch(r"new subtitle file: \w{8} → \w{8}", video)
    (lines, upstream) = why("videomme/subtitles uniform_n-4.window-500|003")
    assert lines == video
    assert upstream == "upstream: videomme/videos 003 (new subtitle file)"
    assert why("videomme/scores few-subtitles") == [
        "upstream: videomme/subtitles uniform_n-4.window-500|003 (new subtitle file)"
    ]
    assert why("videomme/scores few") == []
    copy.subtitle("003").unlink()
    assert why("videomme/videos 003")[0].endswith(" → none")


def test_changed_questions_are_the_reason_of_everything_downstream(why: Why, copy: Copy) -> None:
    change_question(copy)
    (reason,) = why("videomme/questions")
    assert re.fullmatch(r"new questions: \w{8} → \w{8}", reason)
    assert why("videomme/scores blind") == ["upstream: videomme/questions (new questions)"]


def test_a_changed_code_version_is_shown_with_both_values(
    why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_version("prompts")
    monkeypatch.setitem(CODE_VERSIONS, "prompts", (99,))
    assert why("videomme/prompts few|003") == [f"code version: {before} → 99"]
    assert why("videomme/responses few|003") == [
        "upstream: videomme/prompts few|003 (code version)"
    ]


@pytest.mark.slow
def test_a_parent_that_was_rebuilt_alone_is_the_reason(
    why: Why, project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    write_video(copy.video("003"), frames=44, width=64, height=48)
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    videos = [dg.AssetKey(["videomme", "videos"])]
    assert job.execute_in_process(
        instance=instance, asset_selection=videos, partition_key="003"
    ).success
    assert why("videomme/videos 003") == []
    assert why("videomme/frames uniform_n-4|003") == ["never built"]
    assert why("videomme/subtitles uniform_n-4.window-500|003") == [
        "upstream: videomme/frames uniform_n-4|003 (never built)"
    ]


def test_a_lost_file_and_a_partition_that_was_never_built_have_different_reasons(
    why: Why, project: Project, write_project: WriteProject
) -> None:
    lost = stored_file(project.store, "prompts", "videomme", "few", "002")
    lost.unlink()
    assert why("videomme/prompts few|002") == [f"file gone or outdated: {lost}"]
    assert Explanation(plan_project(project)).causes()["videomme/prompts"] == {Cause.FILE: 1}
    new = write_project(dict(EVALUATIONS) | {"new": dict(EVALUATIONS["few"])})
    assert why("videomme/prompts new|002", new) == ["never built"]


@pytest.mark.slow
def test_a_failure_is_shown_with_its_message_and_counted(
    project: Project, instance: dg.DagsterInstance, copy: Copy
) -> None:
    copy.video("003").write_bytes(b"this is no video")
    refresh_project(project, instance, ALL)
    states = plan_project(project)
    explanation = Explanation(states)
    (state,) = matching(states, "videomme/videos 003")
    failed, changed = explanation.reasons(state)
    assert failed.cause is Cause.FAILED
    assert str(copy.video("003")) in failed.detail
    assert changed.cause is Cause.NEW_BYTES
    assert explanation.causes()["videomme/videos"] == {Cause.FAILED: 1}
    (group,) = failure_groups(states)
    assert (group.asset, group.partitions) == ("videomme/videos", (state.name,))
    assert group.reason == failed.detail
    (scores,) = matching(states, "videomme/scores few")
    assert [str(r) for r in explanation.reasons(scores)] == [
        "upstream: videomme/videos 003 (failed)"
    ]


def test_partitions_are_found_by_every_part_of_their_name(
    project: Project, instance: dg.DagsterInstance
) -> None:
    states = plan_project(project)
    counts = {words: len(matching(states, words)) for words in ("003", "uniform_n-4", "few")}
    assert counts == {"003": 1 + 2 + 1 + 4 + 4, "uniform_n-4": 3, "few": 3 + 3 + 1}
    assert len(matching(states, "uniform_n-4.window-500")) == 3
    assert len(matching(states, "frames")) == len(matching(states, "videomme/frames")) == 6
    with pytest.raises(ConfigurationError, match=r"did you mean `uniform_n-4`"):
        matching(states, "uniform_n4")


@pytest.mark.usefixtures("project")
def test_a_benchmark_without_questions_leaves_the_others_fresh(
    write_project: WriteProject, instance: dg.DagsterInstance, root: Path
) -> None:
    other = {"benchmark": "lvbench", "model": "constant-A", "sampling": "uniform_n-4"}
    folder = write_project(dict(EVALUATIONS) | {"other": other}).configuration.folder
    with (folder / "benchmarks.yaml").open("a") as file:
        file.write("lvbench: {accept_license: true}\n")
    states = plan_project(open_project(folder, str(root / "data")))
    changing = {state.stage.label for state in states if state.freshness is not Freshness.FRESH}
    assert "lvbench/questions" in changing
    assert not any(label.startswith("videomme/") for label in changing)


def estimates(project: Project) -> dict[str, int | None]:
    """Partitions to build by asset in a dry run."""
    return estimate(plan_project(project))


def test_requests_are_those_of_partitions_that_are_built(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    new = write_project(dict(EVALUATIONS) | {"new": dict(EVALUATIONS["few"])})
    states = plan_project(new)
    assert {state.reason for state in states if state.stage.label == "videomme/responses"} == {
        "",
        "its parent in videomme/prompts is not fresh",
    }
    partitions = estimate(states)
    assert (partitions["videomme/responses"], partitions["videomme/scores"]) == (3, 1)


def built(project: Project, instance: dg.DagsterInstance) -> dict[str, int]:
    """Partitions that a run then built."""
    return dict(refresh_project(project, instance, ALL).built)


def change_question(copy: Copy) -> None:
    rows = v1_rows()
    next(row for row in rows if row["videoID"] == copy.youtube_id("003"))["question"] = "What now?"
    copy.annotations.write_bytes(parquet_bytes(rows))


def change_answer(copy: Copy) -> None:
    rows = v1_rows()
    row = next(row for row in rows if row["videoID"] == copy.youtube_id("003"))
    row["answer"] = "B" if row["answer"] == "A" else "A"
    copy.annotations.write_bytes(parquet_bytes(rows))


def change_video(copy: Copy) -> None:
    write_video(copy.video("003"), frames=44, width=64, height=48)


def change_subtitles(copy: Copy) -> None:
    copy.subtitle("003").write_text("1\n00:00:00,000 --> 00:00:01,000\nanother line\n")


@pytest.mark.parametrize(
    "change",
    [
        change_question,
        pytest.param(change_answer, marks=pytest.mark.slow),
        pytest.param(change_video, marks=pytest.mark.slow),
        pytest.param(change_subtitles, marks=pytest.mark.slow),
    ],
)
def test_a_dry_run_announces_exactly_what_the_run_then_builds(
    change: Callable[[Copy], None],
    project: Project,
    instance: dg.DagsterInstance,
    copy: Copy,
) -> None:
    change(copy)
    announced = estimates(project)
    assert announced == built(project, instance)


def test_the_number_of_partitions_is_unknown_until_questions_are_fetched(
    project: Project, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_question(copy)
    monkeypatch.setattr(DeclaredSource, "known_questions", lambda _: None)
    announced = estimates(project)
    assert (announced["videomme/questions"], announced["videomme/prompts"]) == (1, None)
    sink = io.StringIO()
    rows = [{"asset": asset, "partitions": number} for asset, number in announced.items()]
    show_estimates(Console(file=sink), rows)
    assert "videomme/prompts\tunknown" in sink.getvalue().splitlines()


def test_stages_wait_for_questions_that_do_not_match_the_stored_scores(
    why: Why, project: Project, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_question(copy)
    monkeypatch.setattr(DeclaredSource, "known_questions", lambda _: None)
    states = plan_project(project)
    explanation = Explanation(states)
    assert explanation.causes()["videomme/frames"] == {Cause.NEVER_BUILT: 1}
    for state in states:
        assert explanation.reasons(state), state.name
    assert why("videomme/scores few")[0].startswith("upstream: videomme/questions (")


def test_a_video_without_its_file_counts_as_one_to_build(project: Project, copy: Copy) -> None:
    copy.video("003").unlink()
    assert estimates(project)["videomme/videos"] == 1


def test_a_plan_never_reads_a_video_that_was_never_built(
    write_project: WriteProject, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(probe, "_blake3", read.append)
    assert estimates(write_project())["videomme/frames"] == 6
    assert read == []
