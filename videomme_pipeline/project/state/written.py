"""The versions that wrote a data folder. An older one must not replace what a newer one wrote."""

import json
from importlib.metadata import version

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.scoring.readers.read_answer import READERS
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import listing
from videomme_pipeline.storage.publish import publish


def refuse_older_version(store: Store) -> None:
    """Check that no newer version of this package wrote into `store`, and record this one.

    Raises:
        ConfigurationError: if one did, or if the record is damaged.
        StorageError: if the folder cannot be read or written.
    """
    path, own, here = store.versions, _own(), version("videomme-pipeline")
    recorded: dict[str, list[int]] = {}
    package = here
    try:
        with listing(path.parent):
            content = json.loads(path.read_bytes())
        recorded, package = content["versions"], content["package"]
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{path}: the file is damaged; delete it and run again") from error
    newer = [name for name, number in recorded.items() if number > own.get(name, number)]
    if newer:
        raise ConfigurationError(
            f"{path}: this data folder contains what a newer videomme-pipeline ({package}) wrote, "
            f"and version {here} here would replace it ({', '.join(newer)}); install the "
            "newer version, or set VIDEOMME_DATA to another folder"
        )
    merged = recorded | own
    if merged != recorded:
        content = {"package": here, "versions": merged}
        publish(path, json.dumps(content, indent=1, sort_keys=True).encode())


def _own() -> dict[str, list[int]]:
    """The versions of the stages and readers of this package."""
    readers = {f"reader {name}": [int(reader.version)] for name, reader in READERS.items()}
    return {name: list(numbers) for name, numbers in CODE_VERSIONS.items()} | readers
