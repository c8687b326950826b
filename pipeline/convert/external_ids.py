"""The users' own ids of nodes as arrays: values, of texts their bytes and starts, and the order of the ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.convert.database import Database

#: The array of a piece, and its rows.
Piece = tuple[str, NDArray[Any]]


def integer_keys(base: Database, keys: str) -> Iterator[Piece]:
    """Yield keys that are integers, by node."""
    for batch in base.batches(f"SELECT key FROM {keys} ORDER BY node"):
        yield "values", batch.column(0).to_numpy()


@dataclass(frozen=True, eq=False)
class ExternalTexts:
    """Keys that are texts, by node."""

    base: Database
    keys: str
    num_bytes: int

    def pieces(self) -> Iterator[Piece]:
        """Yield their bytes in UTF-8, and where each begins."""
        import pyarrow as pa

        yield "starts", np.zeros(1, np.int64)
        end = 0
        for batch in self.base.batches(f"SELECT key FROM {self.keys} ORDER BY node"):
            texts = batch.column(0).cast(pa.large_binary())
            offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
            yield "values", np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
            yield "starts", offsets[1:] - offsets[0] + end
            end += int(offsets[-1] - offsets[0])


def external_texts(base: Database, keys: str) -> ExternalTexts:
    """Return keys that are texts."""
    return ExternalTexts(base, keys, base.value(f"SELECT coalesce(sum(strlen(key)), 0)::BIGINT FROM {keys}"))


class OrderOfKeys:
    """The nodes in the order of their keys.

    Attributes
    ----------
    is_ascending
        Whether keys are in that order by node, once all are known.
    """

    def __init__(self, base: Database, keys: str) -> None:
        self._base, self._keys = base, keys
        self.is_ascending = True

    def pieces(self) -> Iterator[Piece]:
        """Yield them."""
        start = 0
        for batch in self._base.batches(f"SELECT node FROM {self._keys} ORDER BY key"):
            nodes = batch.column(0).to_numpy()
            self.is_ascending = self.is_ascending and bool((nodes == np.arange(start, start + len(nodes))).all())
            start += len(nodes)
            yield "order", nodes
