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
from dgl.graphbolt.internal import compact_csc_format

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from work import identified, table
from worker import serve

state: dict[str, Any] = {}


def versions() -> str:
    return f"dgl {dgl.__version__}, torch {torch.__version__}"


def load(folder: str, weights: str | None = None, types: dict[str, Any] | None = None) -> None:
    def array(name: str) -> torch.Tensor:
        return torch.from_numpy(np.load(Path(folder) / f"{name}.npy"))

    indptr, indices = array("indptr"), array("indices")
    if types is not None:
        nodes, edges = types["nodes"], [":".join(edge[:3]) for edge in types["edges"]]
        for name, ids in (("graph", {}), ("graph with ids", {gb.base.ORIGINAL_EDGE_ID: array("edge_ids")})):
            state[name] = gb.fused_csc_sampling_graph(
                indptr,
                indices,
                node_type_offset=torch.tensor([0, *nodes.values()]).cumsum(0),
                type_per_edge=array("relations"),
                node_type_to_id={name: number for number, name in enumerate(nodes)},
                edge_type_to_id={name: number for number, name in enumerate(edges)},
                edge_attributes={"time": array("times"), **ids},
            )
        return
    of_edges = None if weights is None else {"weight": torch.from_numpy(np.load(weights))}
    state["graph"] = gb.fused_csc_sampling_graph(indptr, indices, edge_attributes=of_edges)


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


def sample_typed(
    of_type: str, seeds: list[int], times: list[int] | None, fanouts: list[int], edge_ids: bool, threads: int
) -> dict[str, float]:
    """Do what one minibatch goes through in ``sample_neighbor`` or ``temporal_sample_neighbor``."""
    torch.set_num_threads(threads)
    graph = state["graph with ids" if edge_ids else "graph"]

    def of_types(values: list[int], dtype: torch.dtype) -> dict[str, torch.Tensor]:
        return {name: torch.tensor(values if name == of_type else [], dtype=dtype) for name in graph.node_type_to_id}

    nodes = of_types(seeds, torch.int32)
    stamps = None if times is None else of_types(times, torch.int64)
    edges = 0
    started = time.perf_counter()
    for fanout in fanouts:
        each = torch.full((len(graph.edge_type_to_id),), fanout)
        if stamps is None:
            picked = graph.sample_neighbors(nodes, each).sampled_csc
            nodes, csc = gb.unique_and_compact_csc_formats(picked, nodes)
        else:
            picked = graph.temporal_sample_neighbors(nodes, stamps, each, edge_timestamp_attr_name="time").sampled_csc
            nodes, csc, stamps = compact_csc_format(picked, nodes, stamps)
        edges += sum(one.indices.numel() for one in csc.values())
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "edges": edges, "inputs": sum(ids.numel() for ids in nodes.values())}


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
    serve(
        {
            "versions": versions,
            "load": load,
            "sample": sample,
            "sample_typed": sample_typed,
            "make_loader": make_loader,
            "epoch": epoch,
        }
    )
