"""Hypothesis strategies for graphs of every nasty kind, shared by all tests.

Graphs are small (up to about 40 nodes and 300 edges) and come in shapes that break samplers: no nodes, no edges,
isolated nodes, self-loops, repeated edges, hubs on either side, sorted and unsorted lists, int32 and int64, strided
arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from headrace.ext import LaborImportanceRule, LaborRule, LadiesRule, NeighborRule

keys = st.integers(0, 2**64 - 1)
thread_counts = st.sampled_from([1, 2, 4])
expands = st.sampled_from(["all", "new"])


@dataclass(frozen=True)
class EdgeList:
    """src, dst: int32[num_edges] or int64[num_edges]."""

    src: torch.Tensor
    dst: torch.Tensor
    num_nodes: int

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.src.numel()


@dataclass(frozen=True)
class CscGraph:
    """indptr: int64[num_nodes + 1], indices: int32 or int64[num_edges], edge_ids likewise or None."""

    indptr: torch.Tensor
    indices: torch.Tensor
    edge_ids: torch.Tensor | None
    num_nodes: int

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.indices.numel()


_SHAPES = (
    "uniform",
    "self loops",
    "repeated edges",
    "hub destination",
    "hub source",
    "star both ways",
    "no edges",
    "path",
)


def _endpoints(
    shape: str, num_nodes: int, num_edges: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    src, dst = random.integers(0, num_nodes, (2, num_edges))
    hub = random.integers(0, num_nodes)
    if shape == "self loops":
        loops = random.random(num_edges) < 0.5
        src = np.where(loops, dst, src)
    elif shape == "repeated edges":
        repeat = random.integers(0, max(1, num_edges // 8), num_edges)
        src, dst = src[repeat], dst[repeat]
    elif shape == "hub destination":
        dst = np.where(random.random(num_edges) < 0.8, hub, dst)
    elif shape == "hub source":
        src = np.where(random.random(num_edges) < 0.8, hub, src)
    elif shape == "star both ways":
        inward = random.random(num_edges) < 0.5
        src, dst = np.where(inward, src, hub), np.where(inward, hub, dst)
    elif shape == "path":
        src = np.arange(num_edges) % num_nodes
        dst = (src + 1) % num_nodes
    return src, dst


def _strided(values: np.ndarray, layout: str) -> torch.Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if layout == "contiguous":
        return tensor
    wide = torch.full((tensor.numel(), 3), -7, dtype=tensor.dtype)
    wide[:, 1] = tensor
    return wide[:, 1]


@st.composite
def edge_lists(
    draw, *, min_nodes: int = 0, max_nodes: int = 40, max_edges: int = 300, strided: bool = True
) -> EdgeList:
    """Edge lists, also unsorted, strided, of either dtype."""
    num_nodes = draw(st.integers(min_nodes, max_nodes), label="num_nodes")
    shape = draw(st.sampled_from(_SHAPES), label="shape")
    num_edges = 0 if num_nodes == 0 or shape == "no edges" else draw(st.integers(0, max_edges), label="num_edges")
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="graph seed"))
    src, dst = _endpoints(shape, num_nodes, num_edges, random) if num_edges else (np.empty(0, np.int64),) * 2
    if draw(st.booleans(), label="sorted"):
        order = np.argsort(dst, kind="stable")
        src, dst = src[order], dst[order]
    dtype = draw(st.sampled_from([np.int32, np.int64]), label="dtype")
    layout = draw(st.sampled_from(["contiguous", "strided"]), label="layout") if strided else "contiguous"
    return EdgeList(_strided(src.astype(dtype), layout), _strided(dst.astype(dtype), layout), num_nodes)


@st.composite
def csc_graphs(draw, *, min_nodes: int = 0, max_nodes: int = 40, max_edges: int = 300) -> CscGraph:
    """CSC graphs with indices and edge ids of either width, or without edge ids."""
    edges = draw(edge_lists(min_nodes=min_nodes, max_nodes=max_nodes, max_edges=max_edges, strided=False))
    dst, ids = edges.dst.long().sort(stable=True)
    indptr = torch.searchsorted(dst, torch.arange(edges.num_nodes + 1))
    width = draw(st.sampled_from([torch.int32, torch.int64]), label="index dtype")
    ids_kind = draw(st.sampled_from(["none", "int32", "int64"]), label="edge ids")
    return CscGraph(
        indptr,
        edges.src[ids].to(width),
        {"none": None, "int32": ids.int(), "int64": ids}[ids_kind],
        edges.num_nodes,
    )


@st.composite
def nodes_of(draw, graph: CscGraph, *, unique: bool = True, max_size: int = 12) -> torch.Tensor:
    """int64 node ids of a graph, none for a graph of no nodes."""
    if graph.num_nodes == 0:
        return torch.empty(0, dtype=torch.int64)
    ids = st.integers(0, graph.num_nodes - 1)
    return torch.tensor(draw(st.lists(ids, unique=unique, max_size=max_size), label="nodes"), dtype=torch.int64)


@st.composite
def edge_weights(draw, graph: CscGraph) -> torch.Tensor:
    """Weights in CSC order, of either width: with zeros, equal values, tiny and huge ones."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="weight seed"))
    kind = draw(st.sampled_from(["random", "zeros", "some zeros", "equal", "wide range"]), label="weights")
    values = {
        "random": random.random(graph.num_edges),
        "zeros": np.zeros(graph.num_edges),
        "some zeros": random.random(graph.num_edges) * (random.random(graph.num_edges) < 0.5),
        "equal": np.full(graph.num_edges, 0.3),
        "wide range": 10.0 ** random.uniform(-30, 30, graph.num_edges),
    }[kind]
    return torch.from_numpy(values).to(draw(st.sampled_from([torch.float32, torch.float64]), label="weight dtype"))


def rules(max_fanout: int = 8) -> st.SearchStrategy[object]:
    """Every rule of sampling, with fan-outs from -1 (all) and 0 upwards."""
    fanouts = st.integers(-1, max_fanout)
    return st.one_of(
        st.builds(NeighborRule, fanouts, st.booleans()),
        st.builds(LaborRule, fanouts, st.booleans()),
        labor_importance_rules(fanouts),
        st.builds(LadiesRule, st.integers(-1, 4 * max_fanout), st.booleans()),
    )


def labor_importance_rules(fanouts: st.SearchStrategy[int]) -> st.SearchStrategy[LaborImportanceRule]:
    """LABOR-1, -2, -3 and LABOR-*."""
    return st.builds(LaborImportanceRule, fanouts, st.sampled_from([1, 2, 3, "*"]))
