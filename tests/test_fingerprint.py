"""Fingerprints: equal exactly when the content is equal, in every process."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from videomme_pipeline.fingerprint import Spec, canonical_json, fingerprint

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


class Shape(Spec):
    width: int = 2
    name: str = "box"


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=4))
def test_the_order_of_keys_does_not_matter(value: dict[str, object]) -> None:
    assert fingerprint(value) == fingerprint(dict(reversed(value.items())))


@given(json_values, json_values)
def test_different_json_has_different_fingerprints(value: object, other: object) -> None:
    same = canonical_json(value) == canonical_json(other)
    assert (fingerprint(value) == fingerprint(other)) == same


def test_the_boundaries_of_parts_are_in_the_fingerprint() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")


def test_defaults_of_a_spec_are_in_its_fingerprint() -> None:
    assert Shape().fingerprint == Shape(width=2).fingerprint != Shape(width=3).fingerprint


def test_an_unknown_key_in_a_spec_is_an_error() -> None:
    with pytest.raises(ValidationError, match="widht"):
        Shape.model_validate({"widht": 3})


def test_every_field_of_a_dataclass_is_in_its_fingerprint() -> None:
    assert fingerprint(Point(1, 2)) == fingerprint({"x": 1, "y": 2}) != fingerprint(Point(2, 1))


def test_a_value_without_a_canonical_form_is_rejected() -> None:
    with pytest.raises(TypeError, match="set"):
        fingerprint({1, 2})
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint(float("nan"))


def test_another_process_gets_the_same_fingerprint() -> None:
    code = "from videomme_pipeline.fingerprint import fingerprint; print(fingerprint('a', b=[1.5]))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == fingerprint("a", b=[1.5])


def test_the_canonical_json_of_a_value_never_changes() -> None:
    assert canonical_json({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'
