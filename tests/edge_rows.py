"""Rows of edges between two tables, of every nasty kind, and tables of rows, for tests of aggregations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

WIDTHS = [1, 3, 8, 64, 100]
DTYPES = [torch.float32, torch.float64]


@dataclass(frozen=True)
class EdgeRows:
    """indptr: int64[num_dst + 1], indices: int32 or int64[num_edges] in [0, num_src)."""

    indptr: torch.Tensor
    indices: torch.Tensor
    num_src: int

    @property
    def num_dst(self) -> int:
        """Rows."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Edges."""
        return len(self.indices)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """What oracles take."""
        return self.indptr.numpy(), self.indices.numpy()


def rows_of(degrees: np.ndarray, num_src: int, random: np.random.Generator, dtype=torch.int64) -> EdgeRows:
    """Rows of these degrees, with sources drawn at random: some of them several times."""
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    indices = random.integers(0, max(num_src, 1), indptr[-1])
    return EdgeRows(torch.from_numpy(indptr), torch.from_numpy(indices).to(dtype), num_src)


@st.composite
def edge_rows(draw, max_rows: int = 12) -> EdgeRows:
    """Few rows or none, most short, some empty, at times one of more edges than a segment; repeated edges."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="graph seed"))
    num_dst, num_src = draw(st.integers(0, max_rows)), draw(st.integers(0, max_rows))
    degrees = random.integers(0, draw(st.integers(1, 6)), num_dst) if num_src else np.zeros(num_dst, np.int64)
    if num_src and num_dst and draw(st.booleans(), label="hub"):
        degrees[random.integers(num_dst)] = draw(st.integers(20, 80))
    return rows_of(degrees, num_src, random, draw(st.sampled_from([torch.int32, torch.int64])))


@st.composite
def tables(draw, num_rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Values of all sizes, so that another order of additions would show; also strided or misaligned."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    values = torch.randn(num_rows, *shape, dtype=dtype, generator=generator)
    values = values * 10.0 ** torch.randint(-3, 4, values.shape, generator=generator)
    match draw(st.sampled_from(["plain", "strided", "misaligned", "negated"])):
        case "strided":
            wide = torch.full((num_rows, *shape, 2), torch.nan, dtype=dtype)
            wide[..., 0] = values
            return wide[..., 0]
        case "misaligned" if values.numel():
            memory = torch.frombuffer(bytearray(values.nbytes + 1), dtype=dtype, offset=1, count=values.numel())
            return memory.view(values.shape).copy_(values)
        case "negated":
            return torch.complex(torch.zeros_like(values), -values).conj().imag
        case _:
            return values
