"""The versions that wrote a data folder. An older one must not replace what a newer one wrote."""

from importlib.metadata import version

from pydantic import BaseModel, ValidationError

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.scoring.readers.read_answer import READERS
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import listing
from videomme_pipeline.storage.publish import publish


class Written(BaseModel):
    """The newest package that wrote a data folder, and its versions of stages and readers."""

    package: str
    versions: dict[str, list[int]]


def refuse_older_version(store: Store) -> None:
    """Check that no newer version of this package wrote into `store`, and record this one.

    Raises:
        ConfigurationError: if one did, or if the record is damaged.
        StorageError: if the folder cannot be read or written.
    """
    path, own, here = store.versions, _own(), version("videomme-pipeline")
    recorded = Written(package=here, versions={})
    try:
        with listing(path.parent):
            recorded = Written.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        pass
    except ValidationError as error:
        raise ConfigurationError(f"{path}: the file is damaged; delete it and run again") from error
    newer = [name for name, number in recorded.versions.items() if number > own.get(name, number)]
    if newer:
        raise ConfigurationError(
            f"{path}: this data folder contains what a newer videomme-pipeline "
            f"({recorded.package}) wrote, and version {here} here would replace it "
            f"({', '.join(newer)}); install the newer version, or set "
            "VIDEOMME_DATA to another folder"
        )
    merged = Written(package=here, versions=recorded.versions | own)
    if merged.versions != recorded.versions:
        publish(path, merged.model_dump_json(indent=1).encode())


def _own() -> dict[str, list[int]]:
    """The versions of the stages and readers of this package."""
    readers = {f"reader {name}": [int(reader.version)] for name, reader in READERS.items()}
    return {name: list(numbers) for name, numbers in CODE_VERSIONS.items()} | readers
