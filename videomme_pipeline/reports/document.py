"""One HTML document from the template, the style, the script and the packed data.

The document needs no network: the Content-Security-Policy allows only the document's style and
script, by hash, and the images and videos of its server.
"""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

SIZE_LIMIT_BYTES = 2_500_000
"""Size limit of a page in one file, so that it can be sent by mail and opens quickly."""

SHORT_TEXT = 400
"""Characters kept of a text in the short form of a page."""

Json = dict[str, Any]

_TEMPLATES = files("videomme_pipeline.reports").joinpath("templates")
# The scripts are ES modules for the linter and one inline script in the page.
_IMPORT = re.compile(r'^import [^;]*"\./([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=async |const |function |let )", re.MULTILINE)


def render(
    summary: Mapping[str, Any], details: Mapping[str, Any], *, is_served: bool = False
) -> str:
    """HTML document that shows `summary` (numbers) and `details` (texts)."""
    benchmarks = summary["benchmarks"]
    style, script = _TEMPLATES.joinpath("style.css").read_text(encoding="utf-8"), _script()
    template = _environment().get_template("page.html")
    return template.render(
        title=benchmarks[0]["title"] if benchmarks else "Results",
        summary=benchmarks[0]["summary"] if benchmarks else "No evaluation yet",
        share=summary["share"],
        is_short=summary["is_short"],
        benchmarks=benchmarks,
        policy=content_policy(style, script, is_served=is_served),
        style=Markup(style),
        script=Markup(script),
        summary_data=pack(summary),
        details_data=pack(details),
    )


def pack(value: Mapping[str, Any]) -> str:
    """`value` as gzip in base64, which cannot end a script element. Deterministic."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def rounded(value: float | None, scale: float = 1, digits: int = 7) -> float | None:
    """`value / scale`, or None, with more digits than are shown: no value is rounded twice."""
    return None if value is None else round(float(value) / scale, digits)


def shorten(text: str, span: tuple[int, int] | None = None) -> str | dict[str, Any]:
    """`text`, or its beginning, the part around `span` and its end, with the lengths of the gaps.

    A shortened text is `{"parts": [{"start", "text"} | {"cut"}]}`. Starts and cuts are in UTF-16
    code units, as in the browser.
    """
    if len(text) <= SHORT_TEXT:
        return text
    kept = [(0, SHORT_TEXT // 2), (len(text) - SHORT_TEXT // 4, len(text))]
    if span is not None:
        margin = SHORT_TEXT // 8
        kept.append((max(0, span[0] - margin), min(len(text), span[1] + margin)))
    parts: list[dict[str, Any]] = [{"start": 0, "text": ""}]
    position = 0
    for start, end in sorted(kept):
        if start > position:
            parts.append({"cut": utf16_length(text[position:start])})
            parts.append({"start": utf16_length(text[:start]), "text": ""})
            position = start
        parts[-1]["text"] += text[position:end]
        position = max(position, end)
    return {"parts": parts}


def utf16_span(text: str, span: tuple[int, int]) -> list[int]:
    """`span` of characters as a span of UTF-16 code units, as in the browser."""
    return [utf16_length(text[: span[0]]), utf16_length(text[: span[1]])]


def utf16_length(text: str) -> int:
    """Length of `text` in UTF-16 code units."""
    return len(text) + sum(character > "\uffff" for character in text)


def content_policy(style: str, script: str, *, is_served: bool = False) -> str:
    """Content-Security-Policy that allows this style and script, and files of the page's server."""
    files_beside = "'self'" if is_served else "'none'"
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        f"img-src {files_beside}; media-src {files_beside}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _script() -> str:
    """All scripts as one, each after the scripts that it imports."""
    folder = _TEMPLATES.joinpath("script")
    scripts = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    imports = {name: _IMPORT.findall(scripts[name]) for name in sorted(scripts)}
    parts = [
        _EXPORT.sub("", _IMPORT.sub("", scripts[name]))
        for name in TopologicalSorter(imports).static_order()
    ]
    return '"use strict";\n{\n' + "\n".join(parts) + "}\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("videomme_pipeline.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["percent"] = lambda share: "–" if share is None else f"{100 * share:.1f}"
    return environment
