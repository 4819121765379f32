"""Keys stay out of child processes, and out of text in all their usual spellings."""

import base64
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videomme_pipeline.processes.secrets import Redaction, child_environment, register_key_variables

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
    assert redact(f"<{key.swapcase()}>") == f"<{REMOVED}>"
    escaped = json.dumps({"error": key}).replace("/", "\\/")
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "sk-1"),
        ("HF_TOKEN", "hf_1"),
        ("my_key", "1"),
        ("SMTP_PASSWORD", "1"),
        ("CLIENT_SECRET_OF_MINE", "1"),
        ("VIDEOMME_ALERT_URLS", "slack://a/b/c"),
        ("VIDEOMME_POSTGRES_URL", "postgresql://me:pass@db/dagster"),
        ("HTTPS_PROXY", "http://me:pass@proxy:8080"),
        ("GITHUB_PAT", "ghp_1"),
        ("MYSQL_PWD", "1"),
        ("SMTP_PASS", "1"),
        ("NTFY_AUTH", "1"),
        ("AUTH_HEADER", "1"),
        ("SENTRY_DSN_OF_MINE", "1"),
        ("SLACK_WEBHOOK", "1"),
        ("SESSION_COOKIE", "1"),
        ("REGISTERED", "1"),
        ("registered_in_lower_case", "1"),
    ],
)
def test_a_variable_with_a_secret_is_removed(name: str, value: str) -> None:
    register_key_variables(["REGISTERED", "registered_in_lower_case"])
    assert child_environment({name: value}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin:/bin"),
        ("PWD", "/work"),
        ("OLDPWD", "/work"),
        ("SSH_AUTH_SOCK", "/tmp/agent"),
        ("COMPATIBLE_PATH", "1"),
        ("HTTPS_PROXY", "http://proxy:8080"),
        ("VIDEOMME_DATA", "s3://bucket/folder"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("KEYBOARD", "us"),
        ("AWS_SECRET_ACCESS_KEY", "needed to store frames"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
    ],
)
def test_every_other_variable_is_kept(name: str, value: str) -> None:
    assert child_environment({name: value}) == {name: value}
