"""PyG's GraphSAINT samplers without torch-sparse."""

from __future__ import annotations

from abc import abstractmethod
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import SamplerOutput

from headrace.ops import InputError, Subgraph
from headrace.pipeline.compat.pyg.graph import check_is_data, graph_of
from headrace.pipeline.compat.pyg.plan_loader import PlanLoader
from headrace.pipeline.compat.pyg.sampler_output import ToSamplerOutput
from headrace.pipeline.compat.pyg.slicing import sliced_data, stacked
from headrace.pipeline.compat.pyg.torch_arguments import as_length, check_path
from headrace.pipeline.compat.pyg.torch_samplers import Steps
from headrace.pipeline.data import exact_digest, whole_number
from headrace.pipeline.data.new_folder import write_file
from headrace.pipeline.plan import Plan, RunSettings
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.saint import SampleSaint

#: What PyG bounds the norms of edges by.
LARGEST_NORM = 1e4


class GraphSAINTSampler(PlanLoader):
    """Base of the GraphSAINT samplers (arXiv 1907.04931) with PyG's parameters: batches are subgraphs of drawn nodes.

    With ``sample_coverage > 0`` batches have ``node_norm`` and ``edge_norm``: the sum over a batch of ``node_norm *
    loss`` estimates the mean loss of all nodes, and the sum of messages times ``edge_norm / in_degree``, with the
    degree in the whole graph, the mean over all in-neighbours. For the node and the edge sampler they are exact, by
    their closed form; for walks they are counted.

    Where it differs from PyG, whose samplers do not follow the paper everywhere:

    - The node sampler draws a node in proportion to the squared norm of its column in the normalised adjacency matrix,
      as the paper; PyG's in proportion to its out-degree.
    - The edge sampler draws edge u -> v in proportion to 1 / in-degree(v), with replacement, which favours low degrees,
      as the paper; PyG's in proportion to in-degree(u) + out-degree(v), without replacement, which favours high ones.
    - Walks go against the edges, to in-neighbours, where messages come from; PyG's along them. Both are the same where
      every edge is there in both directions. Roots are all nodes in turn; PyG's are drawn with replacement.
    - Norms are of these laws, so files and values of PyG's do not fit. PyG counts those of all three samplers.

    Parameters
    ----------
    data
        A ``Data`` with ``edge_index`` or ``adj_t``.
    batch_size
        Draws of a batch: nodes, edges, or roots of walks.
    num_steps
        Batches of an epoch.
    sample_coverage
        0 for no norms; else for walks the visits of a node that norms are counted over.
    save_dir
        Folder that keeps the norms for the next time. Those of another graph, batch size or walk, and files of PyG,
        whose norms are of other laws, are refused.
    log
        Accepted for PyG's sake.
    seed, num_threads, prefetch
        Of headrace, as for `NeighborLoader`.
    **kwargs
        Arguments of ``torch.utils.data.DataLoader``.

    Raises
    ------
    InputError
        For data that have norms, or no edges, or numbers that are out of range.
    """

    not_called = (*PlanLoader.not_called, "_collate", "_sample_nodes", "__getitem__")

    def __init__(
        self,
        data: Data,
        batch_size: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        save_dir: str | None = None,
        log: bool = True,
        *,
        seed: int | None = None,
        num_threads: int | None = None,
        prefetch: bool | int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs = self.settle(seed, num_threads, prefetch, kwargs)
        check_is_data(data, type(self).__name__)
        check_path(type(self).__name__, save_dir=save_dir)
        taken = [name for name in ("node_norm", "edge_norm") if name in data]
        if taken:
            raise InputError(f"{type(self).__name__}: expected data without {taken[0]}, which the sampler sets, got it")
        who = type(self).__name__
        self.data, self.num_steps = data, as_length(num_steps, f"{who}: num_steps", 1)
        self.sample_coverage = whole_number(sample_coverage, f"{who}: sample_coverage", 0, InputError)
        self.save_dir, self.log, self.draws = (
            save_dir,
            log,
            as_length(batch_size, f"{who}: batch_size", 1),
        )
        self.graph = graph_of(data)
        kwargs.pop("shuffle", None)  # of steps that are all alike
        super().__init__(range(num_steps), **kwargs)  # type: ignore[arg-type]
        self.prepare()
        if sample_coverage > 0:
            self.node_norm, self.edge_norm = self._kept_norms()

    @property
    @abstractmethod
    def filename(self) -> str:
        """The name of the file with the norms, as in PyG."""

    @abstractmethod
    def with_sampler(self, source: Plan, *, norms: bool) -> Plan:
        """Return the plan of a source and the sampler of a batch."""

    @property
    def source(self) -> Plan:
        """The steps; a batch of nodes or edges is drawn from the whole graph, independently of the items."""
        every = ItemSampler(self.num_steps, batch_size=1, seed=self.settled_seed)
        return Steps(every, self.num_steps, self.batch_sampler) if self.follows_sampler else every

    def sampled(self, source: Plan) -> Plan:
        """Return the plan up to the ``SamplerOutput``."""
        return self.with_sampler(source, norms=False).then(ToSamplerOutput(counted=False))

    def batch_of(self, out: SamplerOutput, num_threads: int) -> Any:
        """Return the subgraph with its attributes and norms."""
        batch = sliced_data(self.data, out.node, stacked(out.row, out.col), out.edge, num_threads=num_threads)
        batch.num_nodes = len(out.node)
        if self.sample_coverage > 0:
            batch.node_norm = self.node_norm[out.node]
            batch.edge_norm = self.edge_norm[out.edge]
        return batch

    def roots(self) -> ItemSampler:
        """Return the items at which walks begin, batch by batch."""
        return ItemSampler(self.graph.num_nodes, batch_size=self.draws, shuffle=True, seed=self.settled_seed)

    @property
    def decisive(self) -> dict[str, Any]:
        """The values that decide the norms."""
        graph = self.graph
        arrays = [("indptr", graph.indptr), ("indices", graph.indices), ("edge_ids", graph.edge_ids)]
        return {
            "sampler": self.filename,
            "batch_size": self.draws,
            "sample_coverage": self.sample_coverage,
            "graph": exact_digest(arrays),
        }

    def _kept_norms(self) -> tuple[Tensor, Tensor]:
        """Return the norms of all nodes and edges, from the file if there is one."""
        path = None if self.save_dir is None else Path(self.save_dir) / self.filename
        if path is not None and path.exists():
            node_norm, edge_norm, *made_of = torch.load(path, weights_only=True)
            kept, wanted = made_of[0] if made_of else {}, self.decisive
            differ = [name for name, value in wanted.items() if kept.get(name) != value]
            if differ:
                raise InputError(
                    f"{type(self).__name__}: expected norms of this graph and sampler in {path}, got "
                    f"{f'those of another {differ[0]}' if kept else 'a file without what its norms are of'}; "
                    "delete the file, or pass another save_dir"
                )
            return node_norm, edge_norm
        norms = self._norms()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = BytesIO()
            torch.save((*norms, self.decisive), content)
            write_file(path, type(self).__name__, content.getbuffer())
        return norms

    def _norms(self) -> tuple[Tensor, Tensor]:
        source, graph = self.roots(), self.graph
        stage = self.with_sampler(source, norms=True).stages[-1]
        assert isinstance(stage, SampleSaint)
        settings = RunSettings(source.seed, source, self.num_threads or torch.get_num_threads())
        norms = stage.draws.make_norms(settings, stage)
        # As if all nodes were drawn: then weights of edges are their norms.
        whole = Subgraph(graph.indptr, graph.indices, torch.arange(graph.num_edges, device="cpu"))
        weights = norms.edge_weight(whole, torch.arange(graph.num_nodes, device="cpu"), 1)
        edge_norm = torch.empty_like(weights)
        edge_norm[graph.edge_ids.long()] = weights
        return norms.loss_weight, edge_norm.clamp(max=LARGEST_NORM)


class GraphSAINTNodeSampler(GraphSAINTSampler):
    """Subgraphs of drawn nodes; see `GraphSAINTSampler`, and `sample_saint` for the law, which is the paper's."""

    @property
    def filename(self) -> str:
        """What the file of the norms is called."""
        return f"graphsaintnodesampler_{self.sample_coverage}.pt"

    def with_sampler(self, source: Plan, *, norms: bool) -> Plan:
        """Return the plan of a source and the sampler of a batch."""
        return source.sample_saint(self.graph, "node", budget=self.draws, norms=norms)


class GraphSAINTEdgeSampler(GraphSAINTSampler):
    """Subgraphs between the ends of drawn edges; see `GraphSAINTSampler`, and `sample_saint` for the law."""

    @property
    def filename(self) -> str:
        """What the file of the norms is called."""
        return f"graphsaintedgesampler_{self.sample_coverage}.pt"

    def with_sampler(self, source: Plan, *, norms: bool) -> Plan:
        """Return the plan of a source and the sampler of a batch."""
        return source.sample_saint(self.graph, "edge", budget=self.draws, norms=norms)


class GraphSAINTRandomWalkSampler(GraphSAINTSampler):
    """Subgraphs that random walks visit; see `GraphSAINTSampler`.

    Roots are all nodes in a shuffled order, repeatedly, so each is a root equally often. Walks step to in-neighbours,
    against the direction of messages.

    Parameters
    ----------
    walk_length
        Steps of a walk.
    """

    def __init__(
        self,
        data: Data,
        batch_size: int,
        walk_length: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        save_dir: str | None = None,
        log: bool = True,
        **kwargs: Any,
    ) -> None:
        self.walk_length = whole_number(walk_length, f"{type(self).__name__}: walk_length", 1, InputError)
        super().__init__(data, batch_size, num_steps, sample_coverage, save_dir, log, **kwargs)

    @property
    def filename(self) -> str:
        """What the file of the norms is called."""
        return f"graphsaintrandomwalksampler_{self.walk_length}_{self.sample_coverage}.pt"

    @property
    def source(self) -> Plan:
        """The roots of the walks."""
        return Steps(self.roots(), self.num_steps, self.batch_sampler if self.follows_sampler else None)

    def with_sampler(self, source: Plan, *, norms: bool) -> Plan:
        """Return the plan of a source and the sampler of a batch."""
        num_samples = None
        if norms:
            visits = self.draws * (self.walk_length + 1)
            num_samples = -(-self.sample_coverage * self.graph.num_nodes // visits) or None
        return source.sample_saint(
            self.graph, "walk", walk_length=self.walk_length, num_samples=num_samples, norms=norms
        )
