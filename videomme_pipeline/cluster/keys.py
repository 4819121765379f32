"""Keys of TLS that are made for one cluster."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Security

_PARTS = ("ca_file", "cert", "key")


def temporary_security(folder: Path) -> "Security":
    """New keys for the scheduler, the workers and the client of a cluster.

    They are files in `folder` that only this user can read, so that workers on other machines read
    them there. No key is on a command line.
    """
    from distributed import Security  # noqa: PLC0415 - an extra

    texts = Security.temporary().get_tls_config_for_role("worker")
    files = {part: folder / f"{part}.pem" for part in _PARTS}
    for part, file in files.items():
        file.touch(mode=0o600)
        file.write_text(texts[part], encoding="ascii")
    roles = {
        f"tls_{role}_{part}": str(files[part])
        for role in ("scheduler", "worker", "client")
        for part in ("cert", "key")
    }
    return Security(tls_ca_file=str(files["ca_file"]), require_encryption=True, **roles)
