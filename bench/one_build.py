"""One COO -> CSC conversion by one library in a fresh process: its time, and its peak memory beyond the inputs.

Run by bench/build.py with the Python of the library's environment. NumPy and that library only; Linux only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Prepares the inputs in the library's own form and returns what is timed: it gives indptr, indices and edge ids.
Build = Callable[[], tuple[Any, Any, Any]]


def kernel(src: np.ndarray, dst: np.ndarray, num_nodes: int, threads: int) -> Build:
    """Convert with the kernel that a graph is built with, without the checks of the class."""
    from headrace import ops

    def build() -> tuple[Any, Any, Any]:
        csc = ops.coo_to_csc(src, dst, num_nodes, num_threads=threads)
        return csc.indptr, csc.indices, csc.edge_ids

    return build


def headrace(src: np.ndarray, dst: np.ndarray, num_nodes: int, threads: int) -> Build:
    import headrace as hr

    def build() -> tuple[Any, Any, Any]:
        graph = hr.Graph.from_coo(src, dst, num_nodes=num_nodes, num_threads=threads)
        return graph.indptr, graph.indices, graph.edge_permutation

    return build


def scipy(src: np.ndarray, dst: np.ndarray, num_nodes: int, threads: int) -> Build:
    """Values are the edges' places in the input, so that they come out as edge ids; SciPy adds those of repeated edges.

    It runs on one thread, whatever it is told.
    """
    del threads
    from scipy.sparse import coo_matrix

    places = np.arange(len(src), dtype=src.dtype)

    def build() -> tuple[Any, Any, Any]:
        matrix = coo_matrix((places, (src, dst)), shape=(num_nodes, num_nodes)).tocsc()
        return matrix.indptr, matrix.indices, matrix.data

    return build


def pyg(src: np.ndarray, dst: np.ndarray, num_nodes: int, threads: int) -> Build:
    """Convert as its NeighborLoader does when it is made."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.sampler.utils import to_csc

    torch.set_num_threads(threads)
    # One array of two rows, not a second copy of the inputs.
    edge_index = torch.empty(2, len(src), dtype=torch.from_numpy(src).dtype)
    edge_index[0], edge_index[1] = torch.from_numpy(src), torch.from_numpy(dst)
    data = Data(edge_index=edge_index, num_nodes=num_nodes)

    def build() -> tuple[Any, Any, Any]:
        colptr, row, permutation = to_csc(data)
        return colptr, row, permutation

    return build


def dgl(src: np.ndarray, dst: np.ndarray, num_nodes: int, threads: int) -> Build:
    import dgl as library
    import torch

    torch.set_num_threads(threads)
    ends = torch.from_numpy(src), torch.from_numpy(dst)

    def build() -> tuple[Any, Any, Any]:
        graph = library.graph(ends, num_nodes=num_nodes)
        indptr, indices, edge_ids = graph.formats("csc").adj_tensors("csc")
        return indptr, indices, edge_ids

    return build


LIBRARIES = {"headrace": headrace, "kernel": kernel, "scipy": scipy, "pyg": pyg, "dgl": dgl}


def resident(key: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


def main() -> None:
    library, folder, dtype, num_nodes, threads = sys.argv[1:]
    prepare = LIBRARIES[library]
    few = np.arange(1000, dtype=dtype)
    # Imports, thread pools and first-call set-up are not the conversion's.
    prepare(few, few[::-1].copy(), 1000, int(threads))()
    src, dst = (np.load(Path(folder) / f"{name}.npy").astype(dtype, copy=False) for name in ("src", "dst"))
    build = prepare(src, dst, int(num_nodes), int(threads))
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    started = time.perf_counter()
    indptr, indices, _edge_ids = build()
    seconds = time.perf_counter() - started
    peak = resident("VmHWM") - before
    degrees = np.diff(np.asarray(indptr))
    if len(degrees) != int(num_nodes) or int(degrees.sum()) != len(indices):
        raise ValueError(f"{library}: expected a graph of {num_nodes} nodes, got indptr of {len(degrees)}")
    print(json.dumps({"seconds": seconds, "peak": peak, "edges": len(indices)}))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", sys.argv[5])
    main()
