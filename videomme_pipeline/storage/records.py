"""Records: small JSON files with a checksum, each written once.

A sequence is a folder of records whose names begin with their times, so the newest one is the last
by name. Sequences of two machines are merged by copying their files into one folder.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from upath import UPath

from videomme_pipeline.errors import DamagedFileError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.storage.names import RECORD_TIME
from videomme_pipeline.storage.objects import file_names
from videomme_pipeline.storage.publish import publish

_CHECKSUM = "checksum"
_TIMED_NAME = re.compile(r"(?P<time>\d{8}T\d{12}Z)\.(?P<name>.+)\.json")


def write_record(path: UPath, content: Mapping[str, Any]) -> None:
    """Publish `content` as JSON with a checksum. Raises StorageError if that fails."""
    publish(path, json.dumps({**content, _CHECKSUM: fingerprint(content)}, indent=1).encode())


def read_record(path: UPath) -> dict[str, Any]:
    """The content that `write_record` stored. Raises FileNotFoundError or DamagedFileError."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        checksum = content.pop(_CHECKSUM)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{path}: the file is damaged ({error!r})") from error
    if checksum != fingerprint(content):
        raise DamagedFileError(f"{path}: the file is damaged (its checksum does not match)")
    return content


def append_record(folder: UPath, name: str, content: Mapping[str, Any], now: datetime) -> None:
    """Add a record called `name` to the sequence in `folder`."""
    write_record(folder / f"{now.astimezone(UTC):{RECORD_TIME}}.{name}.json", content)


def sequence(folder: UPath) -> list[tuple[datetime, str, UPath]]:
    """The time, the name and the path of every record in `folder`, oldest first."""
    timed = ((file, timed_name(file)) for file in sorted(file_names(folder)))
    return [(*parsed, folder / file) for file, parsed in timed if parsed]


def timed_name(file: str) -> tuple[datetime, str] | None:
    """The time and the name of a record in the name of its file, or None for another file."""
    match = _TIMED_NAME.fullmatch(file)
    if match is None:
        return None
    return datetime.strptime(match["time"], RECORD_TIME).replace(tzinfo=UTC), match["name"]
