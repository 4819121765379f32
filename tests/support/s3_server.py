"""A temporary S3 server (SeaweedFS) on the loopback interface, for tests and measurements."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from videomme_pipeline.serving.replicas import free_ports

PROGRAM = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
CAN_RUN = PROGRAM is not None and find_spec("s3fs") is not None
WHY_NOT = "needs the S3 server `weed` (SeaweedFS) and the extra `s3`"
"""Why a test is skipped unless `CAN_RUN`."""

KEY, SECRET, BUCKET = "key", "secret", "bucket"
_SERVICES = ("master", "volume", "filer", "s3")
_UNUSED = ("s3.port.iceberg=0", "s3.port.lance=0", "master.telemetry=false")


@dataclass
class S3Server:
    """A server whose objects are in `folder`. It keeps them when it is restarted."""

    folder: Path
    volumes: int = 8
    process: subprocess.Popen[bytes] | None = None
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3']}"

    def start(self, *, is_full: bool = False) -> None:
        """Start the server, and wait until the bucket exists. A full one stores no more objects."""
        assert PROGRAM is not None
        self.ports = self.ports or _ports_of_services()
        account = {
            "name": "test",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        accounts = self.folder / "accounts.json"
        accounts.write_text(json.dumps({"identities": [account]}))
        options = (
            f"dir={self.folder}",
            "ip=127.0.0.1",
            "s3",
            f"s3.config={accounts}",
            "master.volumeSizeLimitMB=1024",
            f"volume.max={self.volumes}",
            *(f"{name}={port}" for name, port in self._port_options()),
            *_UNUSED,
            *(["volume.minFreeSpace=100"] if is_full else []),
        )
        with (self.folder / "log").open("ab") as log:
            command = [PROGRAM, "server", *(f"-{option}" for option in options)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_for_bucket(is_full)

    def restart(self, *, is_full: bool = False) -> None:
        """Kill the server, and start it again."""
        self.stop()
        self.start(is_full=is_full)

    def stop(self) -> None:
        """Kill the server, as a power failure would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _port_options(self) -> Iterator[tuple[str, int]]:
        for name in _SERVICES:
            yield f"{name}.port", self.ports[name]
            yield f"{name}.port.grpc", self.ports[f"{name}.grpc"]

    def _wait_for_bucket(self, is_full: bool) -> None:
        import s3fs  # noqa: PLC0415 - an extra

        files = s3fs.S3FileSystem(
            key=KEY, secret=SECRET, endpoint_url=self.endpoint, skip_instance_cache=True
        )
        end = time.monotonic() + 60
        while True:
            try:
                if not files.exists(BUCKET):
                    files.mkdir(BUCKET)
                if is_full:
                    files.cat_file(f"{BUCKET}/ready")
                else:
                    files.pipe_file(f"{BUCKET}/ready", b"ready")
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
            else:
                return


@contextmanager
def s3_server(folder: Path, volumes: int = 8) -> Iterator[S3Server]:
    """A server with an empty bucket. It is killed after the block."""
    import s3fs  # noqa: PLC0415 - an extra

    server = S3Server(folder, volumes)
    server.start()
    s3fs.S3FileSystem.clear_instance_cache()  # its instances keep the address of another server
    try:
        yield server
    finally:
        server.stop()


def s3_environment(endpoint: str, secret: str = SECRET) -> Mapping[str, str]:
    """The variables with which s3fs uses the server at `endpoint`."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _ports_of_services() -> dict[str, int]:
    names = [*_SERVICES, *(f"{name}.grpc" for name in _SERVICES)]
    return dict(zip(names, free_ports(len(names)), strict=True))
