"""Secrets: keys stay out of child processes, and of errors of servers that repeat a key."""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

_SECRET_NAME = re.compile(r"SECRET|PASSWORD|PASSWD|CREDENTIAL|(KEY|TOKEN|URL)S?$")
_SECRET_WORDS = frozenset({"PAT", "PASS", "PWD", "AUTH", "DSN", "WEBHOOK", "COOKIE"})
_STORAGE_NAME = re.compile(r"(AWS|AZURE_STORAGE|GOOGLE_APPLICATION|FSSPEC)_")
_URL_WITH_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
_key_variables: set[str] = set()

REMOVED = b"[key removed]"
MIN_KEY_CHARACTERS = 8
"""A shorter key may be an ordinary word, such as `none`, and is not removed."""


def register_key_variables(names: Iterable[str]) -> None:
    """Remove these environment variables from every later `child_environment`."""
    _key_variables.update(name.upper() for name in names)


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of `environment` that a child process may see: all but those with secrets.

    A variable has a secret if it was registered, if its name says so (a word such as PAT counts
    only beside others: `GITHUB_PAT`, not `PWD`), or if its value is a URL with a password.
    Credentials of object stores are kept, because children store frames, and so is
    `SSH_AUTH_SOCK`, the path of a socket. The processes of Dagster, which ask models, get all.
    """
    return {
        name: value for name, value in environment.items() if not _has_secret(name.upper(), value)
    }


def _has_secret(name: str, value: str) -> bool:
    if _STORAGE_NAME.match(name):
        return False
    words = name.split("_")
    has_secret_word = words[1:] and words[-1] != "SOCK" and not _SECRET_WORDS.isdisjoint(words)
    is_secret = name in _key_variables or _SECRET_NAME.search(name) or has_secret_word
    return bool(is_secret or has_password(value))


def has_password(text: str) -> bool:
    """True if a text contains a URL with a password."""
    return bool(_URL_WITH_PASSWORD.search(text))


class Redaction:
    """Removes a key from text in any case: as it is, in JSON, in a URL, and inside of base64."""

    def __init__(self, key: str | None) -> None:
        is_removed = key is not None and len(key) >= MIN_KEY_CHARACTERS
        self._spellings = {s.lower() for s in _spellings(key)} if key and is_removed else set()
        self._pattern = re.compile(b"|".join(map(re.escape, self._spellings)), re.IGNORECASE)

    def redact_bytes(self, content: bytes) -> bytes:
        text = content.lower()
        if any(spelling in text for spelling in self._spellings):
            return self._pattern.sub(REMOVED, content)
        return content

    def redact(self, text: str) -> str:
        return self.redact_bytes(text.encode(errors="backslashreplace")).decode()


def _spellings(key: str) -> Iterator[bytes]:
    in_json = json.dumps(key)[1:-1]
    for spelling in (key, in_json, in_json.replace("/", "\\/"), quote(key), quote(key, safe="")):
        yield spelling.encode()
    content = key.encode()
    for before in range(3):
        # The digits in this slice depend only on the key, if `before` other bytes precede the key.
        digits = slice((8 * before + 5) // 6, 8 * (before + len(content)) // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + content)[digits]
