"""GraphBolt's samplers and its DataLoader: run by the Python of .venv-dgl (`make peers-graphbolt`)."""

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

from work import identified, table
from worker import serve

state: dict[str, Any] = {}


def versions() -> str:
    return f"dgl {dgl.__version__}, torch {torch.__version__}"


def load(folder: str, weights: str | None = None) -> None:
    indptr, indices = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy")) for name in ("indptr", "indices"))
    edges = None if weights is None else {"weight": torch.from_numpy(np.load(weights))}
    state["graph"] = gb.fused_csc_sampling_graph(indptr, indices, edge_attributes=edges)


def sample(rule: str, seeds: list[int], fanouts: list[int], threads: int) -> dict[str, float]:
    """Do what one minibatch goes through in ``sample_neighbor``: a pick and a compaction a hop."""
    torch.set_num_threads(threads)
    graph = state["graph"]
    pick = graph.sample_layer_neighbors if rule == "labor" else graph.sample_neighbors
    probs = "weight" if rule == "weighted" else None
    # int32 like the graph's indices: half the memory traffic.
    nodes = torch.tensor(seeds, dtype=torch.int32)
    edges = 0
    started = time.perf_counter()
    for fanout in fanouts:
        picked = pick(nodes, torch.LongTensor([fanout]), probs_name=probs).sampled_csc
        nodes, csc = gb.unique_and_compact_csc_formats(picked, nodes)
        edges += csc.indices.numel()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "edges": edges, "inputs": nodes.numel()}


def make_loader(name: str, items: list[int], batch_size: int, fanouts: list[int], width: int, workers: int) -> None:
    graph = state["graph"]
    if "x" not in state or state["x"].shape[1] != width:
        state["x"] = table(graph.total_num_nodes, width)
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(state["x"])})
    # int32 like the graph's indices; fanouts count from the input side here.
    pipe = gb.ItemSampler(gb.ItemSet(torch.tensor(items, dtype=torch.int32), names="seeds"), batch_size, shuffle=True)
    pipe = pipe.sample_neighbor(graph, [torch.LongTensor([fanout]) for fanout in reversed(fanouts)])
    pipe = pipe.fetch_feature(store, node_feature_keys=["x"])
    state[name] = gb.DataLoader(pipe, num_workers=workers)


def epoch(name: str, threads: int, check: bool) -> dict[str, float]:
    torch.set_num_threads(threads)
    batches = edges = rows = 0
    started = time.perf_counter()
    for batch in state[name]:
        batches += 1
        edges += sum(hop.sampled_csc.indices.numel() for hop in batch.sampled_subgraphs)
        rows += batch.node_features["x"].shape[0]
        if check:
            identified(batch.node_features["x"], batch.input_nodes)
    return {"seconds": time.perf_counter() - started, "batches": batches, "edges": edges, "inputs": rows}


if __name__ == "__main__":
    serve({"versions": versions, "load": load, "sample": sample, "make_loader": make_loader, "epoch": epoch})
