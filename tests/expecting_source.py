"""A feature source that notes what is announced to it."""

from __future__ import annotations

import headrace as hr

from plans import store

CPU = hr.Place("cpu")


class Expecting:
    """A source that wants to know its next reads."""

    foresight = 200  # rows: three batches or so

    def __init__(self) -> None:
        self._rows = store().node["x"]
        self.expected: list[list[int]] = []
        self.asked: list[list[int]] = []
        self.num_rows, self.row_bytes = self._rows.num_rows, self._rows.row_bytes
        self.dtype, self.shape = self._rows.dtype, self._rows.shape

    def read(self, ids, *, num_threads=1, to=CPU):
        self.asked.append(ids.tolist())
        return self._rows.read(ids, num_threads=num_threads, to=to)

    def content_digest(self):
        return self._rows.content_digest()

    def expect(self, ids):
        self.expected.append(ids.tolist())

    def expect_nothing(self):
        self.expected.clear()
