"""An SSH server on the loopback interface, with keys of its own."""

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_port, wait_until_open

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
CAN_RUN = SSHD is not None and shutil.which("ssh") is not None

_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/client.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
"""
_CLIENT = """\
Host node1 node2
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/client
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  LogLevel ERROR
Host node1 node2 stranger
  HostName 127.0.0.1
  Port {port}
"""


@contextmanager
def ssh_server(folder: Path) -> Iterator[Path]:
    """A running server. Yields the client's configuration, with the hosts `node1` and `node2`."""
    assert SSHD is not None
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    port, user = free_port(), getpass.getuser()
    (folder / "sshd_config").write_text(_SERVER.format(folder=folder, port=port))
    (folder / "ssh_config").write_text(_CLIENT.format(folder=folder, port=port, user=user))
    key = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "sshd_config")])
    try:
        wait_until_open(port)
        yield folder / "ssh_config"
    finally:
        server.terminate()
        server.wait()
