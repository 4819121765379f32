"""cluster.yaml: a Dask cluster that a run starts, or a scheduler that runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from videomme_pipeline.cluster.dask import DaskSpec
from videomme_pipeline.errors import ClusterError, ConfigurationError
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.project.runs.settings import read_cluster

TLS = "{tls_ca_file: ca.pem, tls_client_cert: cert.pem, tls_client_key: key.pem}"


def write(folder: Path, text: str) -> Path:
    (folder / "cluster.yaml").write_text(text)
    return folder


def test_without_entries_there_is_no_cluster(tmp_path: Path) -> None:
    assert read_cluster(tmp_path) is None
    assert read_cluster(write(tmp_path, "# kind: dask")) is None


@pytest.mark.parametrize(
    "text",
    [
        "{scheduler: tcp://host:8786, max_wait_minutes: 10}",
        f"{{kind: dask, scheduler: tls://host:8786, tls: {TLS}}}",
        "{cluster: dask_jobqueue.SLURMCluster, scale: {jobs: 4}, arguments: {cores: 4}}",
        "{cluster: dask_jobqueue.PBSCluster, arguments: {n_workers: 2}, folder: ~/cluster}",
    ],
)
def test_a_cluster_file_may_have_these_forms(tmp_path: Path, text: str) -> None:
    assert read_cluster(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: dask", "set either `cluster` or `scheduler`"),
        ("{cluster: a.B, scheduler: tcp://host:1}", "set either `cluster` or `scheduler`"),
        ("{scheduler: tcp://host:1, scale: {n: 2}}", "`arguments` and `scale` need `cluster`"),
        ("{cluster: SLURMCluster}", "`cluster` is 'SLURMCluster'"),
        ("{schedule: tcp://host:1}", "did you mean `scheduler`"),
        ("kind: dsk", "did you mean `dask`"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_cluster(write(tmp_path, text))


@pytest.mark.parametrize(
    ("cluster", "arguments", "message"),
    [
        ("dask_jobqueue.SlurmCluster", {}, "has no attribute 'SlurmCluster'"),
        ("dask_kubernets.KubeCluster", {}, "No module named 'dask_kubernets'"),
        ("dask_jobqueue.SLURMCluster", {}, "You must specify how much cores and memory"),
        ("dask_jobqueue.SLURMCluster", {"core": 1}, "unexpected keyword argument 'core'"),
        (
            "dask_jobqueue.SLURMCluster",
            {"cores": 1, "memory": "1GB", "interface": "ib7"},
            "'ib7' is not a valid network interface",
        ),
    ],
)
def test_a_cluster_that_cannot_be_started_is_one_sentence(
    tmp_path: Path, cluster: str, arguments: dict[str, object], message: str
) -> None:
    spec = DaskSpec(cluster=cluster, arguments=arguments)
    with pytest.raises(ClusterError, match=f"cannot be used .*{message}.*correct cluster.yaml"):
        spec.connect(tmp_path, ignore).__enter__()


def test_options_of_tls_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"cannot be used \(Unknown parameters: \['ca'\]\)"):
        DaskSpec(scheduler="tls://host:1", tls={"ca": "a"}).connect(tmp_path, ignore).__enter__()


def test_a_thread_can_start_a_cluster_and_the_handler_of_sigint_is_kept() -> None:
    code = (
        "import signal, threading\n"
        "from videomme_pipeline.cluster.dask import DaskSpec\n"
        "arguments = {'cores': 1, 'memory': '1GB'}\n"
        "spec = DaskSpec(cluster='dask_jobqueue.PBSCluster', arguments=arguments)\n"
        "thread = threading.Thread(target=lambda: print(spec.check_jobs()))\n"
        "thread.start()\n"
        "thread.join()\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "runs start dask_jobqueue.PBSCluster\n", ended.stderr
