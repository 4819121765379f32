"""Read YAML files into specs; error messages explain how to fix a file."""

import re
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from videomme_pipeline.errors import ConfigurationError, listed
from videomme_pipeline.fingerprint import Spec

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML was built without libyaml, so reading is slower
    from yaml import SafeLoader  # type: ignore[assignment]

AnySpec = TypeVar("AnySpec", bound=Spec)

MAX_FILE_BYTES = 256 * 1024
MAX_VALUES = 20_000
MAX_DEPTH = 20
MAX_TEXT_CHARACTERS = 10_000
"""Limits of a YAML file: its size, its keys and values after aliases are resolved, their nesting,
and the length of one text. Any file within these limits is read in a fraction of a second."""

MAX_NAME_CHARACTERS = 100
"""The longest name of a benchmark, model or evaluation. File systems accept 255 bytes in a name,
and the longest file names also contain the id of a video and a temporary suffix."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHOWN_CHARACTERS = 200
_SHOWN_MISTAKES = 5
_SHOWN_NAMES = 20
_FEW_NAMES = 5
_MAY_BE_SECRET = "may_be_secret"


def is_name(text: str) -> bool:
    """True if `text` can be a partition key and the name of a folder."""
    return len(text) <= MAX_NAME_CHARACTERS and _NAME.fullmatch(text) is not None


class _JsonLoader(SafeLoader):
    """YAML loader of JSON values that rejects duplicate keys; PyYAML silently keeps the last one.

    Dates are read as text. Other types that JSON does not have are errors.
    """


def _mapping(loader: _JsonLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[object, yaml.Mark] = {}
    for key, _ in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        name = loader.construct_object(key, deep=True)
        if isinstance(name, Hashable) and name in seen:
            raise _mistake(
                f"duplicate key `{name}`, also in line {seen[name].line + 1}; keep one of them",
                key.start_mark,
            )
        if isinstance(name, Hashable):
            seen[name] = key.start_mark
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


def _integer(loader: _JsonLoader, node: yaml.ScalarNode) -> int:
    value = loader.construct_yaml_int(node)
    if value.bit_length() > 64:
        raise _mistake("an integer with more than 64 bits", node.start_mark)
    return value


def _mistake(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_TAG = "tag:yaml.org,2002:"
_JsonLoader.yaml_constructors = {
    None: SafeLoader.construct_undefined,
    f"{_TAG}null": SafeLoader.construct_yaml_null,
    f"{_TAG}bool": SafeLoader.construct_yaml_bool,
    f"{_TAG}int": _integer,
    f"{_TAG}float": SafeLoader.construct_yaml_float,
    f"{_TAG}str": SafeLoader.construct_yaml_str,
    f"{_TAG}timestamp": SafeLoader.construct_yaml_str,
    f"{_TAG}seq": SafeLoader.construct_yaml_seq,
    f"{_TAG}map": _mapping,
}


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an empty file is an empty mapping.

    Raises ConfigurationError if it is missing, not a YAML mapping, too large, or repeats a key.
    """
    try:
        text = _read_text(path)
        _check_limits(text)
        value = yaml.load(text, _JsonLoader)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (yaml.YAMLError, ValueError, ArithmeticError) as error:
        problem = " ".join(str(error).replace('in "<unicode string>", line', "in line").split())
        raise ConfigurationError(f"{path}: not readable as YAML: {problem}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: {_not_a_mapping(value)}")
    return value


def _read_text(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path}: not a regular file; put a YAML file in its place")
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(
            f"{path}: larger than {MAX_FILE_BYTES // 1024} KiB, the limit of a configuration file; "
            "move long texts to files of their own"
        )
    return data.decode()


def _check_limits(text: str) -> None:
    """Check the limits on the events of the parser, before any value is built."""
    values = 0
    values_by_anchor: dict[str | None, int] = {}
    open_collections: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, SafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, values_before = open_collections.pop()
            values_by_anchor[anchor] = values - values_before
        elif isinstance(event, yaml.AliasEvent):
            # An alias inside its own anchor has no end.
            values += values_by_anchor.get(event.anchor, MAX_VALUES)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_collections.append((event.anchor, values))
            values += 1
        elif isinstance(event, yaml.ScalarEvent):
            values_by_anchor[event.anchor] = 1
            values += 1
            if len(event.value) > MAX_TEXT_CHARACTERS:
                problem = f"a text of more than {MAX_TEXT_CHARACTERS:,} characters"
                raise _mistake(problem, event.start_mark)
        if len(open_collections) > MAX_DEPTH:
            raise _mistake(f"nested more than {MAX_DEPTH} levels deep", event.start_mark)
        if values > MAX_VALUES:
            problem = f"more than {MAX_VALUES:,} values, counting each alias as a copy"
            raise _mistake(problem, event.start_mark)


def read_spec(path: Path, spec_class: type[AnySpec]) -> AnySpec:
    """The content of an optional YAML file as a `spec_class`. Errors are those of `parse_spec`."""
    return parse_spec(read_yaml(path) if path.exists() else {}, spec_class, str(path))


def parse_spec(value: object, spec_class: type[AnySpec], where: str) -> AnySpec:
    """`value` as a `spec_class`.

    Raises ConfigurationError if `value` is not valid. The message has `where` (a file or entry),
    each unknown key with the nearest valid one, and each wrong value with the expected one.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where}: {_not_a_mapping(value)}")
    try:
        return spec_class.model_validate(dict(value))
    except ValidationError as error:
        by_key = _by_key(error, value)
        mistakes = [_explain(errors, spec_class) for errors in by_key[:_SHOWN_MISTAKES]]
        if len(by_key) > _SHOWN_MISTAKES:
            mistakes.append(f"and {len(by_key) - _SHOWN_MISTAKES:,} more")
        raise ConfigurationError(f"{where}: {'; '.join(mistakes)}") from None


def _not_a_mapping(value: object) -> str:
    return f"expected `key: value` lines, found a {type(value).__name__}"


def secret_error(message: str) -> PydanticCustomError:
    """The error of a validator whose value may contain a secret, so that no message shows it."""
    return PydanticCustomError(_MAY_BE_SECRET, "{message}", {"message": message})


def nearest(word: str, choices: Mapping[str, Any] | list[str] | tuple[str, ...]) -> str:
    """A hint for an error message: the choice nearest to `word`, or else all choices."""
    words = list(choices)
    close = get_close_matches(word, words, n=1, cutoff=0.5)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known: {listed(words, _SHOWN_NAMES) or 'none'}"


def _by_key(error: ValidationError, value: Mapping[Any, Any]) -> list[list[dict[str, Any]]]:
    """The errors by key. `loc` is reduced to the keys, because pydantic also puts types into it."""
    by_key: dict[tuple[int | str, ...], list[dict[str, Any]]] = {}
    for item in error.errors():
        keys: list[int | str] = []
        inner: Any = value
        for part in item["loc"]:
            is_key = isinstance(inner, Mapping) and part in inner
            if is_key or (isinstance(inner, list) and isinstance(part, int)):
                keys.append(part)
                inner = inner[part]
            elif item["type"] == "missing" and part == item["loc"][-1]:
                keys.append(part)
        by_key.setdefault(tuple(keys), []).append({**item, "loc": keys})
    return list(by_key.values())


def _explain(errors: list[dict[str, Any]], spec_class: type[BaseModel]) -> str:
    item = errors[0]
    key_path = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        *parents, key = item["loc"]
        owner = _spec_at(spec_class, parents)
        return f"unknown key `{key_path}`, {nearest(str(key), list(owner.model_fields))}"
    if item["type"] == "missing":
        return f"missing key `{key_path}`"
    if item["type"] == _MAY_BE_SECRET:
        return f"`{key_path}` cannot be used: {item['msg']}"
    hints = " or ".join(dict.fromkeys(map(expectation, errors)))
    return f"`{key_path}` is {shown(item['input'])}: {hints}" if key_path else hints


def expectation(item: Mapping[str, Any]) -> str:
    """One error of pydantic about a value, in the words of this project."""
    kind, limits = item["type"], item.get("ctx", {})
    if kind in ("enum", "literal_error"):
        choices = re.findall(r"'([^']*)'", limits["expected"]) or [limits["expected"]]
        are_few = len(choices) <= _FEW_NAMES
        return f"choose {', '.join(choices)}" if are_few else nearest(str(item["input"]), choices)
    if kind == "value_error":
        return str(limits["error"])
    text = _EXPECTED.get(kind) or _EXPECTED.get(kind.partition("_")[0])
    return f"expected {text.format(**limits)}" if text else str(item["msg"])


_EXPECTED = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_pattern_mismatch": "text of the form {pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "bool": "true or false",
    "date": "a date such as 2026-12-31",
    "dict": "`key: value` lines",
    "finite": "a finite number",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "`key: value` lines",
    "path": "a path",
    "string": "text",
    "tuple": "a list",
}
"""Descriptions of valid values, by pydantic's error type or its first word (`int_parsing`)."""


def shown(value: object) -> str:
    """`value` as it is shown in an error message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"


def _spec_at(spec_class: type[BaseModel], path: list[Any]) -> type[BaseModel]:
    """The nested model at `path` inside `spec_class`, as far as the path can be followed."""
    for part in path:
        field = spec_class.model_fields.get(str(part))
        if field is None:
            continue
        annotations = [field.annotation, *get_args(field.annotation)]
        candidates = [getattr(a, "__origin__", a) for a in annotations]  # that of `Annotated`
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if models:
            spec_class = models[0]
    return spec_class
