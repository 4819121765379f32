"""Several files that are read as one, such as the parts of a split archive."""

import io
import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import IO, Any

BinaryFile = IO[bytes] | io.RawIOBase


class JoinedFile(io.RawIOBase):
    """The bytes of `parts` in order, as one seekable file. Each part has its file and its size."""

    def __init__(self, parts: Sequence[tuple[BinaryFile, int]]) -> None:
        super().__init__()
        self._files = [file for file, _ in parts]
        self._starts = [0, *accumulate(size for _, size in parts)]
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._starts[-1]}
        self._place = max(0, origins[whence] + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        filled = 0
        while filled < len(buffer) and self._place < self._starts[-1]:
            part = bisect_right(self._starts, self._place) - 1
            rest = self._starts[part + 1] - self._place
            self._files[part].seek(self._place - self._starts[part], os.SEEK_SET)
            data = self._files[part].read(min(rest, len(buffer) - filled)) or b""
            if not data:
                break
            buffer[filled : filled + len(data)] = data
            filled += len(data)
            self._place += len(data)
        return filled

    def close(self) -> None:
        for file in self._files:
            file.close()
        super().close()
