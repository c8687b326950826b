"""Nodes and edges of all types, type by type: PyG's ``HeteroSamplerOutput``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput

from headrace.pipeline.compat.pyg.flat_output import FlatOutput
from headrace.pipeline.data.typed_ids import TypedIds, count_by_hop


def hetero_output(flat: FlatOutput, types: TypedIds, *, counted: bool = True) -> HeteroSamplerOutput:
    """Return what was sampled, of each type: nodes and edges stay in their order.

    Parameters
    ----------
    flat
        Nodes and edges of all types.
    types
        The types of the nodes.
    counted
        Whether hops are told apart.
    """
    assert flat.edge is not None  # types are known by edge ids
    node_names: Any = types.node_types.names
    edge_names: Any = types.edge_types.names
    edge_number = types.edge_types.numbers_of(flat.edge)
    order = edge_number.to(torch.int16).argsort(stable=True)
    sizes = torch.bincount(edge_number, minlength=len(edge_names)).tolist()
    row, col = types.numbers[flat.edge_index[:, order]]
    edge = flat.edge[order] - types.edge_types.offsets[edge_number[order]]

    def by_name(values: Tensor) -> dict[Any, Tensor]:
        return dict(zip(edge_names, torch.split(values, sizes), strict=True))

    out = HeteroSamplerOutput(
        node={name: types.within(name) for name in node_names},
        row=by_name(row),
        col=by_name(col),
        edge=by_name(edge),
    )
    if flat.slot is not None:
        out.batch = {name: flat.slot[types.places(name)] for name in node_names}
    if counted:
        of_nodes = count_by_hop(types.types, len(node_names), flat.num_nodes)
        of_edges = count_by_hop(edge_number, len(edge_names), flat.num_edges)
        out.num_sampled_nodes = dict(zip(node_names, of_nodes, strict=True))
        out.num_sampled_edges = dict(zip(edge_names, of_edges, strict=True))
    return out
