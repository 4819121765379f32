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

_ESCAPE = re.compile(rb'%[0-9A-Fa-f]{2}|\\[/"\\]|\\u00|\\x|&(?:#|amp;|lt;|gt;|quot;|apos;)')
"""A character that is written in another way in a URL, in JSON, in Python or in HTML."""
_BREAK = rb"(?:(?:\r|\n|\\r|\\n)[\r\n \t]*)*"
"""Line breaks and indentation in a code of several lines, as they are and as in JSON."""
_WHITESPACE = b" \t\r\n"


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
    """Removes one key in upper and lower case: as it is, in base64 and in hexadecimal digits.

    Characters may be escaped as in JSON, URLs, Python and HTML, and codes may have several lines.
    """

    def __init__(self, key: str | None) -> None:
        is_removed = key is not None and len(key) >= MIN_KEY_CHARACTERS
        self._key = key.encode() if key is not None and is_removed else b""
        # A set, since base64 and its variant for URLs are often the same.
        self._codes = set(_codes(self._key)) if self._key else set()
        self._signs = {code.lower() for code in self._codes}
        if self._key:
            self._signs.add(self._key.lower().translate(None, _WHITESPACE))

    def redact_bytes(self, content: bytes) -> bytes:
        if self._key and self._may_contain_key(content):  # rare, and the next line is slow
            return self._pattern.sub(REMOVED, content)
        return content

    def redact(self, text: str) -> str:
        return self.redact_bytes(text.encode(errors="backslashreplace")).decode()

    def _may_contain_key(self, content: bytes) -> bool:
        text = content.lower().translate(None, _WHITESPACE)
        text = text.replace(rb"\r", b"").replace(rb"\n", b"")
        return any(sign in text for sign in self._signs) or bool(_ESCAPE.search(content))

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        forms = [b"".join(map(_maybe_escaped, self._key))]
        forms += [_BREAK.join(map(_maybe_escaped, code)) for code in self._codes]
        return re.compile(b"|".join(forms), re.IGNORECASE)


def _codes(key: bytes) -> Iterator[bytes]:
    yield key.hex().encode()
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
    spellings = [
        backslash + re.escape(char),
        rb"\\u00" + hexadecimal,
        rb"\\x" + hexadecimal,
        b"%" + hexadecimal,
        b"&#0*%d;" % byte,
        b"&#x0*" + hexadecimal.lstrip(b"0") + b";",
        *_ENTITIES.get(char, ()),
    ]
    return b"(?:" + b"|".join(spellings) + b")"


_ENTITIES = {
    b"&": (b"&amp;",),
    b"<": (b"&lt;",),
    b">": (b"&gt;",),
    b'"': (b"&quot;",),
    b"'": (b"&apos;",),
}
"""Characters with a name in HTML."""
