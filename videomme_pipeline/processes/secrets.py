"""Secrets: keys stay out of child processes, and are removed from what servers send.

Some servers repeat a key in their errors.
"""

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

_SECRET_NAME = re.compile(r"SECRET|PASSWORD|PASSWD|CREDENTIAL|(KEY|TOKEN|URL)S?$")
_STORAGE_NAME = re.compile(r"(AWS|AZURE_STORAGE|GOOGLE_APPLICATION|FSSPEC)_")
_URL_WITH_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
_key_variables: set[str] = set()

REMOVED = b"[key removed]"
MIN_KEY_CHARACTERS = 8
"""A shorter key may be an ordinary word, such as `none`, and is not removed."""

_ESCAPE = re.compile(rb'%[0-9A-Fa-f]{2}|\\[/"\\]|\\u00')


# Variables of child processes.


def register_key_variables(names: Iterable[str]) -> None:
    """Remove these environment variables from every later `child_environment`."""
    _key_variables.update(name.upper() for name in names)


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of `environment` that a child process may see: all but those with secrets.

    A variable has a secret if it was registered, if its name contains SECRET, PASSWORD, PASSWD or
    CREDENTIAL or ends in KEY, TOKEN or URL, or if its value is a URL with a password. Credentials
    of object stores are kept, because children store frames.

    Every child gets this environment, except the processes of Dagster, since they ask models. A
    child that runs pip also gets the variables of pip and of proxies.
    """
    return {
        name: value for name, value in environment.items() if not _has_secret(name.upper(), value)
    }


def _has_secret(name: str, value: str) -> bool:
    if _STORAGE_NAME.match(name):
        return False
    is_secret = name in _key_variables or _SECRET_NAME.search(name)
    return bool(is_secret or has_password(value))


def has_password(text: str) -> bool:
    """True if a text contains a URL with a password."""
    return bool(_URL_WITH_PASSWORD.search(text))


# Text that a server sent.


class Redaction:
    """Removes one key: as it is, in base64, and with characters escaped as in JSON and URLs."""

    def __init__(self, key: str | None) -> None:
        is_removed = key is not None and len(key) >= MIN_KEY_CHARACTERS
        # A set, since base64 and its variant for URLs are often the same.
        self._forms = set(_forms(key.encode())) if key is not None and is_removed else set()

    def redact_bytes(self, content: bytes) -> bytes:
        """`content` without the key."""
        for form in self._forms:
            content = content.replace(form, REMOVED)
        if self._forms and _ESCAPE.search(content):  # rare, and the next line is slow
            content = self._escaped_forms.sub(REMOVED, content)
        return content

    @cached_property
    def _escaped_forms(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(b"".join(map(_maybe_escaped, form)) for form in self._forms))

    def redact(self, text: str) -> str:
        """`text` without the key."""
        return self.redact_bytes(text.encode(errors="backslashreplace")).decode()


def _forms(key: bytes) -> Iterator[bytes]:
    yield key
    for before in range(3):
        # The digits in this slice depend only on the key, if `before` other bytes precede the key.
        digits = slice((8 * before + 5) // 6, 8 * (before + len(key)) // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + key)[digits]


def _maybe_escaped(byte: int) -> bytes:
    """A pattern of one byte, escaped or not."""
    char = bytes([byte])
    hexadecimal = b"%02x" % byte
    backslash = b"" if char.isalnum() else rb"\\?"
    return b"(?:%b%b|(?i:\\\\u00%b|%%%b))" % (backslash, re.escape(char), hexadecimal, hexadecimal)
