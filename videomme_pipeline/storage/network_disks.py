"""Network file systems: which paths are on one, and what may not be stored there."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import psutil

from videomme_pipeline.errors import StorageError

_FUSE = (
    "ceph",
    "gcsfuse",
    "glusterfs",
    "goofys",
    "juicefs",
    "mount-s3",
    "rclone",
    "s3fs",
    "seaweedfs",
    "sshfs",
)
_KERNEL = (
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "panfs",
    "smb3",
    "smbfs",
    "wekafs",
)
KINDS = frozenset((*_KERNEL, *(f"fuse.{name}" for name in _FUSE)))
"""Types of network file systems, as the operating system names them."""

ON_LOCAL_DISK = (
    "set VIDEOMME_LOCAL_DISK to a folder on a local disk, and move the file there if it exists"
)
"""Advice about an SQLite file of a project."""


def network_kind(path: Path, mounts: Mapping[str, str] | None = None) -> str | None:
    """The type of the network file system that contains `path`, or None if it is on a local disk.

    `mounts` are the types of the mounted file systems by mount point; by default those of this
    machine. `path` need not exist.
    """
    mounts = _mounts() if mounts is None else mounts
    path = Path(os.path.realpath(path))  # Path.resolve raises an error for a loop of links
    holder = next(str(folder) for folder in (path, *path.parents) if str(folder) in mounts)
    return mounts[holder] if mounts[holder] in KINDS else None


def refuse_network_disk(path: Path, remedy: str) -> None:
    """Check that an SQLite file at `path` is on a local disk.

    Raises:
        StorageError: if it is on a network file system. The message ends with `remedy`.
    """
    if kind := network_kind(path):
        raise StorageError(
            f"{path}: an SQLite file on a network file system ({kind}) can be damaged by two "
            f"machines; {remedy}"
        )


@cache
def _mounts() -> dict[str, str]:
    mounts = {disk.mountpoint: disk.fstype for disk in psutil.disk_partitions(all=True)}
    return {"/": "", **mounts}
