"""Removal of a key from text, in all its usual spellings."""

import base64
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videomme_pipeline.processes.redaction import Redaction

REMOVED = "[key removed]"
KEYS = ("sk-proj-abcDEF123_456-7890", "a/b+c=d e&f%gh", 'quote"and\\backslash')


@pytest.mark.parametrize("key", KEYS)
def test_every_usual_spelling_is_removed(key: str) -> None:
    redact = Redaction(key).redact
    assert redact(f"Incorrect key: {key}!") == f"Incorrect key: {REMOVED}!"
    in_url = quote(key, safe="")
    lower_case = re.sub("%..", lambda escape: escape[0].lower(), in_url)
    for spelling in (json.dumps(key)[1:-1], quote(key), in_url, lower_case):
        assert redact(f"<{spelling}>") == f"<{REMOVED}>"
    escaped = json.dumps({"error": key}).replace("/", "\\/").replace("+", "\\u002B")
    assert json.loads(redact(escaped)) == {"error": REMOVED}


@given(st.sampled_from(KEYS), st.text(max_size=5), st.text(max_size=5))
def test_the_key_is_removed_from_base64_of_a_text_that_contains_it(
    key: str, before: str, after: str
) -> None:
    text = (before + key + after).encode()
    for encoded in (base64.b64encode(text), base64.urlsafe_b64encode(text)):
        assert REMOVED.encode() in Redaction(key).redact_bytes(b"<" + encoded + b">")


@pytest.mark.parametrize("key", [None, "", "none", "EMPTY", "B"])
def test_text_does_not_change_without_a_real_key(key: str | None) -> None:
    text = "B is right, and none of the others: EMPTY"
    assert Redaction(key).redact(text) == text


@given(st.text(), st.binary())
def test_text_without_the_key_does_not_change(text: str, content: bytes) -> None:
    assert Redaction(KEYS[0]).redact_bytes(content) == content
    assert Redaction(KEYS[0]).redact(text) == text
