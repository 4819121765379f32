"""Evaluation files: valid keys, messages about mistakes, and fingerprints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from videomme_pipeline.benchmarks.selection import Selection
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.evaluation.folder import Configuration, read_configuration
from videomme_pipeline.project.nightly.tracked import refused_files

GOOD: Mapping[str, Any] = {
    "benchmark": "smoke",
    "model": "served",
    "sampling": "uniform_n-16",
    "subtitles": "window-500",
    "generation": {"temperature": 0.5},
}


def write(folder: Path, name: str, value: Mapping[str, Any] | str) -> Path:
    path = folder / "evaluations" / f"{name}.yaml"
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(dict(value)))
    return path


def read(folder: Path, name: str, value: Mapping[str, Any] | str) -> Evaluation:
    write(folder, name, value)
    return read_configuration(folder).evaluation(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samplng": "uniform_n-4"}, "unknown key `samplng`, did you mean `sampling`?"),
        ({"generation": {"max_token": 8}}, "`generation.max_token`, did you mean `max_tokens`?"),
        ({"model": "qwen2.5-vl-7bb"}, "did you mean `qwen2.5-vl-7b`?"),
        ({"model": "gpt"}, "model gpt: not in models.yaml and not built in"),
        ({"benchmark": "smokey"}, "benchmark `smokey` is not set up in benchmarks.yaml, did you"),
        ({"sampling": "unifrom_n-16"}, "did you mean 'uniform_n-16'?"),
        ({"sampling": "uniform_n-0"}, "'uniform_n-0': frames is '0', expected more than 0."),
        ({"sampling": 5}, "`sampling` is 5: expected text or expected `key: value` lines"),
        (
            {"sampling": {"strategy": "unifrm_n", "frames": 4}},
            "no strategy `unifrm_n`, did you mean `uniform_n`?",
        ),
        (
            {"sampling": {"strategy": "uniform_n", "frames": 4, "placment": "interior"}},
            "unknown key `placment`, did you mean `placement`?",
        ),
        ({"sampling": {"frames": 4}}, "no strategy `None`"),
        ({"subtitles": "windw-500"}, "subtitle alignment 'windw-500': no such alignment"),
        ({"prompt": "contrct_v1"}, "no such template; choose official_v1, official_v1_zh"),
        (
            {"pre_prompt": "Q: "},
            "`pre_prompt` of lmms-eval changes nothing in prompt `contract_v1`",
        ),
        (
            {"prompt": "lmms_eval", "post_prompt": "Answer:", "subtitles": "full"},
            "with subtitles and for questions in groups, lmms-eval does not use `post_prompt`",
        ),
        ({"prompt": "own.txt"}, "prompt template 'own.txt': no such template"),
        ({"reader": "carful"}, "`reader` is 'carful': did you mean `careful`?"),
        ({"repeats": 0}, "`repeats` is 0: expected at least 1"),
        ({"repeats": "x"}, "`repeats` is 'x': expected a whole number"),
        ({"model": None}, "`model` is None"),
        ({"duration": "hour"}, "`duration` is 'hour': choose short, medium, long"),
        (
            {"benchmark": "smoke_v2", "duration": "long"},
            "`duration` needs the facet `duration`, which smoke_v2 does not have",
        ),
        (
            {"subset": {"videos": 9, "stratify": ["domian"]}},
            "`subset` needs the facet `domian`, which smoke does not have: did you mean `domain`?",
        ),
    ],
)
def test_a_mistake_is_one_paragraph_with_the_name_of_the_file(
    folder: Path, change: Mapping[str, Any], message: str
) -> None:
    path = write(folder, "mine", dict(GOOD) | dict(change))
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(folder).evaluation("mine")
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark: [smoke", "not readable as YAML: while parsing a flow sequence"),
        ("- benchmark: smoke\n", "expected `key: value` lines, found a list"),
        ("", "missing key `benchmark`; missing key `model`"),
    ],
)
def test_a_file_without_the_keys_is_rejected(folder: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(folder, "mine", text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_file_is_skipped_and_the_others_load(folder: Path) -> None:
    write(folder, "good", GOOD)
    write(folder, "bad", dict(GOOD) | {"model": "nobody"})
    configuration = read_configuration(folder)
    assert list(configuration.evaluations) == ["good"]
    assert list(configuration.problems) == ["bad"]
    assert configuration.evaluation("good").model.identity["model"] == "Served/Model-7B"


def test_a_wrong_model_affects_only_its_evaluations(folder: Path) -> None:
    write(folder, "good", GOOD)
    write(folder, "bad", dict(GOOD) | {"model": "broken"})
    with (folder / "models.yaml").open("a", encoding="utf-8") as models:
        models.write("broken: {profil: vllm}\n")
    configuration = read_configuration(folder)
    assert list(configuration.evaluations) == ["good"]
    assert "model broken: unknown key `profil`" in str(configuration.problems["bad"])
    assert len(refused_files(configuration)) == 2


@pytest.mark.parametrize("name", ["my evaluation", "-leading", ".hidden-not", "a|b", "größe"])
def test_a_name_that_is_not_a_slug_is_rejected(folder: Path, name: str) -> None:
    """The name becomes a partition key, a column value and a folder."""
    write(folder, name, GOOD)
    configuration = read_configuration(folder)
    assert configuration.evaluations == {}
    assert list(configuration.problems) == [name]
    assert "the file name is the evaluation's name" in str(configuration.problems[name])


def test_an_unknown_name_gets_the_nearest_one(folder: Path) -> None:
    write(folder, "mine-16", GOOD)
    with pytest.raises(ConfigurationError, match=r"no evaluation `mine-1`.*`mine-16`.*init mine-1"):
        read_configuration(folder).evaluation("mine-1")


def test_an_unknown_name_among_none_says_that_there_are_none(folder: Path) -> None:
    (folder / "benchmarks.yaml").write_text("{}")
    write(folder, "mine-16", GOOD)
    problem = read_configuration(folder).problems["mine-16"]
    assert str(problem).endswith("is not set up in benchmarks.yaml, known: none")


def test_a_sampling_name_and_its_mapping_are_equal(folder: Path) -> None:
    words = read(folder, "words", dict(GOOD) | {"sampling": "uniform_n-16-interior.jpeg-80"})
    parts = {
        "strategy": "uniform_n",
        "frames": 16,
        "placement": "interior",
        "picture": {"jpeg_quality": 80},
    }
    other = read(folder, "parts", dict(GOOD) | {"sampling": parts})
    assert other.sampling == words.sampling
    assert other.sampling_name == "uniform_n-16-interior.jpeg-80"


def test_a_selection_of_videos_is_in_the_fingerprint_and_the_settings(
    folder: Path,
) -> None:
    whole = read(folder, "whole", GOOD)
    assert whole.specification.keys().isdisjoint({"duration", "subset"})
    subset = {"videos": 9, "stratify": ["skill"], "seed": 7}
    long = read(folder, "long", dict(GOOD) | {"duration": "long"})
    part = read(folder, "part", dict(GOOD) | {"subset": subset})
    assert long.specification == whole.specification | {"duration": "long"}
    assert part.specification == whole.specification | {"subset": subset}
    assert len({selected.fingerprint for selected in (whole, long, part)}) == 3
    assert Selection.stored_in(part.specification) == part.selection
    with_subtitles = read(folder, "w", dict(GOOD) | {"duration": "long", "subtitles": "none"})
    assert with_subtitles.pairing == long.pairing


def test_an_evaluation_has_a_track_and_a_sampling_name(folder: Path) -> None:
    with_subtitles = read(folder, "with", GOOD)
    assert with_subtitles.track == "with_subtitles"
    assert with_subtitles.track_name == "uniform_n-16.window-500"
    blind = read(folder, "blind", {"benchmark": "smoke", "model": "random"})
    assert (blind.track, blind.track_name) == ("without_subtitles", None)
    assert (blind.sampling, blind.sampling_name) == (None, "none")
    models = folder / "models.yaml"
    models.write_text(f"{models.read_text()}hears: {{profile: vllm, audio: true}}\n")
    heard = read(folder, "heard", dict(GOOD) | {"model": "hears"})
    assert heard.track == "audio_with_subtitles"


def test_samplings_come_from_evaluations_and_from_samplings_yaml(folder: Path) -> None:
    write(folder, "mine", GOOD)
    (folder / "samplings.yaml").write_text("smoke: [keyframe-8, {strategy: fps_based, fps: 1}]\n")
    configuration = read_configuration(folder)
    assert list(configuration.samplings_of("smoke")) == [
        "fps_based-1",
        "keyframe-8",
        "uniform_n-16",
    ]
    assert configuration.samplings_of("smoke_v2") == {}


def test_a_fingerprint_does_not_depend_on_names(folder: Path) -> None:
    """Nor does it depend on the order of keys, or on settings that cannot change an answer."""
    first = read(folder, "first", GOOD)
    second = read(folder, "second", dict(reversed(list(GOOD.items()))))
    assert first.fingerprint == second.fingerprint
    models = folder / "models.yaml"
    moved = models.read_text().replace("127.0.0.1", "localhost")
    models.write_text(
        moved.replace(
            "model: Served/Model-7B", "model: Served/Model-7B\n  limits: {concurrency: 2}"
        )
    )
    assert read(folder, "first", GOOD).fingerprint == first.fingerprint


def test_fingerprints_of_stored_results_stay_the_same(folder: Path) -> None:
    """Stored scores and nightly runs contain these values; other values would make them stale."""
    every_key = {"judge": {"model": "served"}, "repeats": 3}
    assert read(folder, "full", dict(GOOD) | every_key).fingerprint == "d50f9677d16a3db604950785"
    blind = read(folder, "blind", {"benchmark": "smoke", "model": "random"})
    assert blind.fingerprint == "d512a9068209e592fb0b6f32"


CHANGES: list[Mapping[str, Any]] = [
    {"benchmark": "smoke_v2"},
    {"model": "qwen2.5-vl-7b"},
    {"model": "embedded"},
    {"sampling": "uniform_n-8"},
    {"sampling": "uniform_n-16-interior"},
    {"sampling": "uniform_n-16.jpeg-60"},
    {"sampling": "fps_based-1"},
    {"sampling": "none"},
    {"subtitles": "none"},
    {"subtitles": "window-400"},
    {"subtitles": "full"},
    {"prompt": "official_v1"},
    {"frame_times": "<{seconds:.1f} seconds>"},
    {"reader": "official_v1"},
    {"generation": {"temperature": 0.0}},
    {"generation": {"temperature": 0.5, "max_tokens": 17}},
    {"generation": {"temperature": 0.5, "seed": 3}},
    {"repeats": 2},
    {"benchmark": "smoke_v2", "conversation": "group"},
]


def test_every_changed_setting_changes_the_fingerprint(folder: Path) -> None:
    prints = [read(folder, "mine", dict(GOOD) | dict(change)).fingerprint for change in CHANGES]
    prints.append(read(folder, "mine", GOOD).fingerprint)
    assert len(set(prints)) == len(CHANGES) + 1


def test_every_changed_setting_is_in_the_specification(folder: Path) -> None:
    changed = [read(folder, "mine", dict(GOOD) | dict(change)).specification for change in CHANGES]
    original = read(folder, "mine", GOOD).specification
    assert original not in changed
    assert len({repr(specification) for specification in changed}) == len(CHANGES)


def test_a_custom_template_is_a_file_beside_the_evaluation(folder: Path) -> None:
    template = folder / "evaluations" / "mine.txt"
    template.write_text("{{ question }}\n{{ options }}\nLetter:")
    value = dict(GOOD) | {"prompt": "mine.txt"}
    first = read(folder, "own", value)
    assert "Letter:" in first.template.model_dump_json()
    assert first.fingerprint != read(folder, "contract", GOOD).fingerprint
    template.write_text("{{ question }}\n{{ options }}\nThe letter:")
    assert read(folder, "own", value).fingerprint != first.fingerprint


def repository_configuration() -> Configuration:
    return read_configuration(ROOT / "assets")


def test_every_evaluation_of_this_repository_loads() -> None:
    configuration = repository_configuration()
    assert configuration.problems == {}
    files = {path.stem for path in (ROOT / "assets" / "evaluations").glob("*.yaml")}
    assert set(configuration.evaluations) == files
    assert {e.benchmark for e in configuration.evaluations.values()} >= {"smoke", "smoke_v2"}


def test_no_two_evaluations_of_this_repository_are_the_same() -> None:
    evaluations = repository_configuration().evaluations.values()
    assert len({e.fingerprint for e in evaluations}) == len(evaluations)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("errors.txt", "002-1\n\n003-2\r\n002-1\n"),
        ("errors.csv", "video_id,question_id\n002,002-1\n003,003-2\n"),
        ("page.csv", '\ufeffQuestion,Answer\n002-1,A\n003-2,"B, C"\n'),
        ("ids.json", '["002-1", "003-2"]'),
        ("compare.json#lost", '{"won": ["001-1"], "lost": ["002-1", "003-2"]}'),
        ("audit.json#incorrect", '{"findings": [], "incorrect": ["002-1", "003-2"]}'),
    ],
)
def test_a_file_lists_the_questions(folder: Path, name: str, text: str) -> None:
    (folder / "evaluations" / name.partition("#")[0]).write_text(text)
    named = read(folder, "mine", {**GOOD, "questions": name})
    listed = read(folder, "other", {**GOOD, "questions": ["002-1", "003-2"]})
    assert named.selection.questions == ("002-1", "003-2")
    assert named.fingerprint == listed.fingerprint
    assert named.fingerprint != read(folder, "whole", GOOD).fingerprint
    assert named.track == "chosen_with_subtitles"


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ("missing.txt", "missing.txt: not a list of question ids .*No such file"),
        ("empty.txt", "empty.txt: not a list of question ids"),
        ("compare.json", "compare.json: not a list of question ids"),
        ("compare.json#lots", "compare.json: not a list of question ids .*'lots'"),
        ([], "`questions`"),
    ],
)
def test_a_wrong_list_of_questions_is_an_error(folder: Path, questions: object, words: str) -> None:
    (folder / "evaluations" / "empty.txt").write_text("\n")
    (folder / "evaluations" / "compare.json").write_text('{"lost": ["002-1"]}')
    with pytest.raises(ConfigurationError, match=words):
        read(folder, "mine", {**GOOD, "questions": questions})


GROUPED = {"benchmark": "smoke_v2", "model": "served", "sampling": "uniform_n-4"}


def test_a_conversation_is_a_setting_and_a_track_of_its_own(folder: Path) -> None:
    single = read(folder, "single", GROUPED)
    talk = read(folder, "talk", {**GROUPED, "conversation": "group"})
    assert read(folder, "off", {**GROUPED, "conversation": None}).fingerprint == single.fingerprint
    assert talk.fingerprint != single.fingerprint
    assert talk.pairing != single.pairing
    assert {**single.specification, "conversation": "group"} == talk.specification
    assert (single.track, talk.track) == ("without_subtitles", "conversation_without_subtitles")
    listed = {**GROUPED, "conversation": "group", "subtitles": "full", "questions": ["001-1"]}
    assert read(folder, "listed", listed).track == "chosen_conversation_with_subtitles"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"benchmark": "smoke"}, "is for groups of questions, but smoke has none; remove it"),
        ({"model": "constant-A"}, "needs an endpoint or a program, but `constant-A` gets one"),
        ({"model": "embedded"}, "needs an endpoint or a program, but `embedded` gets one"),
        ({"sampling": "from_file-chosen"}, "sends the frames once, but `from_file-chosen` names"),
        ({"conversation": "video"}, "`conversation` is 'video': choose group"),
        (
            {"judge": {"model": "served", "conversation": "group"}},
            "unknown key `judge.conversation`",
        ),
    ],
)
def test_a_conversation_that_is_impossible_is_an_error(
    folder: Path, change: Mapping[str, Any], words: str
) -> None:
    (folder / "samplings").mkdir()
    (folder / "samplings" / "chosen.csv").write_text('question_id,frames\n001-1,"[1, 2]"\n')
    with pytest.raises(ConfigurationError, match=words):
        read(folder, "mine", {**GROUPED, "conversation": "group", **change})
