"""A release: the same bytes from the same commit, with everything that belongs in it."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.paths import ROOT


def build(folder: Path, umask: int) -> Path:
    """Build the packages from the files of the current commit, and return their folder."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    subprocess.run(["git", "archive", "--output", str(archive), "HEAD"], check=True, cwd=ROOT)
    command = f"umask {umask:03o}; tar -xmf '{archive}'; {sys.executable} -m hatchling build"
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(["sh", "-ec", command], check=True, cwd=folder, env=environment)
    return folder / "dist"


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.slow
def test_a_release_is_the_same_wherever_and_whenever_it_is_built(tmp_path: Path) -> None:
    first = build(tmp_path / "first", umask=0o022)
    second = build(tmp_path / "a longer name", umask=0o077)
    assert len(digests(first)) == 2
    assert digests(first) == digests(second)

    (wheel,) = first.glob("*.whl")
    inside = ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in inside if ".dist-info" not in name}
    assert packages == {"videomme_pipeline"}
    for name in ("prompts/templates/contract_v1.txt", "warehouse/sql/leaderboard.sql", "py.typed"):
        assert f"videomme_pipeline/{name}" in inside
    assert {"LICENSE", "NOTICE"} <= {Path(name).name for name in inside if ".dist-info" in name}

    (source,) = first.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert {"pyproject.toml", "requirements.lock", "Makefile", "SECURITY.md"} <= names
