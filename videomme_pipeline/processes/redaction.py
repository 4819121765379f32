"""Removal of a key from text that a server sent, since some servers repeat it in errors."""

import base64
import re
from collections.abc import Iterator
from functools import cached_property

REMOVED = b"[key removed]"
MIN_KEY_CHARACTERS = 8
"""A shorter key may be an ordinary word, such as `none`, and is not removed."""

_ESCAPE = re.compile(rb'%[0-9A-Fa-f]{2}|\\[/"\\]|\\u00')


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
        # Only these digits depend on the key alone if `before` other bytes precede it.
        digits = slice((8 * before + 5) // 6, 8 * (before + len(key)) // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + key)[digits]


def _maybe_escaped(byte: int) -> bytes:
    """A pattern of one byte, escaped or not."""
    char = bytes([byte])
    hexadecimal = b"%02x" % byte
    backslash = b"" if char.isalnum() else rb"\\?"
    return b"(?:%b%b|(?i:\\\\u00%b|%%%b))" % (backslash, re.escape(char), hexadecimal, hexadecimal)
