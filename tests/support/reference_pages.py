"""The pages `docs/commands.md` and `docs/keys.md`, written from the code.

    python -m tests.support.reference_pages

writes both. A test compares them with the code.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.cli import get_docs_for_click
from typer.core import TyperGroup

from tests.support.paths import ROOT
from videomme_pipeline.cli.commands import app
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.project.schemas import schemas

DOCS = ROOT / "docs"

FILES: Mapping[str, str] = {
    "evaluation": "`assets/evaluations/NAME.yaml`: one evaluation.",
    "benchmarks": "`assets/benchmarks.yaml`: one entry per benchmark that is used.",
    "benchmark": "`assets/benchmarks/NAME.yaml`: an [own benchmark](benchmarks.md).",
    "models": "`assets/models.yaml`: one entry per [model](models.md).",
    "program": "`assets/models.yaml`: one entry per [program](programs.md).",
    "nightly": "`assets/nightly.yaml`: [nightly runs](nightly.md).",
    "checkpoints": "`assets/checkpoints.yaml`: one entry per [training run](checkpoints.md).",
    "storage": "`assets/storage.yaml`: [disk space](disk.md).",
    "cluster": "`assets/cluster.yaml`: [workers for videos](scaling.md#a-cluster-for-videos).",
    "runs": "`assets/runs.yaml`: [several projects](scaling.md#several-projects-in-one-ui).",
}
"""The configuration files of the page. `samplings.yaml` has lists of samplings by benchmark."""

ENTRIES: Mapping[str, str] = {"models": "EndpointSpec", "program": "ProgramSpec"}
"""The kinds of entries in models.yaml on the page."""

KEYS_INTRODUCTION = """\
# YAML keys

Written from the code. [Editors](cli.md#completion) complete the same keys. A key
`limits.concurrency` is the key `concurrency` inside of `limits`, and `NAME` is a name of your
choice. `samplings.yaml` has a list of [samplings](samplings.md) for each benchmark.
"""

MEANINGS: Mapping[str, str] = {
    "alarm": "The rules for alarms.",
    "answer": "The column with the correct answer.",
    "answer_is": "How the column names the correct answer.",
    "benchmark": "A name in benchmarks.yaml.",
    "cache_write": "Dollars per million tokens that are written into the cache.",
    "cached_input": "Dollars per million prompt tokens that the endpoint had cached.",
    "clip_end": "The column with the end of the clip in seconds.",
    "columns": "The columns of the annotations.",
    "cron": "When nightly runs start.",
    "engine": "The engine that is started.",
    "facet": "The facet that decides.",
    "facets": "Columns that group the questions, by name.",
    "file": "The file with the annotations.",
    "generation": "The settings of the generation.",
    "gpus_per_replica": "GPUs of each server; 0 for an engine on the CPU.",
    "image_detail": "Resolution at which OpenAI models see a picture; other endpoints ignore it.",
    "input": "Dollars per million prompt tokens.",
    "kind": "The kind of model, server or worker.",
    "limits": "Limits of the speed and the cost of requests. No answer depends on them.",
    "max_attempts": "Attempts of one question in a run, without lost connections.",
    "max_body_bytes": "The largest body of a request. Default: the profile's.",
    "max_failed_rate": "Largest share of questions without an answer.",
    "max_images": "The most pictures in a request. Default: the profile's.",
    "max_tokens": "The most tokens of an answer, reasoning included.",
    "max_wait_minutes": "A run that has had no worker for this time ends.",
    "name": "The name of the license.",
    "options_are": "How the column contains the options.",
    "output": "Dollars per million tokens of the answer.",
    "question": "The column with the question.",
    "reader": "The rule that [reads letters](readers.md).",
    "reasoning_effort": "The reasoning effort that the endpoint is asked for.",
    "replicas": "Equal servers that share the questions.",
    "repository": "The dataset repository on the Hugging Face Hub.",
    "request_timeout_seconds": "An attempt fails if it has no answer after this time.",
    "requests_per_minute": "The most requests in a minute.",
    "seed": "The seed of the random choice.",
    "size": "The size of the complete benchmark, which the citation check `release` compares.",
    "source": "Fetch the files from the hub, or read them in `folder`.",
    "subtitle_file": "The column with the path of the subtitle file.",
    "system": "The system message.",
    "temperature": "The temperature of the sampling of tokens; null sends none.",
    "text": "The text of the prompt.",
    "timezone": "The time zone of `cron` and of dates.",
    "title": "The title that is shown.",
    "top_p": "The nucleus of the sampling of tokens.",
    "url": "The column with the address of the video.",
    "videos": "The number of videos.",
    "videos_with_subtitles": "The number of videos that have subtitles.",
}
"""Meanings of keys whose fields have no docstring."""


def commands_page() -> str:
    """All commands with their options, as Typer describes them."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    context = typer.Context(root)
    lines = ["# Commands\n", "Written from the code, as `videomme COMMAND --help` shows it.\n"]
    for name, command in root.commands.items():
        if not command.hidden:
            text = get_docs_for_click(
                obj=command, ctx=context, indent=1, name=name, call_prefix="videomme"
            )
            lines.append(text.strip() + "\n")
    return "\n".join(lines)


def keys_page() -> str:
    """The keys of each configuration file, with their meanings and defaults."""
    files = schemas(read_configuration(ROOT / "assets" / "offline"))
    files["program"] = files["models"]
    lines = [KEYS_INTRODUCTION]
    for name, introduction in FILES.items():
        schema = files[name]
        if name in ENTRIES:
            schema = schema["$defs"][ENTRIES[name]]
        lines += [f"## {name}\n", f"{introduction}\n", "| key | meaning | default |\n|---|---|---|"]
        definitions = files[name].get("$defs", {})
        for key, field in _keys(schema, definitions):
            meaning = field.get("description") or MEANINGS[key.split(".")[-1]]
            if choices := _choices(field, definitions):
                meaning += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
            default = field.get("default")
            shown = "" if default in (None, [], {}) or isinstance(default, dict) else f"`{default}`"
            meaning = re.sub(r"\s+", " ", meaning).replace("|", "\\|")
            lines.append(f"| `{key.removeprefix('NAME.')}` | {meaning} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def _keys(schema: Any, definitions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each key of a schema, as a path, with the schema of its value."""
    for key, field in schema.get("properties", {}).items():
        yield key, field
        if key != "sampling":
            for inner, value in _inner_keys(field, definitions):
                yield f"{key}.{inner}", value
    if "properties" not in schema:
        yield from _inner_keys(schema, definitions)


def _choices(field: Any, definitions: Mapping[str, Any]) -> list[str]:
    """The values of an enumeration."""
    for part in (field, *field.get("anyOf", ())):
        name = part.get("$ref", "").rsplit("/", 1)[-1]
        if choices := part.get("enum") or definitions.get(name, {}).get("enum"):
            return list(choices)
    return []


def _inner_keys(field: Any, definitions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys of the mappings that a value may be or contain."""
    for part in (field, *field.get("anyOf", ()), *field.get("oneOf", ())):
        if "$ref" in part:
            yield from _keys(definitions[part["$ref"].rsplit("/", 1)[-1]], definitions)
        elif isinstance(part.get("items"), dict):
            yield from _inner_keys(part["items"], definitions)
        elif isinstance(part.get("additionalProperties"), dict):
            for inner, value in _inner_keys(part["additionalProperties"], definitions):
                yield f"NAME.{inner}", value


GENERATED = {"commands.md": commands_page, "keys.md": keys_page}


if __name__ == "__main__":
    for page, text in GENERATED.items():
        (DOCS / page).write_text(text(), encoding="utf-8")
    sys.stdout.write(f"Wrote {' and '.join(GENERATED)}\n")
