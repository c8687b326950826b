"""Any layer of PyG over a graph in shards."""

from __future__ import annotations

from typing import Any

from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.pipeline.models.adapters.pyg_functions import edges_of
from headrace.pipeline.models.adapters.pyg_layers import call_layer, refusal_of
from headrace.pipeline.models.sar.replaced_layer import ReplacedLayer
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph


class AnyPygLayer(ReplacedLayer):
    """A layer of PyG, of a user's own too, with what its ``propagate`` and ``edge_updater`` do done over shards."""

    @cached_property
    def tried(self) -> set[bool]:
        """The modes, of training or not, in which messages were tried."""
        return set()

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse options that its messages cannot be computed with."""
        return refusal_of(layer)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer's own forward; the graph stands where ``edge_index`` stood."""
        graphs = [one for one in (*args, *kwargs.values()) if isinstance(one, ShardedGraph)]
        if len(graphs) != 1:
            raise InputError(
                f"{self.replaced.__name__}: expected an hr.sar.ShardedGraph, got {len(graphs)}; hr.sar.wrap has "
                "replaced this layer, which took an edge_index"
            )
        edges = edges_of(graphs[0])
        out = call_layer(
            self,
            self.replaced,
            [edges if one is graphs[0] else one for one in args],
            {name: edges if one is graphs[0] else one for name, one in kwargs.items()},
            next_key=self.keys.next,
            tries=self.training not in self.tried,
            watches=not self.is_row_local,
        )
        self.tried.add(self.training)
        return out
