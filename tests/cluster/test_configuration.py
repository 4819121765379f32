"""cluster.yaml: Slurm jobs, or workers that somebody else starts."""

from pathlib import Path

import pytest

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.runs.settings import read_cluster


def write(folder: Path, text: str) -> Path:
    (folder / "cluster.yaml").write_text(text)
    return folder


def test_without_entries_there_is_no_cluster(tmp_path: Path) -> None:
    assert read_cluster(tmp_path) is None
    assert read_cluster(write(tmp_path, "# kind: slurm")) is None


@pytest.mark.parametrize(
    "text",
    [
        "kind: folder",
        "{kind: folder, folder: /shared/queue, max_wait_minutes: 10}",
        "{kind: slurm, queue: cpu, cores: 4, memory: 8GB, jobs: 4}",
        "{cores: 4, memory: 8GB, jobs: 16, folder: ~/queue}",
    ],
)
def test_a_cluster_file_may_have_these_forms(tmp_path: Path, text: str) -> None:
    assert read_cluster(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{cores: 4, memory: 8GB}", "missing key `jobs`"),
        ("{cores: 0, memory: 8GB, jobs: 1}", "`cores` is 0: expected at least 1"),
        ("{cores: 1, memory: 8GB, jobs: 1, intreface: lo}", "unknown key `intreface`"),
        ("{kind: folder, foldr: a}", "did you mean `folder`"),
        ("kind: foldr", "did you mean `folder`"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_cluster(write(tmp_path, text))
