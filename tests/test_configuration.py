"""Configuration errors name the file, the key, what was found and the nearest right key."""

from pathlib import Path

import pytest

from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec


class Inner(Spec):
    temperature: float = 0.0


class Outer(Spec):
    model: str
    generation: Inner = Inner()


def test_an_unknown_key_gets_the_nearest_valid_one() -> None:
    with pytest.raises(ConfigurationError, match=r"e\.yaml: unknown key `modle`.*`model`"):
        parse_spec({"modle": "x", "model": "y"}, Outer, "e.yaml")


def test_an_unknown_key_of_a_nested_spec_gets_a_key_of_that_spec() -> None:
    with pytest.raises(ConfigurationError, match=r"`generation\.temprature`.*`temperature`"):
        parse_spec({"model": "x", "generation": {"temprature": 1}}, Outer, "e.yaml")


def test_the_error_for_a_missing_key_names_the_key() -> None:
    with pytest.raises(ConfigurationError, match="missing key `model`"):
        parse_spec({}, Outer, "e.yaml")


def test_a_wrong_value_is_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"`generation\.temperature` is 'hot'"):
        parse_spec({"model": "x", "generation": {"temperature": "hot"}}, Outer, "e.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "not readable as YAML"),
        (b"- a\n- b\n", "found a list"),
        (b"\xff\xfe\x00", "not readable as YAML"),
    ],
)
def test_a_file_without_a_mapping_is_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        read_yaml(path)


def test_an_empty_file_is_an_empty_mapping_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").touch()
    assert read_yaml(tmp_path / "empty.yaml") == {}
    with pytest.raises(ConfigurationError, match="no such file"):
        read_yaml(tmp_path / "gone.yaml")


def test_a_word_unlike_all_known_ones_gets_the_whole_list() -> None:
    assert nearest("zzz", ["alpha", "beta"]) == "known: alpha, beta"


@pytest.mark.parametrize(
    "content",
    ["sampling: a\nmodel: m\nsampling: b\n", "x:\n- {sampling: a, sampling: b}\n"],
    ids=["at the top", "inside"],
)
def test_a_duplicate_key_is_rejected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"e\.yaml.*duplicate key `sampling`.*line"):
        read_yaml(path)


def test_a_merged_key_may_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("base: &base {a: 1, b: 1}\nother:\n  <<: *base\n  a: 2\n")
    assert read_yaml(path)["other"] == {"a": 2, "b": 1}
