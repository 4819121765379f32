"""The sandbox of prompt templates: what a template can do, how long it may take and how large it
may become.

A template can access only the values in `VARIABLES`: no files, no attributes that start with "_",
and nothing callable. It terminates, since loops are possible only over these values. A template of
the user is filled in a child process, because a few lines of it can request more time or memory
than any machine has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import jinja2
from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from videomme_pipeline.errors import PromptError
from videomme_pipeline.processes.children import Child, ChildFailedError

MAX_TEMPLATE_CHARACTERS = 100_000
MAX_PROMPT_CHARACTERS = 4_000_000
"""An hour of subtitles has about 60,000 characters."""

MAX_SECONDS = 5
MAX_MEMORY_BYTES = 2 * 1024**3
"""Limits of one text. A large prompt takes milliseconds. The memory includes the libraries."""
_START_SECONDS = 120
"""Time for the child to start and import its modules, on a busy machine."""

VARIABLES = {
    "question": "the question's text",
    "options": 'the options as published ("A. Apples."), in order',
    "letters": "the letters that the question offers",
    "letter_list": 'these letters as a phrase ("A, B, C, or D")',
    "in_group": "true if the question is part of a v2 group",
    "num_frames": "the number of frames that are sent, or 0 for a prompt without pictures",
    "frame_seconds": "the times of the frames",
    "subtitles": "texts of the lines: none on a track without subtitles, empty without lines",
    "lines": "the lines with frame, cue, start_seconds, end_seconds and text",
    "interleaved": "true if the lines are between the frames",
    "notice": 'lmms-eval\'s "No subtitles available" for a video without a file, else none',
}
"""The variables of a template with their meanings. The answer is not one of them."""

_FILTERS = ("first", "join", "last", "length", "list", "lower", "map", "round", "trim", "upper")
_FORBIDDEN: dict[type[nodes.Node], str] = {
    nodes.Macro: "define macros",
    nodes.CallBlock: "call",
    nodes.Include: "include other files",
    nodes.Import: "import other files",
    nodes.FromImport: "import other files",
    nodes.Extends: "extend other files",
}


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_callable(self, obj: Any) -> bool:
        del obj
        return False

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" or not all(isinstance(side, int | float) for side in (left, right)):
            raise SecurityError("`*` and `%` need two numbers, and `**` is not allowed")
        return super().call_binop(context, operator, left, right)


def _run_time_filter(name: str, environment: jinja2.Environment) -> Callable[..., Any]:
    """The filter `name` of `environment`. Jinja does not compute it when it compiles a template."""

    @pass_context
    def call(context: Context, value: Any, *args: Any, **named: Any) -> Any:
        return environment.call_filter(name, value, args, named, context, context.eval_ctx)

    return call


@dataclass(frozen=True, slots=True)
class _Compiled:
    template: jinja2.Template
    variables: frozenset[str]


def variables_of(text: str) -> frozenset[str]:
    """The variables that a template uses.

    Raises:
        PromptError: if `text` is not a template.
    """
    return _compile(text).variables


def fill(text: str, values: Mapping[str, Any]) -> str:
    """The template `text`, filled with `values`, in this process.

    Raises:
        PromptError: if the template uses a forbidden operation, or its output is too long.
    """
    pieces: list[str] = []
    size = 0
    try:
        for piece in _compile(text).template.generate(values):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_PROMPT_CHARACTERS:
                raise PromptError(f"longer than {MAX_PROMPT_CHARACTERS:,} characters")
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise PromptError(str(error)) from error
    return "".join(pieces)


def fill_in_child(text: str, values: Mapping[str, Any]) -> str:
    """Like `fill`, in a child process with limits of time and memory.

    Raises:
        PromptError: also if the template exceeds these limits.
    """
    with _child_lock:
        child = _child()
        try:
            child.run(_fill_task, ("", {}), time_limit_seconds=_START_SECONDS)
            return child.run(_fill_task, (text, values), time_limit_seconds=MAX_SECONDS)
        except ChildFailedError as error:
            raise PromptError(
                f"the template needs more than {MAX_SECONDS} s or "
                f"{MAX_MEMORY_BYTES // 1024**3} GiB ({error}); simplify it"
            ) from error


def _fill_task(task: tuple[str, Mapping[str, Any]]) -> str:
    return fill(*task)


_child_lock = Lock()


@cache
def _child() -> Child:
    return Child(MAX_MEMORY_BYTES)


@cache
def _environment() -> _Sandbox:
    sandbox = _Sandbox(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    sandbox.globals.clear()
    all_filters = _Sandbox(undefined=jinja2.StrictUndefined)
    sandbox.filters = {name: _run_time_filter(name, all_filters) for name in _FILTERS}
    return sandbox


@cache
def _compile(text: str) -> _Compiled:
    try:
        tree = _environment().parse(text)
        _check(tree)
        return _Compiled(
            _environment().from_string(text), frozenset(find_undeclared_variables(tree))
        )
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(f"line {error.lineno}: {error.message}") from error
    except (RecursionError, SyntaxError, MemoryError) as error:
        raise PromptError("line 1: the template is nested too deeply") from error
    except ValueError as error:
        raise PromptError(f"line 1: {error}") from error


def _check(tree: nodes.Template) -> None:
    for node in tree.find_all(tuple(_FORBIDDEN)):
        raise PromptError(f"line {node.lineno}: a prompt template cannot {_FORBIDDEN[type(node)]}")
    for loop in tree.find_all(nodes.For):
        if loop.recursive or any(inner.find(nodes.For) for inner in loop.find_all(nodes.For)):
            raise PromptError(f"line {loop.lineno}: loops are nested more than two deep")
    unknown = sorted(find_undeclared_variables(tree) - set(VARIABLES))
    if unknown:
        raise PromptError(
            f"{_line_of(tree, unknown[0])}: no variable {', '.join(unknown)}; "
            f"the variables are {', '.join(VARIABLES)}"
        )


def _line_of(tree: nodes.Template, variable: str) -> str:
    found = next(node.lineno for node in tree.find_all(nodes.Name) if node.name == variable)
    return f"line {found}"
