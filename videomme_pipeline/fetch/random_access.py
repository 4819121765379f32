"""Seekable binary files that read bytes from elsewhere, such as the parts of a split archive."""

import io
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import IO, Any

BinaryFile = IO[bytes] | io.RawIOBase


class RandomAccessFile(io.RawIOBase):
    """A file of `size_bytes`, of which a subclass reads any range."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self._size, self._position = size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        stop = min(self._position + len(buffer), self._size)
        data = self._range(self._position, stop) if self._position < stop else b""
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _range(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to before `stop`. There is at least one."""
        raise NotImplementedError


class JoinedFile(RandomAccessFile):
    """The bytes of `parts` in order. Each part has its file and its size."""

    def __init__(self, parts: Sequence[tuple[BinaryFile, int]]) -> None:
        bounds = [0, *accumulate(size for _, size in parts)]
        super().__init__(bounds[-1])
        self._parts = [
            (file, *span) for (file, _), span in zip(parts, pairwise(bounds), strict=True)
        ]

    def _range(self, start: int, stop: int) -> bytes:
        read = []
        for file, first, end in self._parts:
            if start < end and first < stop:
                file.seek(max(start, first) - first)
                read.append(file.read(min(stop, end) - max(start, first)) or b"")
        return b"".join(read)

    def close(self) -> None:
        for file, _, _ in self._parts:
            file.close()
        super().close()
