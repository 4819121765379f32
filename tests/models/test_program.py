"""Models that are programs: real scripts that answer in any order, die, hang and misbehave."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.made_up_requests import frame_set, letters, videos
from videomme_pipeline.errors import ConfigurationError, CostLimitError, ModelError, VideoMMEError
from videomme_pipeline.fetch.release import Footage
from videomme_pipeline.frames.cache import WholeVideo
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.models.catalog import Catalog, build_model
from videomme_pipeline.models.program.spec import ProgramSpec
from videomme_pipeline.models.video_llm import FailureKind, Usage
from videomme_pipeline.processes.secrets import REMOVED, child_environment
from videomme_pipeline.responses.collect import collect
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RequestPlan, VideoRequests, planned_requests
from videomme_pipeline.responses.response import Response
from videomme_pipeline.subtitles.align import AlignedLine

PYTHON = [sys.executable, "agent.py"]
TEN_LINES = """\
import json
import sys

for line in sys.stdin:
    question = json.loads(line)
    letter = "ABCD"[len(question["frames"])]
    print(json.dumps({"id": question["id"], "text": letter}))
"""
SHELL = r"""#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
  echo "{\"id\": \"$id\", \"text\": \"B\"}"
done
"""
RECORD = """\
import json, os, pathlib, sys
for line in sys.stdin:
    question = json.loads(line)
    question["bytes"] = [len(pathlib.Path(f["path"]).read_bytes()) for f in question["frames"]]
    question["key"] = os.environ.get("AGENT_KEY")
    with open("record.jsonl", "a") as record:
        record.write(json.dumps(question) + "\\n")
    print("a line of the log", file=sys.stderr)
    print(json.dumps({"id": question["id"], **json.loads(sys.argv[1])}))
"""
REVERSED = """\
import json, sys
while questions := [json.loads(line) for line in (sys.stdin.readline() for _ in range(4)) if line]:
    for question in reversed(questions):
        print(json.dumps({"id": question["id"], "text": "ABCD"[int(question["question_id"][-1])]}))
"""
FAULTY = """\
import json, os, sys, time
print("started", file=open("starts", "a"))
for line in sys.stdin:
    question = json.loads(line)
    if question["question_id"] == "001-2":
        {fault}
    print(json.dumps({{"id": question["id"], "text": "A"}}))
"""


def line(start_seconds: float, end_seconds: float, text: str) -> AlignedLine:
    return AlignedLine(
        frame=None,
        cue=0,
        last_cue=0,
        start_seconds=start_seconds,
        end_seconds=end_seconds,
        text=text,
    )


def written(folder: Path, agent: str, **entry: Any) -> ProgramSpec:
    """The entry of a program with the code `agent`."""
    (folder / "agent.py").write_text(agent)
    (folder / "agent.py").chmod(0o755)
    (folder / "models.yaml").write_text(yaml.safe_dump({"agent": {"command": PYTHON} | entry}))
    spec = Catalog.read(folder / "models.yaml").find("agent")
    assert isinstance(spec, ProgramSpec)
    return spec


def ask(
    spec: ProgramSpec,
    requests: Sequence[VideoRequests],
    environment: Mapping[str, str] = os.environ,
    **plan: Any,
) -> list[Response]:
    """All responses to `requests`, from a new journal."""
    journal = spec.folder / "journal.sqlite"
    journal.unlink(missing_ok=True)
    settings = RequestPlan(evaluation="test", limits=spec.limits, **plan)
    with Journal(journal) as opened:
        model = build_model(spec.working_in(spec.folder / "logs"), environment)
        return list(collect(requests, model, opened, settings))


def test_a_script_of_ten_lines_answers(tmp_path: Path) -> None:
    responses = ask(written(tmp_path, TEN_LINES), videos(2, 2))
    assert set(letters(responses).values()) == {"C"}
    assert {(r.error, r.num_frames, r.served.attempts) for r in responses} == {(None, 2, 1)}


def test_a_shell_script_answers(tmp_path: Path) -> None:
    spec = written(tmp_path, SHELL, command=["./agent.py"])
    assert set(letters(ask(spec, videos(1, 3))).values()) == {"B"}


def test_several_processes_share_the_videos(tmp_path: Path) -> None:
    spec = written(tmp_path, FAULTY.format(fault="pass"), processes=3)
    assert set(letters(ask(spec, videos(9, 1))).values()) == {"A"}
    assert len((tmp_path / "starts").read_text().splitlines()) == 3


def test_answers_may_come_in_any_order(tmp_path: Path) -> None:
    spec = written(tmp_path, REVERSED, limits={"concurrency": 4})
    answers = letters(ask(spec, videos(4, 3)))
    assert {answer == "ABCD"[int(key[0][-1])] for key, answer in answers.items()} == {True}


def test_a_program_gets_everything_but_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_KEY", "sk-0123456789")
    answer = {
        "text": "A",
        "reasoning": "sk-0123456789 seen",
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "calls": 3},
        "cost_dollars": 0.25,
        "frames_used": [0.5, 1],
        "trace": {"steps": ["looked"]},
    }
    command = [*PYTHON, json.dumps(answer)]
    spec = written(tmp_path, RECORD, command=command, environment=["AGENT_KEY"])
    (video,) = videos(1, 1)
    requests = [replace(video, lines=[line(0.5, 2.0, "Hello.")])]
    responses = ask(spec, requests, repeats=2)
    first, second = map(json.loads, (tmp_path / "record.jsonl").read_text().splitlines())
    paths = [Path(frame.pop("path")) for frame in first["frames"]]
    assert [path.name for path in paths] == ["00000.jpeg", "00001.jpeg"]
    assert not any(path.exists() for path in paths), "frames are removed after the answer"
    generation = {
        "temperature": 0.0,
        "top_p": None,
        "max_tokens": 1024,
        "seed": None,
        "reasoning_effort": None,
        "constrain_answer": False,
    }
    assert first.pop("id") != second["id"]
    assert first == {
        "benchmark": "smoke",
        "video_id": "000",
        "question_id": "000-1",
        "question": "What happens in video 0, part 1?",
        "options": ["A. One.", "B. Two.", "C. Three.", "D. Four."],
        "system": None,
        "prompt": video.questions[0][1].text,
        "history": [],
        "between_frames": [],
        "subtitles": [{"start_seconds": 0.5, "end_seconds": 2.0, "text": "Hello."}],
        "frames": [{"seconds": 0.0}, {"seconds": 1.5}],
        "video": None,
        "repeat": 0,
        "seed": None,
        "generation": generation,
        "bytes": [603, 603],
        "key": "sk-0123456789",
    }
    assert second["repeat"] == 1
    assert "AGENT_KEY" not in child_environment()
    stored = responses[0]
    assert (stored.raw_output, stored.reasoning) == ("A", f"{REMOVED.decode()} seen")
    assert stored.usage == Usage(prompt_tokens=7, completion_tokens=2)
    assert stored.served.cost_dollars == 0.25
    more = {name: answer[name] for name in ("usage", "frames_used", "trace")}
    assert json.loads(stored.usage_json or "") == more
    log = tmp_path / "logs" / "agent.1.log"
    assert log.read_text() == "a line of the log\n" * 2


def test_a_program_gets_the_earlier_turns_of_a_conversation(tmp_path: Path) -> None:
    agent = RECORD.replace("**json.loads(sys.argv[1])", '"text": "A\\0"')  # stored as A\ufffd
    spec = written(tmp_path, agent, processes=2)
    requests = [replace(video, is_conversation=True) for video in videos(2, 3)]
    with Journal(tmp_path / "journal") as journal:
        for _ in range(2):
            plan = RequestPlan(evaluation="test", limits=spec.limits)
            responses = list(collect(requests, build_model(spec), journal, plan))
            assert [response.error for response in responses] == [None] * 6
    lines = [json.loads(text) for text in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert len(lines) == 6, "stored turns are not asked again"
    for video in requests:
        prompts = [prompt.text for _, prompt in video.questions]
        own = [asked for asked in lines if asked["video_id"] == video.video_id]
        assert [asked["prompt"] for asked in own] == prompts
        assert [asked["history"] for asked in own] == [
            [{"prompt": text, "text": "A\ufffd"} for text in prompts[:number]]
            for number in range(3)
        ]
        assert {len(asked["frames"]) for asked in own} == {2}, "a line is complete"


def test_a_program_gets_the_path_and_the_clip_of_a_video(tmp_path: Path) -> None:
    spec = written(
        tmp_path, RECORD, command=[*PYTHON, '{"text": "A"}'], frames_as="video_file", version="1"
    )
    whole = WholeVideo(
        path=tmp_path / "video.mp4", size=(64, 48), sampling=parse_sampling("uniform_n-2")
    )
    (video,) = videos(1, 1)
    question, prompt = video.questions[0]
    clip = Footage(clip_start_seconds=2.0, clip_end_seconds=5.5)
    requests = replace(
        video,
        questions=[(replace(question, footage=clip), prompt)],
        load_frames=lambda: replace(frame_set(0), video=whole),
    )
    ask(spec, [requests])
    (asked,) = map(json.loads, (tmp_path / "record.jsonl").read_text().splitlines())
    path = str(tmp_path / "video.mp4")
    assert asked["video"] == {"path": path, "start_seconds": 2.0, "end_seconds": 5.5}
    assert asked["frames"] == []


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("sys.exit('no memory left')", "ended with exit code 1; its last output was 'no memory l"),
        ("os.kill(os.getpid(), 9)", "was killed, most likely because memory ran out"),
        ("'x' * 2**32", "last output was 'MemoryError'"),
        pytest.param("time.sleep(60)", "timeout: no answer within 2 s", marks=pytest.mark.slow),
        ("print('Loading')", "malformed: .* it wrote 'Loading' to standard output; write only"),
        ("print(json.dumps({'text': 'A'}))", "it wrote .* to standard output; write only answers"),
        ('print(\'{"id": 1, "text": "\' + \'x\' * 9999)', "malformed"),
    ],
)
def test_a_fault_fails_its_question_and_the_program_is_started_again(
    tmp_path: Path, fault: str, words: str, concurrency: int
) -> None:
    limits = {
        "concurrency": concurrency,
        "request_timeout_seconds": 2,
        "max_response_bytes": 4096,
    }
    agent = FAULTY.format(fault=fault)
    spec = written(tmp_path, agent, limits=limits, max_memory_bytes=2**31)
    responses = {response.question_id: response for response in ask(spec, videos(3, 3))}
    failed = responses.pop("001-2")
    assert failed.served.attempts == 2
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(failed.error)
    assert {(response.raw_output, response.error) for response in responses.values()} == {
        ("A", None)
    }
    assert len((tmp_path / "starts").read_text().splitlines()) in (2, 3)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ({"error": "no route"}, "rejected", "rejected: the program reports: no route"),
        ({"text": "A", "cost": 1}, "malformed", "unknown key `cost`, did you mean `cost_dollars`"),
        ({"text": 5}, "malformed", "`text` is 5: expected text"),
        ({"text": "A", "cost_dollars": -1}, "malformed", "`cost_dollars` is -1: expected at least"),
        ({"text": "A", "frames_used": ["x"]}, "malformed", "frames_used"),
        ({}, "empty", "without text"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(
    tmp_path: Path, answer: Mapping[str, Any], kind: str, words: str
) -> None:
    spec = written(tmp_path, RECORD, command=[*PYTHON, json.dumps(answer)])
    (response,) = ask(spec, videos(1, 1))
    assert (response.raw_output, response.failure) == (None, FailureKind(kind))
    assert words in str(response.error)


def test_the_cost_of_a_failure_counts(tmp_path: Path) -> None:
    answer = json.dumps({"error": "no answer", "cost_dollars": 0.5, "trace": "looked"})
    spec = written(tmp_path, RECORD, command=[*PYTHON, answer], limits={"max_cost_dollars": 1.2})
    with pytest.raises(CostLimitError):
        ask(spec, videos(1, 3))
    assert len((tmp_path / "record.jsonl").read_text().splitlines()) == 2


def test_a_limit_needs_the_cost_of_an_answer(tmp_path: Path) -> None:
    spec = written(tmp_path, TEN_LINES, limits={"max_cost_dollars": 1})
    with pytest.raises(ModelError, match=r"the cost of an answer is unknown.*`cost_dollars`"):
        ask(spec, videos(1, 2))


def test_the_identity_is_the_command_the_files_and_the_version(tmp_path: Path) -> None:
    def fingerprint(agent: str = TEN_LINES, **entry: Any) -> str:
        return written(tmp_path, agent, **{"files": ["agent.py"]} | entry).fingerprint

    (tmp_path / "prompt.txt").write_text("Look.")
    same = [
        fingerprint(),
        fingerprint(files=["*.py"]),
        fingerprint(processes=2, is_paid=False, environment=["KEY"], limits={"concurrency": 3}),
    ]
    assert len(set(same)) == 1
    others = [
        fingerprint(agent=f"{TEN_LINES}\n"),
        fingerprint(command=[*PYTHON, "--fast"]),
        fingerprint(version="2"),
        fingerprint(frames_as="video_file"),
        fingerprint(files=["agent.py", "prompt.txt"]),
    ]
    assert len({*same, *others}) == 6


def test_the_keys_of_stored_answers_stay(tmp_path: Path) -> None:
    spec = written(
        tmp_path, "pass", command=["python", "agent.py"], files=["agent.py"], version="1"
    )
    (video,) = videos(1, 1)
    lines = [line(0.5, 2.0, "Hello.")]
    question, prompt = video.questions[0]
    clip = replace(question, footage=Footage(clip_start_seconds=1.0))
    other = replace(question, question="Another?")
    plan = RequestPlan(evaluation="any")
    keys = [
        request.fingerprint
        for item, own in ((question, []), (question, lines), (clip, []), (other, []))
        for request in planned_requests(
            replace(video, questions=[(item, prompt)], lines=own), spec.identity, plan
        )
    ]
    assert keys == [
        "dd745e1c2f08ab0d81d771d7",
        "5552c0777f9efaf955ffe7fc",
        "3c2cf8ce2e4021593e6224f4",
        "94ebcf50d5d677647608cae3",
    ]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"files": ["other.py"]}, "model agent: `files`: .*other.py cannot be read"),
        ({"files": ["."]}, "cannot be read .*directory.*; name files"),
        ({"base_url": "http://x/v1"}, "`command` starts a program, `base_url` is for endpoints"),
        ({"serve": {}}, "`command` starts a program, `serve` is for endpoints; remove one"),
        ({"command": []}, "`command`"),
        ({"file": ["agent.py"]}, "unknown key `file`, did you mean `files`"),
    ],
)
def test_a_wrong_entry_is_an_error(tmp_path: Path, entry: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        written(tmp_path, TEN_LINES, **entry)


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no program agent.py; install it, or write ./agent.py"):
        ask(written(tmp_path, TEN_LINES, command=["agent.py"]), videos(1))


def test_a_key_that_is_not_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="model agent: AGENT_KEY is not set"):
        ask(written(tmp_path, TEN_LINES, environment=["AGENT_KEY"]), videos(1))


def test_a_program_that_was_changed_after_the_plan_is_not_asked(tmp_path: Path) -> None:
    spec = written(tmp_path, TEN_LINES, files=["agent.py"])
    (tmp_path / "agent.py").write_text(f"{TEN_LINES}\n")
    with pytest.raises(VideoMMEError, match="one of its `files` has changed since this run began"):
        ask(spec, videos(1))
