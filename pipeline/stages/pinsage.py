"""PinSAGE neighbourhoods: the nodes that random walks visit most, weighted by how often they do."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.pipeline.lowered import Compact, Expand, in_graph_ids
from headrace.pipeline.lowered.walk_hop import WalkHop
from headrace.pipeline.plan import MOST_HOPS, MacroStage, Stage, check_expand, check_weight, make_positive, verb
from headrace.pipeline.plan.checks import check_probability, check_steps
from headrace.pipeline.stages.sampler import Sampler


@verb("sample_pinsage")
@dataclass(frozen=True, eq=False, repr=False)
class SamplePinsage(MacroStage, Sampler):
    """Take the nodes that random walks visit most often as neighbours of their start (PinSAGE, arXiv 1806.01973).

    Walks step to uniform in-neighbours, against the direction of messages. ``Block.weight`` holds the visit counts,
    scaled so that they average to 1 per destination: a plain mean with these weights is the paper's importance pooling.
    The neighbours are not joined by edges of the graph, so blocks have no edge ids. A node is never its own neighbour.
    Among nodes visited equally often, those visited first are taken. A node without in-edges has no neighbours.

    Parameters
    ----------
    graph
        The graph to walk on. Every visited node counts, of any kind. If only items may be neighbours of items, walk on
        a graph of items.
    num_neighbors
        The largest number of neighbours per node.
    num_walks
        Walks from each node.
    walk_length
        Steps of a walk. All walks from a node together take at most 1,048,576.
    restart
        Probability, in [0, 1), that a step leads back to the walk's start.
    num_layers
        Hops. Each draws new walks, so a node may have other neighbours in another layer.
    weight
        Name of an edge attribute to walk by: an in-edge is taken in proportion to it. None (default) walks uniformly.
    expand
        As for ``sample_neighbor``.

    Raises
    ------
    InputError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
        For numbers below 1, a restart outside [0, 1), a subject that is not a graph, or an unknown hop rule.
    """

    num_neighbors: int
    num_walks: int
    walk_length: int
    restart: float = 0.5
    num_layers: int = 1
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        make_positive(self, "num_neighbors", "num_walks", "walk_length")
        make_positive(self, "num_layers", most=MOST_HOPS)
        check_steps(self.name, self.num_walks, self.walk_length)
        object.__setattr__(self, "restart", check_probability(self.name, "restart", self.restart))
        check_expand(self.name, self.expand)
        check_weight(self.name, self.graph, self.weight)

    @property
    def num_hops(self) -> int:
        return self.num_layers

    def parts(self) -> tuple[Stage, ...]:
        pieces: list[Stage] = []
        for layer in range(self.num_layers):
            hop = WalkHop(
                self.graph,
                self.num_neighbors,
                self.num_walks,
                self.walk_length,
                restart=self.restart,
                layer=layer,
                weight=self.weight,
                expand=self.expand,
            )
            pieces += [hop, Compact(self.graph, expand=self.expand, edge_ids=False)]
        return in_graph_ids(self.graph, pieces)
