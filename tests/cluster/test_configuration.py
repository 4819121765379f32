"""cluster.yaml: one cluster, and no unencrypted traffic to another machine by accident."""

from pathlib import Path

import pytest

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.runs.settings import read_cluster


def write(folder: Path, text: str) -> Path:
    (folder / "cluster.yaml").write_text(text)
    return folder


def test_without_entries_there_is_no_cluster(tmp_path: Path) -> None:
    assert read_cluster(tmp_path) is None
    assert read_cluster(write(tmp_path, "# address: tls://scheduler:8786")) is None


@pytest.mark.parametrize(
    "text",
    [
        "address: tls://scheduler.example.org:8786",
        "address: tcp://127.0.0.1:8786",
        "address: localhost:8786",
        "{address: 'tcp://10.0.0.7:8786', plain_tcp: true}",
        "slurm: {queue: cpu, cores: 4, memory: 8GB, jobs: 4, interface: eth0}",
        "slurm: {cores: 4, memory: 8GB, adapt: {maximum: 16}, interface: ib0, ports: '9000:9100'}",
        "ssh: {hosts: [node1, me@node2], cores: 8, interface: eth0}",
    ],
)
def test_a_cluster_file_may_have_these_forms(tmp_path: Path, text: str) -> None:
    assert read_cluster(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("address: tcp://10.0.0.7:8786", "neither `tls://…` nor on this machine; use TLS"),
        ("address: scheduler:8786", "set `plain_tcp: true`"),
        ("plain_tcp: true", "set one of `address`, `slurm` and `ssh`"),
        ("slurm: {cores: 4, memory: 8GB, interface: ib0}", "set either `jobs: 4` or `adapt"),
        ("slurm: {cores: 4, memory: 8GB, jobs: 1}", "missing key `slurm.interface`"),
        (
            "{address: 'tls://a:1', ssh: {hosts: [b], cores: 1, interface: lo}}",
            "set one of `address`",
        ),
        (
            "slurm: {cores: 0, memory: 8GB, jobs: 1, interface: lo}",
            "`slurm.cores` is 0: expected at least 1",
        ),
        ("adress: tls://a:1", "did you mean `address`"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_cluster(write(tmp_path, text))
