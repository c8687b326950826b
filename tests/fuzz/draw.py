"""Random arguments for the fuzzer: small graphs, and every way to get an argument wrong."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

MAX_NODES, MAX_EDGES = 12, 60
# Enough that hops are cut into pieces for several threads and edges into buckets.
LARGE_NODES, LARGE_EDGES = 3_000, 40_000


@dataclass(frozen=True)
class Graph:
    """indptr: int64[num_nodes + 1], indices: int32 or int64[num_edges]; sometimes damaged."""

    indptr: np.ndarray
    indices: np.ndarray
    num_nodes: int

    @property
    def num_edges(self) -> int:
        """Number of entries of indices."""
        return len(self.indices)


class Draw:
    """The choices of one call: a function of the given source alone, so that an equal one reproduces the call."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def one_of(self, *options: Any) -> Any:
        """Any of the options."""
        return self.random.choice(options)

    def integer(self, low: int, high: int) -> int:
        """Of [low, high]; its ends more often than others."""
        return self.one_of(low, high) if self.chance(0.2) else self.random.randint(low, high)

    def edge_of_range(self) -> int:
        """Integers around the ends of the widths in use."""
        power = self.one_of(0, 1, 8, 16, 31, 32, 53, 60, 61, 62, 63, 64, 70)
        return self.one_of(1, -1) * ((1 << power) + self.one_of(-1, 0, 1))

    def key(self) -> int:
        """A stream key."""
        return self.random.getrandbits(64)

    def threads(self) -> int:
        """A thread count; most calls are of one thread, which is fast."""
        return self.one_of(1, 1, 1, 2, 3)

    def ids(self, count: int, num_nodes: int, dtype: Any = np.int64) -> np.ndarray:
        """Node ids, now and then one that is none."""
        if num_nodes == 0 and not self.chance(0.1):
            count = 0
        values = self._below(max(num_nodes, 1), count).astype(dtype)
        if count and self.chance(0.1):
            largest = np.iinfo(dtype).max
            values[self.random.randrange(count)] = self.one_of(-1, min(num_nodes, largest), largest, -largest - 1)
        return values

    def _below(self, bound: int, count: int) -> np.ndarray:
        """int64[count] of [0, bound). Many at once are of a generator of their own: one by one they take 0.1 s."""
        if count > LARGE_NODES:
            return np.random.default_rng(self.key()).integers(bound, size=count)
        return np.array([self.random.randrange(bound) for _ in range(count)], np.int64)

    def unique_ids(self, num_nodes: int) -> np.ndarray:
        """Seeds: distinct node ids, rarely one of them twice or no node."""
        values = self.random.sample(range(num_nodes), self.integer(0, num_nodes))
        if values and self.chance(0.05):
            values.append(self.one_of(values[0], -1, num_nodes, 1 << 62))
        return np.array(values, np.int64)

    def graph(self, *, large: bool = False) -> Graph:
        """Any graph of up to 12 nodes, or a large one; in one of four calls with damaged arrays."""
        num_nodes, num_edges = self.integer(0, MAX_NODES), self.integer(0, MAX_EDGES)
        if large:
            num_nodes, num_edges = LARGE_NODES, LARGE_EDGES
        if num_nodes == 0:
            num_edges = 0
        hub = self.chance(0.5)
        rows = self._below(num_nodes, num_edges)
        if hub:
            rows[self._below(10, num_edges) < 7] = 0
        degrees = np.bincount(rows, minlength=num_nodes)
        indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
        indices = self._below(num_nodes, num_edges).astype(self.one_of(np.int32, np.int64))
        if self.chance(0.25):
            indptr, indices = self._damaged_graph(indptr, indices)
        return Graph(indptr, indices, num_nodes)

    def _damaged_graph(self, indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bad = self.one_of(-1, -(2**40), 2**40, 2**63 - 1, -(2**63), len(indices) + 1)
        match self.integer(0, 5):
            case 0:
                indptr[self.random.randrange(len(indptr))] = bad
            case 1:
                self.random.shuffle(indptr)
            case 2:
                indptr = indptr[: self.random.randrange(len(indptr) + 1)]
            case 3:
                indices = indices[: self.random.randrange(len(indices) + 1)]
            case 4 if len(indices):
                narrow = int(np.clip(bad, np.iinfo(indices.dtype).min, np.iinfo(indices.dtype).max))
                indices[self.random.randrange(len(indices))] = narrow
            case _:
                indptr = np.full(len(indptr), bad, np.int64)
        return indptr, indices

    def weights(self, count: int) -> np.ndarray:
        """Edge weights: mostly good, else negative, infinite, not a number or of another length."""
        fractions = self._below(1 << 16, count) / 65537  # no power of two: sums of them are rounded
        values = np.choose(self._below(5, count), [0.0, 1.0, fractions, 1e-30, 1e30])
        if self.chance(0.2) and count:
            bad = self.one_of(math.nan, math.inf, -math.inf, -1.0, 1e308, 5e-324)
            values[self.random.randrange(count) :: self.integer(1, 3)] = bad
        if self.chance(0.1):
            values = np.resize(values, self.integer(0, count + 3)) if count else np.ones(self.integer(0, 3))
        return values.astype(self.one_of(np.float32, np.float64))

    # --- wrong arguments ----------------------------------------------------------------------------------------------

    def hostile(self) -> Any:
        """A value that is no argument of anything."""
        return self.one_of(
            None,
            True,
            self.edge_of_range(),
            1.5,
            math.nan,
            -math.inf,
            1j,
            "1",
            "\N{SNOWMAN}\0\ud800",
            b"\xff",
            [],
            [0, 1],
            [None],
            {},
            object(),
            np.int64(-1),
            np.float32(math.nan),
            np.array(3),
            np.array(["a", "\N{SNOWMAN}"]),
            np.array([None, {}], dtype=object),
            np.zeros(3, dtype=[("a", "i8"), ("b", "f4")]),
            np.array(["2020-01-01"], dtype="M8[s]"),
            torch.tensor(3),
            torch.empty(2, dtype=torch.int64, device="meta"),
            torch.tensor([0, 1]).to_sparse(),
            torch.tensor([1j, 2j]).conj().imag,
            self.random,
        )

    def layout(self, array: Any, *, aligned: bool) -> Any:
        """The same values in other memory: strided, reversed, read-only, misaligned, a tensor."""
        values = np.asarray(array)
        if values.ndim != 1 or values.dtype == object:
            return array
        wide = np.zeros((len(values), 3), values.dtype)
        wide[:, 1] = values
        shifted = np.ndarray(len(values), values.dtype, np.zeros(values.nbytes + 1, np.uint8), offset=1)
        shifted[:] = values
        frozen = values.copy()
        frozen.flags.writeable = False
        mapped = np.ma.MaskedArray(values)
        options: list[Any] = [wide[:, 1], values[::-1], frozen, mapped]
        if values.dtype.kind in "iufcb" and values.dtype.isnative:
            options.append(torch.from_numpy(values.copy()))
        return self.one_of(*options, *([] if aligned else [shifted]))

    def damaged(self, value: Any, *, aligned: bool) -> Any:
        """Another value for an argument: another layout, dtype or shape of an array, or anything at all."""
        if isinstance(value, np.ndarray) and value.ndim == 1 and self.chance(0.8):
            match self.integer(0, 6):
                case 0:
                    return value.astype(self.one_of("i1", "u4", "u8", "f2", "f4", "f8", "c8", "?", "O", ">i8", ">f4"))
                case 1:
                    return value.reshape(1, -1) if self.chance(0.5) else value.reshape(-1, 1)
                case 2:
                    return value[: self.random.randrange(len(value) + 1)]
                case 3:
                    return np.concatenate([value, value[:1], value])
                case 4:
                    return np.broadcast_to(value[:1], self.integer(0, 9)) if len(value) else value
                case _:
                    return self.layout(value, aligned=aligned)
        if isinstance(value, int) and self.chance(0.7):
            return self.edge_of_range()
        if isinstance(value, list) and self.chance(0.7):
            return self.one_of(value[:-1], value + value, [self.hostile()], [*value[1:], self.hostile()])
        return self.hostile()
