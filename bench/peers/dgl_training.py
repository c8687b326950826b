"""Epochs of GraphSAGE by GraphBolt's and DGL's loaders: run by the Python of .venv-dgl (`make peers-graphbolt`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import dgl
import dgl.graphbolt as gb
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu_

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from worker import serve

state: dict[str, Any] = {}


def versions() -> str:
    return f"dgl {dgl.__version__}, torch {torch.__version__}"


def load(folder: str, items: list[int], batch_size: int, fanouts: list[int], widths: list[int]) -> None:
    indptr, indices = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy")) for name in ("indptr", "indices"))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(len(indptr) - 1, widths[0], generator=generator)
    y = torch.randint(widths[-1], (len(indptr) - 1,), generator=generator)
    state.update(x=x, y=y, widths=widths)
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(x)})
    # int32 like the graph's indices; fanouts count from the input side here.
    seeds = torch.tensor(items, dtype=torch.int32)
    pipe = gb.ItemSampler(
        gb.ItemSet((seeds, y[seeds.long()]), names=("seed_nodes", "labels")), batch_size, shuffle=True
    )
    graph = gb.fused_csc_sampling_graph(indptr, indices)
    pipe = pipe.sample_neighbor(graph, [torch.LongTensor([fanout]) for fanout in reversed(fanouts)])
    state["GraphBolt"] = gb.DataLoader(pipe.fetch_feature(store, node_feature_keys=["x"]))
    ids = torch.arange(len(indices))
    whole = dgl.graph(("csc", (indptr, indices.long(), ids)), num_nodes=len(indptr) - 1)
    sampler = dgl.dataloading.NeighborSampler(list(reversed(fanouts)))
    state["DGL"] = dgl.dataloading.DataLoader(
        whole.formats("csc"), seeds.long(), sampler, batch_size=batch_size, shuffle=True
    )


class Model(nn.Module):
    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.convs = nn.ModuleList([dgl.nn.SAGEConv(*ends, "mean") for ends in pairwise(widths)])

    def forward(self, blocks: list[Any], h: Tensor) -> Tensor:
        for i, (conv, block) in enumerate(zip(self.convs, blocks, strict=True)):
            h = conv(block, h)
            h = relu_(h) if i < len(self.convs) - 1 else h
        return h


def batches(library: str) -> Iterator[tuple[list[Any], Tensor, Tensor]]:
    """Yield blocks, features and labels of an epoch."""
    if library == "GraphBolt":
        for batch in state[library]:
            yield batch.blocks, batch.node_features["x"], batch.labels
        return
    for inputs, seeds, blocks in state[library]:
        yield blocks, state["x"][inputs], state["y"][seeds]


def epoch(library: str, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    dgl.utils.set_num_threads(threads)
    model = Model(state["widths"])
    optimiser = torch.optim.Adam(model.parameters())
    count = edges = 0
    started = time.perf_counter()
    for blocks, x, y in batches(library):
        optimiser.zero_grad()
        cross_entropy(model(blocks, x), y).backward()
        optimiser.step()
        count += 1
        edges += sum(block.num_edges() for block in blocks)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "batches": count, "edges": edges}


if __name__ == "__main__":
    serve({"versions": versions, "load": load, "epoch": epoch})
