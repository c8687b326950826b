"""The bytes of a file of text on their way to a reader of CSV: unpacked, without comments, and counted."""

from __future__ import annotations

import io
import re
from array import array
from bisect import bisect_right
from pathlib import Path
from typing import Any

from headrace.ops import InputError

#: Endings of packed files, and what pyarrow calls their packing.
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

#: What stands for a separator of several bytes: the unit separator of ASCII, which texts do not have.
UNIT = "\x1f"

_BLOCK = 1 << 18


def packing_of(path: Path) -> str | None:
    """Return how a file is packed; None if it is not."""
    return PACKED.get(path.suffix.lower())


def unpacked_name(path: Path) -> str:
    """Return the name of a file without the ending of its packing, in lower case."""
    name = path.name.lower()
    return name.removesuffix(path.suffix.lower()) if packing_of(path) else name


class CsvText(io.RawIOBase):
    """A file of text, for a reader of CSV.

    Attributes
    ----------
    num_quotes, num_lines
        Of what was read so far. A line may lack its end at the end of the file.
    """

    def __init__(self, path: Path, separator: str, comment: str | None) -> None:
        import pyarrow as pa

        self._path = path
        self._file = pa.OSFile(str(path), "rb")
        self._stream: Any = self._file
        if packing := packing_of(path):
            self._stream = pa.CompressedInputStream(self._file, packing)
        self._separator = separator.encode() if len(separator.encode()) > 1 else b""
        self._comment = comment.encode() if comment else None
        self._is_quoted = False  # the end of what was read, so that a line there is none of its own
        self._ready = memoryview(b"")
        self._tail = b""  # of a line whose end was not read yet
        self._is_read = False
        self._last = b"\n"
        self._comments = array("q")  # of each, how many lines before it were none
        self.num_quotes = self.num_lines = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes, at least one before the end."""
        while not self._ready and not self._is_read:
            self._ready = memoryview(self._next())
        view = memoryview(buffer).cast("B")
        size = min(len(view), len(self._ready))
        view[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def share_read(self) -> float:
        """Return which share of the file was read, of a packed one before it is unpacked."""
        return float(self._file.tell()) / max(1, self._path.stat().st_size)

    def line_of(self, number: int) -> int:
        """Return the line of the file that a line is which readers get, of those that were read; both from 1."""
        return number + bisect_right(self._comments, number - 1)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._stream.close()
            self._file.close()
        super().close()

    def _next(self) -> bytes:
        block = bytes(self._stream.read(_BLOCK))
        self._is_read = not block
        if self._separator or self._comment:
            # Both may be cut in two by the end of a block, and lines are not.
            block = self._tail + block
            end = len(block) if self._is_read else block.rfind(b"\n") + 1
            block, self._tail = block[:end], block[end:]
            block = self._without_comments(block, self._comment) if self._comment else block
            if self._separator:
                if UNIT.encode() in block:
                    raise InputError(
                        f"convert: {self._path}: expected a text without the character 0x1F beside the separator "
                        f"{self._separator.decode()!r}; write the file with a separator of one character"
                    )
                block = block.replace(self._separator, UNIT.encode())
        self.num_quotes += block.count(b'"')
        self.num_lines += block.count(b"\n") + (self._is_read and self._last != b"\n")
        self._last = block[-1:] or self._last
        return block

    def _without_comments(self, block: bytes, comment: bytes) -> bytes:
        kept, count = [], self.num_lines
        if self._separator or not (self._is_quoted or b'"' in block):
            start = 0
            for found in re.finditer(rb"(?m)^" + re.escape(comment) + rb"[^\n]*\n?", block):
                kept.append(block[start : found.start()])
                count += kept[-1].count(b"\n")
                self._comments.append(count)
                start = found.end()
            return b"".join([*kept, block[start:]])
        for line in block.splitlines(keepends=True):
            if not self._is_quoted and line.startswith(comment):
                self._comments.append(count)
                continue
            kept.append(line)
            count += line.count(b"\n")
            self._is_quoted ^= bool(line.count(b'"') % 2)
        return b"".join(kept)
