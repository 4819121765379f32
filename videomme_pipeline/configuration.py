"""Read YAML files into specs; error messages explain how to fix a file."""

from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec

AnySpec = TypeVar("AnySpec", bound=Spec)

_MAY_BE_SECRET = "may_be_secret"


class _EachKeyOnce(yaml.SafeLoader):
    """YAML loader that rejects duplicate keys; PyYAML silently keeps the last one."""


def _mapping(loader: _EachKeyOnce, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[object, yaml.Mark] = {}
    for key, _ in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        name = loader.construct_object(key, deep=True)
        if isinstance(name, Hashable) and name in seen:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"duplicate key `{name}`, also in line {seen[name].line + 1}; keep one of them",
                key.start_mark,
            )
        if isinstance(name, Hashable):
            seen[name] = key.start_mark
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_EachKeyOnce.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an empty file is an empty mapping.

    Raises:
        ConfigurationError: if the file is missing, is not YAML, is not a mapping or has a
            duplicate key.
    """
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), _EachKeyOnce)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        found = " ".join(str(error).split())
        raise ConfigurationError(f"{path}: not readable as YAML: {found}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigurationError(
            f"{path}: expected `key: value` lines, found a {type(value).__name__}"
        )
    return value


def parse_spec(value: Mapping[str, Any], spec_class: type[AnySpec], where: str) -> AnySpec:
    """`value` as a `spec_class`.

    Raises:
        ConfigurationError: if `value` is not valid. The message has `where` (a file or entry),
            each unknown key with the nearest valid one, and each wrong value with the expected
            one.
    """
    try:
        return spec_class.model_validate(dict(value))
    except ValidationError as error:
        found = "; ".join(_explain(dict(item), spec_class) for item in error.errors())
        raise ConfigurationError(f"{where}: {found}") from None


def secret_error(message: str) -> PydanticCustomError:
    """The error of a validator whose value may contain a secret, so that no message shows it."""
    return PydanticCustomError(_MAY_BE_SECRET, "{message}", {"message": message})


def nearest(word: str, known: Mapping[str, Any] | list[str] | tuple[str, ...]) -> str:
    """A hint for an error message: the known word nearest to `word`, or else all known words."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"


def _explain(item: dict[str, Any], spec_class: type[BaseModel]) -> str:
    place = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        *parents, key = item["loc"]
        owner = _spec_at(spec_class, parents)
        if issubclass(owner, Spec) and key in owner.renamed:
            return f"the key `{place}` was renamed; use `{owner.renamed[str(key)]}`"
        return f"unknown key `{place}`, {nearest(str(key), list(owner.model_fields))}"
    if item["type"] == "missing":
        return f"missing key `{place}`"
    if item["type"] == _MAY_BE_SECRET:
        return f"`{place}` cannot be used: {item['msg']}"
    return f"`{place}` is {item['input']!r}: {item['msg']}"


def _spec_at(spec_class: type[BaseModel], path: list[Any]) -> type[BaseModel]:
    """The nested model at `path` inside `spec_class`, as far as the path can be followed."""
    for part in path:
        field = spec_class.model_fields.get(str(part))
        if field is None:
            continue
        candidates = [field.annotation, *get_args(field.annotation)]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if models:
            spec_class = models[0]
    return spec_class
