"""Take `fcntl`, `resource` and /proc away from every Python that has this folder in its path.

psutil may use them, because on other systems it gets the same facts without them.
"""

import errno
import os
import sys
from types import FrameType
from typing import Any

import psutil

sys.modules["fcntl"] = sys.modules["resource"] = None  # type: ignore[assignment] # as a failed import


def _refuse(path: object) -> None:
    if str(path).startswith("/proc") and not _is_for_psutil(sys._getframe()):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _is_for_psutil(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(psutil.__name__):
            return True
        frame = frame.f_back
    return False


_stat = os.stat


def _stat_outside_proc(path: Any, **more: Any) -> os.stat_result:
    _refuse(path)
    return _stat(path, **more)


os.stat = _stat_outside_proc


def _refuse_opening(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        _refuse(arguments[0])


sys.addaudithook(_refuse_opening)
