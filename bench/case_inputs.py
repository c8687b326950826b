"""Inputs of the cases of two_builds.py: graphs and rows in bench/cache, made once, the same for both builds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from academic_graph import cached_academic
from graphs import CACHE, cached_csc, cached_weights

#: The graph of products-shaped batches, and one of an eighth of its size for cases that read all edges.
PRODUCTS, EIGHTH = "products", "products-eighth"
#: The graph with types and times, at a share of its sizes: 230,000 nodes and 6 M edges.
ACADEMIC = 0.25
#: Rows in a file for windows and tiers: 128 MiB.
ROWS, ROW_WIDTH = 1 << 17, 256


def products() -> Path:
    """Return the folder of the graph of products-shaped batches."""
    return cached_csc(PRODUCTS)


def weights() -> Path:
    """Return the same folder, with weights of the edges in it."""
    return cached_weights(PRODUCTS).parent


def eighth() -> Path:
    """Return the folder of the graph of an eighth of its size."""
    return cached_csc(EIGHTH)


def academic() -> Path:
    """Return the folder of the graph with types and times."""
    return cached_academic(ACADEMIC)


def rows() -> Path:
    """Return a folder with a graph and ``x.npy``, float32[ROWS, ROW_WIDTH], whose rows are on disk."""
    folder = CACHE / f"rows-{ROWS}-v1"
    if not (folder / "complete").exists():
        from tiering_disk import write_data

        folder.mkdir(parents=True, exist_ok=True)
        write_data(folder, ROWS, ROW_WIDTH)
        (folder / "complete").touch()
    return folder


def arrays(folder: Path, *names: str) -> list[torch.Tensor]:
    """Return arrays of a folder, read into memory."""
    return [torch.from_numpy(np.load(folder / f"{name}.npy")) for name in names]
