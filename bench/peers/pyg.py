"""torch-sparse's sampler, the one behind PyG where pyg-lib is missing, and PyG's NeighborLoader over it.

Run by the Python of .venv-torch-sparse (`make peers-torch-sparse`). Not named after torch_sparse, which it would hide.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric
import torch_sparse
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from work import identified, table
from worker import serve

state: dict[str, Any] = {}


def versions() -> str:
    return (
        f"torch-sparse {torch_sparse.__version__}, torch-geometric {torch_geometric.__version__}, "
        f"torch {torch.__version__}"
    )


def load(folder: str) -> None:
    colptr, row = (np.load(Path(folder) / f"{name}.npy") for name in ("indptr", "indices"))
    # It takes int64 alone.
    state["csc"] = torch.from_numpy(colptr), torch.from_numpy(row).long()


def sample(seeds: list[int], fanouts: list[int], threads: int) -> dict[str, float]:
    """Sample all hops in one call: only nodes that a hop discovered are expanded by the next."""
    torch.set_num_threads(threads)
    nodes = torch.tensor(seeds)
    started = time.perf_counter()
    n_id, row, _, _ = torch.ops.torch_sparse.neighbor_sample(*state["csc"], nodes, fanouts, False, True)
    return {"seconds": time.perf_counter() - started, "edges": row.numel(), "inputs": n_id.numel()}


class Topology(NeighborLoader):
    """NeighborLoader takes COO and sorts it; what it then samples from is replaced by the CSC that is there already."""

    def __init__(self, csc: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor, **options: Any) -> None:
        super().__init__(Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long)), **options)
        self.node_sampler.colptr, self.node_sampler.row = csc
        self.node_sampler.perm = None


def make_loader(name: str, items: list[int], batch_size: int, fanouts: list[int], width: int, workers: int) -> None:
    if "x" not in state or state["x"].shape[1] != width:
        state["x"] = table(state["csc"][0].numel() - 1, width)
    state[name] = Topology(
        state["csc"],
        state["x"],
        num_neighbors=fanouts,
        input_nodes=torch.tensor(items),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def epoch(name: str, threads: int, check: bool) -> dict[str, float]:
    torch.set_num_threads(threads)
    batches = edges = rows = 0
    started = time.perf_counter()
    for batch in state[name]:
        batches += 1
        edges += batch.edge_index.shape[1]
        rows += batch.x.shape[0]
        if check:
            identified(batch.x, batch.n_id)
    return {"seconds": time.perf_counter() - started, "batches": batches, "edges": edges, "inputs": rows}


if __name__ == "__main__":
    serve({"versions": versions, "load": load, "sample": sample, "make_loader": make_loader, "epoch": epoch})
