"""The graph of an object of PyG with the attributes that a loader asks for; loaders have in common what they can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.ops.features.gather import gather_rows
from headrace.pipeline.compat.pyg.kept_graphs import kept_graph
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_view import as_attributes
from headrace.pipeline.data.seen import note, of_times
from headrace.pipeline.data.times import seen_times


@dataclass(frozen=True)
class AskedGraph:
    """The graph of an object of PyG, which its loaders share: its edges are kept, and so are they with attributes.

    Loaders that go by times read rows in the order of these. Where they alone ask, the edges are kept in that order
    only.

    Parameters
    ----------
    owner
        The object that keeps it alive.
    inputs
        What the edges are made of.
    structure
        Makes the graph without attributes.
    times
        Those of nodes by type, which the graph has as a copy, while PyG reads them for each batch.
    """

    owner: Any
    inputs: Sequence[Any]
    structure: Callable[[], Graph]
    times: Sequence[Tensor] = field(default=())

    def with_attributes(
        self,
        asked: tuple[str | None, str | None],
        stores: Iterable[Any],
        attributes: Callable[[], tuple[Mapping[str, Tensor], Mapping[str, Tensor]]],
    ) -> Graph:
        """Return the graph with attributes of edges and nodes.

        Parameters
        ----------
        asked
            The names of weights and of times; None for none.
        stores
            What may have them.
        attributes
            Returns those of edges and those of nodes.
        """
        names = [name for name in asked if name is not None]
        if not names:
            return kept_graph(self.owner, (), self.inputs, self.structure)
        values = [store.get(name) for store in stores for name in names]
        return kept_graph(self.owner, asked, [*self.inputs, *values], lambda: self._made(asked[1], attributes))

    def _made(
        self, time: str | None, attributes: Callable[[], tuple[Mapping[str, Tensor], Mapping[str, Tensor]]]
    ) -> Graph:
        seen = [] if time is None else [seen_times(times, time) for times in self.times]
        of_edges, of_nodes = attributes()
        made_here = False

        def structure() -> Graph:
            nonlocal made_here
            made_here = True
            return self.structure()

        graph = kept_graph(self.owner, (), self.inputs, structure, keeps=time is None)
        order = graph.edge_permutation
        rows = as_attributes(of_edges, graph.num_edges)
        in_csc = {name: one if order is None else gather_rows(one, order) for name, one in rows.items()}
        made = replace(graph, edge_attrs_csc=in_csc, node_attrs=of_nodes)
        if time is not None:
            made = _sorted(made, time) if made_here else made
            note(made, of_times(time), seen)
        return made


def _sorted(graph: Graph, time: str) -> Graph:
    """Return the graph with rows in the order in which samplers by time read them: they need no copy then."""
    try:
        return replace(graph.by_time(time), edge_times=None)
    except GraphError:
        return graph  # the sampler says what is wrong, by its name
