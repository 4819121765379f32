"""The sandbox of prompt templates: the allowed operations, and the limits of time and size.

A template can access only the values in `VARIABLES`: no files, no attributes that start with "_",
and nothing callable. A template of the user is only parsed in this process. It is compiled and
filled in a child process, because a few lines of it can request more time or memory than any
machine has, and Jinja already computes constant expressions when it compiles them.
"""

import io
import signal
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from videomme_pipeline.errors import PromptError
from videomme_pipeline.processes.children import Child, ChildFailedError, TaskLimits

MAX_PROMPT_CHARACTERS = 4_000_000
"""An hour of subtitles has about 60,000 characters."""

MAX_SECONDS = 5
MAX_MEMORY_BYTES = 2 * 1024**3
"""Limits of one text, in seconds of CPU: the child may wait long for a core of a busy machine.

A large prompt takes milliseconds. The memory includes the libraries."""
_LIMITS = TaskLimits(seconds=120, memory_bytes=MAX_MEMORY_BYTES)

VARIABLES = (
    *("question", "options", "texts", "letters", "letter_list", "in_group", "num_frames"),
    *("frame_seconds", "subtitles", "lines", "interleaved", "notice"),
)
"""The variables of a template (`docs/subtitles-and-prompts.md`). The answer is not one of them."""

_FILTERS = ("first", "join", "last", "length", "list", "lower", "map", "round", "trim", "upper")
_FORBIDDEN: dict[type[nodes.Node], str] = {
    nodes.Macro: "define macros",
    nodes.Call: "call functions",
    nodes.CallBlock: "call functions",
    nodes.Include: "include other files",
    nodes.Import: "import other files",
    nodes.FromImport: "import other files",
    nodes.Extends: "extend other files",
}
_TOO_DEEP = "the template is nested too deeply"


@cache
def variables_of(text: str) -> frozenset[str]:
    """The variables that a template uses.

    Raises PromptError if `text` is not a template, or uses something that a template cannot do.
    """
    try:
        tree = _environment().parse(text)
        for node in tree.find_all(tuple(_FORBIDDEN)):
            operation = _FORBIDDEN[type(node)]
            raise PromptError(f"line {node.lineno}: a prompt template cannot {operation}")
        filters = list(tree.find_all(nodes.Filter))
        names = list(tree.find_all(nodes.Name))
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(f"line {error.lineno}: {error.message}") from error
    except (RecursionError, ValueError) as error:
        reason = _TOO_DEEP if isinstance(error, RecursionError) else error
        raise PromptError(f"line 1: {reason}") from error
    for node in filters:
        if node.name not in _FILTERS:
            raise PromptError(
                f"line {node.lineno}: No filter named {node.name!r}; "
                f"the filters are {', '.join(_FILTERS)}"
            )
    assigned = {"loop"} | {node.name for node in names if node.ctx == "store"}
    used = [node for node in names if node.name not in assigned]
    unknown = [node for node in used if node.name not in VARIABLES]
    if unknown:
        raise PromptError(
            f"line {unknown[0].lineno}: no variable {unknown[0].name}; "
            f"the variables are {', '.join(VARIABLES)}"
        )
    return frozenset(node.name for node in used)


def fill(text: str, values: Mapping[str, Any]) -> str:
    """The template `text`, filled with `values`, in this process.

    Raises PromptError if the template uses a forbidden operation, or its output is too long.
    """
    filled = io.StringIO()
    try:
        for piece in _compile(text).generate(values):
            filled.write(piece)
            if filled.tell() > MAX_PROMPT_CHARACTERS:
                raise PromptError(f"longer than {MAX_PROMPT_CHARACTERS:,} characters")
    except (SyntaxError, RecursionError) as error:
        raise PromptError(_TOO_DEEP) from error
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
        raise PromptError(str(error)) from error
    return filled.getvalue()


def fill_in_child(text: str, values: Mapping[str, Any]) -> str:
    """Like `fill`, in a child process. Also raises PromptError beyond its limits."""
    with _child_lock:
        try:
            _child.run(_fill_task, ("", {}), _LIMITS)  # importing its modules does not count
            return _child.run(_fill_task, (text, values), _LIMITS)
        except ChildFailedError as error:
            raise PromptError(
                f"the template needs more than {MAX_SECONDS} s or "
                f"{MAX_MEMORY_BYTES // 1024**3} GiB ({error}); simplify it"
            ) from error


def _fill_task(task: tuple[str, Mapping[str, Any]]) -> str:
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # its signal ends this process
    try:
        return fill(*task)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


_child, _child_lock = Child(), Lock()


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    sandbox = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    sandbox.globals.clear()
    sandbox.filters = {name: sandbox.filters[name] for name in _FILTERS}
    return sandbox


@cache
def _compile(text: str) -> jinja2.Template:
    return _environment().from_string(text)
