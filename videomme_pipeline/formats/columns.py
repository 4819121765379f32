"""Columns of unknown files: those that `--columns` names, and guesses for messages.

A column is a name or a path: `lvb_acc.id` is the value `id` in the object `lvb_acc`. `*` stands for
each entry of an object or a list, and each entry is a row. A path that ends in `*` is the entry for
`prediction`, and the key of the entry for every other name: `submission.*` reads the response from
`{"submission": {"<question id>": "<response>"}}`.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from videomme_pipeline.benchmarks.columns import (
    columns_with,
    option_columns,
    pandas_rows,
    split_options,
    text_in,
)
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import ScoringError, listed
from videomme_pipeline.formats.results_format import TEXT_COLUMNS, Row, mapping_or_empty

_EACH = "*"
_NEEDED = ("question_id", "video_id", "options", "answer")
"""The columns that are needed beside the response."""
_EMPTY = (None, "")
_DEEPEST = 5
_MAX_COLUMNS = 30
"""An object with more keys is taken for one whose keys are ids."""

_Parts = tuple[str, ...]
"""A path, such as `("predictions", "*", "answer")`."""


def with_columns(objects: Sequence[Row], columns: Mapping[str, str], path: Path) -> Iterator[Row]:
    """Yield the rows in `objects`, with the values of `columns` under the names that these have."""
    if len(objects) == 1 and not any(_EACH in column for column in columns.values()):
        with suppress(TypeError, ValueError):
            objects = pandas_rows(objects[0]) or objects
    if not columns:
        yield from objects
        return
    existing = set[str]().union(*objects)
    paths = {
        name: (column,) if column in existing else tuple(column.split("."))
        for name, column in columns.items()
    }
    entries = max(map(_entry, paths.values()), key=len)
    for name, parts in paths.items():
        if not _is_above(parts, entries):
            raise ScoringError(
                f"{path}: `{columns[name]}` and `{'.'.join(entries)}` have `*` in different "
                "places, so they are not in the same row; name values of the same entries"
            )
    reached = {name for name, column in columns.items() if column in existing}
    for item in objects:
        kept = item.items() if len(item) <= _MAX_COLUMNS or not entries else ()
        shared = {name: value for name, value in kept if name not in entries[:1]}
        for keys, entry in _entries(item, entries):
            values = {name: _value(item, name, parts, keys) for name, parts in paths.items()}
            reached |= {name for name, value in values.items() if value is not None}
            if keys and paths.get("prediction", ())[-1:] == (_EACH,):
                values = {"question_id": keys[-1], **values}
            yield {**shared, **mapping_or_empty(entry), **values}
    for name in columns.keys() - reached:
        offered = sorted({*map(str, existing), *map(".".join, _values_by_path(objects[0]))})
        raise ScoringError(
            f"{path}: no row has the column {columns[name]!r}; {nearest(columns[name], offered)}"
        )


@lru_cache(maxsize=64)
def _candidates(names: tuple[str, ...]) -> tuple[Mapping[str, Sequence[str]], Sequence[str]]:
    """The columns that may have the content of each standard column, and those of one option."""
    usable = [name for name in names if name != "index"]  # the number of the row
    standard = (*_NEEDED, "question", "prediction")
    by_name = {name: usual for name in standard if (usual := columns_with(name, usable))}
    return by_name, option_columns(names)


def usual_columns(row: Row) -> dict[str, str]:
    """The columns of `row` whose values belong in empty standard columns, by the names of these."""
    has_text = not row.keys().isdisjoint(TEXT_COLUMNS)
    return {
        name: filled[0]
        for name, columns in _candidates(tuple(row))[0].items()
        if row.get(name) in _EMPTY
        and not (name == "prediction" and has_text)
        and (filled := [c for c in columns if row[c] not in _EMPTY and not _is_open(row[c])])
    }


def with_usual_names(row: Row) -> Row:
    """`row` with its values in the standard columns, if it has them in other usual ones.

    The options may have one column each, or be the last lines of the question.
    """
    named = {**row, **{name: row[column] for name, column in usual_columns(row).items()}}
    if named.get("options") not in _EMPTY:
        return named
    question, options = split_options(text_in(named.get("question")) or "")
    if single := _candidates(tuple(row))[1]:
        named["options"] = [row.get(column) for column in single]
    elif len(options) > 1:
        if not any("\n" in option.strip() for option in options[:-1]):
            options[-1] = options[-1].partition("\n")[0]  # instructions follow in a prompt
        named |= {"question": question, "options": options}
    return named


def advice(row: Row) -> str:
    """The columns of the first object, which of them are known, and the likely `--columns`."""
    values_by_path = _values_by_path(row)
    shown = [".".join(parts) for parts, value in values_by_path.items() if not _is_open(value)]
    recognized = [name for name in ("prediction", *_NEEDED, *TEXT_COLUMNS[1:]) if name in row]
    guesses = _guesses(row)
    named = [shlex.quote(f"{name}={'.'.join(parts)}") for name, parts in guesses.items()]
    line = " ".join(f"--columns {words}" for words in named)
    available = {*guesses, *(parts[-1] for parts in values_by_path)}
    is_by_id = guesses.get("prediction", ())[-1:] == (_EACH,) or "question_id" in available
    if line and not is_by_id and not available >= {"video_id", "options"}:
        line += ", with --columns question_id=COLUMN for the id of the question"
    return (
        f"The first row has {listed(shown, _MAX_COLUMNS) or 'no columns'}; recognized: "
        f"{', '.join(recognized) or 'none'}"
        + (f"; this would probably work: {line}" if line else "")
    )


def _guesses(row: Row) -> dict[str, _Parts]:
    """The likely paths of the columns that `row` does not have itself."""
    values_by_path = _values_by_path(row)
    guesses: dict[str, _Parts] = {}
    if row.keys().isdisjoint(TEXT_COLUMNS) and (response := _response(row, values_by_path)):
        guesses["prediction"] = response
    entries = _entry(guesses.get("prediction", ()))
    for name in _NEEDED:
        paths = [
            parts
            for parts, value in values_by_path.items()
            if (name == "options" or not isinstance(value, Mapping)) and _is_above(parts, entries)
        ]
        usual = columns_with(name, (parts[-1] for parts in paths))
        if usual and name not in row:
            guesses[name] = next(parts for parts in paths if parts[-1] == usual[0])
    # The keys of an object are ids of questions if its entries are rows, and else of videos.
    outermost = entries[: entries.index(_EACH) + 1] if entries else ()
    name = "question_id" if outermost == entries else "video_id"
    container = {(): row, **values_by_path}.get(outermost[:-1])
    if entries and name not in guesses and isinstance(container, Mapping):
        guesses[name] = outermost
    # A row has the columns of its entry, and its id if the response is the entry.
    implied = {name: (*entries, name) for name in guesses if name != "prediction"}
    if guesses.get("prediction") == entries:
        implied["question_id"] = entries
    return {name: parts for name, parts in guesses.items() if implied.get(name) != parts}


def _response(row: Row, values_by_path: Mapping[_Parts, Any]) -> _Parts | None:
    """The likely path of the response, or None."""
    for parts, value in values_by_path.items():
        if not _is_response(parts[-1]):
            continue
        if not isinstance(value, Mapping):
            return parts
        if _has_texts(value) and not any(map(_is_response, value)):
            return (*parts, _EACH)
    return (_EACH,) if _has_texts(row) and _has_ids(row) else None


def _is_response(name: str) -> bool:
    return bool(columns_with("prediction", [name]))


def _entry(parts: _Parts) -> _Parts:
    """The path of the entries that are rows: `parts` up to the last `*`."""
    return parts[: len(parts) - parts[::-1].index(_EACH)] if _EACH in parts else ()


def _is_above(parts: _Parts, entries: _Parts) -> bool:
    """True if a value at `parts` belongs to each of `entries`."""
    return _entry(parts) == entries[: len(_entry(parts))]


def _entries(value: Any, parts: _Parts) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each entry at `parts` with its key at each `*`, or None if there is none."""
    if not parts:
        yield (), value
        return
    first = parts.index(_EACH)
    inside = _inside(value, parts[:first], ())
    entries: Any = inside if isinstance(inside, Mapping) else {None: None}
    if isinstance(inside, list):
        entries = dict(enumerate(inside))
    for key, entry in entries.items():
        for keys, inner in _entries(entry, parts[first + 1 :]):
            yield (key, *keys), inner


def _value(item: Row, name: str, parts: _Parts, keys: Sequence[Any]) -> Any:
    if parts[-1] == _EACH and name != "prediction":
        return keys[parts.count(_EACH) - 1]
    return _inside(item, parts, keys)


def _inside(value: Any, parts: _Parts, keys: Sequence[Any]) -> Any:
    """The value at the path `parts`, or None. `keys` are those at each `*`."""
    remaining = iter(keys)
    for part in parts:
        key = next(remaining) if part == _EACH else part
        if isinstance(value, list) and str(key).isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, Mapping):
            value = value.get(key)
        else:
            return None
    return value


def _values_by_path(row: Row) -> dict[_Parts, Any]:
    """The value at each path in `row`, the least deep first. Of several entries, the first."""
    return dict(sorted(_columns_in(row, ()), key=lambda column: len(column[0])))


def _columns_in(value: Any, parts: _Parts) -> Iterator[tuple[_Parts, Any]]:
    if not _is_open(value) or len(parts) == _DEEPEST:
        return
    columns = {_EACH: value[0]} if isinstance(value, list) else value
    if isinstance(value, Mapping) and _has_ids(value):
        columns = {_EACH: next(iter(value.values()))}
    for key, inner in columns.items():
        path = (*parts, str(key))
        yield path, inner
        yield from _columns_in(inner, path)


def _is_open(value: Any) -> bool:
    """True if there are columns in `value`: an object, or a list of objects."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Mapping) and bool(first)


def _has_ids(value: Mapping[str, Any]) -> bool:
    """True if the keys of an object are ids: it has many, or the first two entries are alike."""
    firsts = [v[0] if isinstance(v, list) and v else v for v in islice(value.values(), 2)]
    are_alike = len(firsts) > 1 and all(isinstance(first, Mapping) for first in firsts)
    return len(value) > _MAX_COLUMNS or (are_alike and not set(firsts[0]).isdisjoint(firsts[1]))


def _has_texts(value: Any) -> bool:
    """True for an object of texts, which may be a response by the id of its question."""
    return isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
