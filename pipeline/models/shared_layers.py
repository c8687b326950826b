"""Layers of PyG in a model whose batches have edges that ranks share: messages are computed by the ranks together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.aggregate.compiling import uncompiled
from headrace.ops.errors import InputError
from headrace.pipeline.data.registry import register
from headrace.pipeline.distributed.edge_index import EdgeIndex
from headrace.pipeline.distributed.shared_block import SharedBlock
from headrace.pipeline.models.adapters.pyg_functions import edges_of
from headrace.pipeline.models.adapters.pyg_layers import call_layer, refusal_of
from headrace.pipeline.models.by_parts.update_all import Message, update_all
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch
from headrace.pipeline.models.shared_edges import SharedEdges


class _Forward:
    """Stands in a layer of PyG for its `forward`; whatever it is called with but shared edges it passes on.

    Parameters
    ----------
    module
        The layer. A copy of it has its own.
    watches
        Whether its operations on rows are watched.
    """

    def __init__(self, module: nn.Module, *, watches: bool) -> None:
        self._module, self._watches = module, watches
        self._tried: set[bool] = set()

    @uncompiled
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module, running = self._module, RUNNING.get()
        kind = type(module)
        edges = [one for one in (*args, *kwargs.values()) if isinstance(one, EdgeIndex)]
        if not edges or running is None:
            return kind.forward(module, *args, **kwargs)
        if len(edges) > 1:
            raise InputError(
                f"cooperative: expected {kind.__name__} to be called with one edge_index, got {len(edges)}"
            )
        problem = refusal_of(module)
        if problem:
            raise InputError(f"cooperative: {kind.__name__} {problem} cannot be computed over edges that ranks share")
        shared = _shared(edges[0], running)
        out = call_layer(
            module,
            kind,
            [shared if one is edges[0] else one for one in args],
            {name: shared if one is edges[0] else one for name, one in kwargs.items()},
            next_key=running.message_key,
            tries=module.training not in self._tried,
            watches=self._watches,
        )
        self._tried.add(module.training)
        return out

    def __reduce__(self) -> tuple[Callable[..., _Forward], tuple[nn.Module]]:
        return partial(_Forward, watches=self._watches), (self._module,)


def _shared(edges: EdgeIndex, running: RunningBatch) -> EdgeIndex:
    """Return the edges that stand for those of a block of the batch."""
    graph = edges.graph
    if isinstance(graph, SharedEdges):  # in a layer inside of another one
        return edges
    if isinstance(graph, SharedBlock) and any(graph is one for one in list[object](running.batch.blocks)):
        return edges_of(SharedEdges.of(graph, running.nodes[: graph.num_src]))
    raise InputError(
        "cooperative: expected the edge_index of a block of the batch that the model runs on, got that of another one; "
        "pass block.edge_index of batch.blocks"
    )


@register
def update_all_of_ranks(
    block: SharedBlock, message: Message, x: Tensor, reduce: str, destination: Tensor | None, edge: Tensor | None
) -> Tensor:
    """Return reduced messages over a block; see `SharedBlock.update_all`."""
    if edge is not None and len(edge) != block.num_edges:
        raise InputError(f"update_all: expected edge with a row for each of {block.num_edges} edges, got {len(edge)}")
    running = RUNNING.get()
    # Outside of a model nobody else draws for an edge, so ranks need not draw the same key.
    key = int(torch.randint(1 << 62, (), device="cpu")) if running is None else running.message_key()
    return update_all(SharedEdges.of(block), message, x, reduce, destination, edge, key)


def share_messages(model: nn.Module, row_local: Sequence[nn.Module]) -> None:
    """Let the layers of PyG in a model take the ``edge_index`` of blocks that ranks share.

    Parameters
    ----------
    model
        The model.
    row_local
        Modules that are not watched.
    """
    if "torch_geometric.nn" not in sys.modules:
        return
    from torch_geometric.nn import MessagePassing

    for module in model.modules():
        if isinstance(module, MessagePassing) and not isinstance(vars(module).get("forward"), _Forward):
            vars(module)["forward"] = _Forward(module, watches=module not in set(row_local))
