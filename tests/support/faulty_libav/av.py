"""libav with faults: opening a file whose name contains a fault fails in that way.

A child process imports this module instead of PyAV if this folder is in the import path before it.
All other files are opened with PyAV.
"""

import importlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.remove(str(Path(__file__).parent))
del sys.modules["av"]
_libav: Any = importlib.import_module("av")
_open = _libav.open


def _open_with_faults(file: str, *arguments: Any, **options: Any) -> Any:
    name = Path(file).stem
    if "crashes" in name:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "is killed" in name:
        os.kill(os.getpid(), signal.SIGKILL)
    if "exits" in name:
        os._exit(3)
    if "hangs" in name:
        time.sleep(600)
    if "needs all memory" in name:
        bytearray(1 << 50)
    if "prints" in name:
        os.write(1, b"noise on standard output")
    return _open(file, *arguments, **options)


_libav.open = _open_with_faults
