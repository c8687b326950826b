"""GraphBolt's samplers, for bench/sampling.py: run by the Python of .venv-dgl (`make peers-graphbolt`)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import dgl
import dgl.graphbolt as gb
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from worker import serve

state: dict[str, Any] = {}


def versions() -> str:
    return f"dgl {dgl.__version__}, torch {torch.__version__}"


def load(folder: str) -> None:
    indptr, indices = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy")) for name in ("indptr", "indices"))
    state["graph"] = gb.fused_csc_sampling_graph(indptr, indices)


def sample(rule: str, seeds: list[int], fanouts: list[int], threads: int) -> dict[str, float]:
    """Do what one minibatch goes through in ``sample_neighbor``: a pick and a compaction a hop."""
    torch.set_num_threads(threads)
    graph = state["graph"]
    pick = {"neighbor": graph.sample_neighbors, "labor": graph.sample_layer_neighbors}[rule]
    # int32 like the graph's indices: half the memory traffic.
    nodes = torch.tensor(seeds, dtype=torch.int32)
    edges = 0
    started = time.perf_counter()
    for fanout in fanouts:
        picked = pick(nodes, torch.LongTensor([fanout])).sampled_csc
        nodes, csc = gb.unique_and_compact_csc_formats(picked, nodes)
        edges += csc.indices.numel()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "edges": edges, "inputs": nodes.numel()}


if __name__ == "__main__":
    serve({"versions": versions, "load": load, "sample": sample})
