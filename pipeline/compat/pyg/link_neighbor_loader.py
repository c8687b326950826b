"""PyG's ``LinkNeighborLoader`` on the kernels of headrace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.loader import LinkLoader
from torch_geometric.loader import LinkNeighborLoader as PygLinkNeighborLoader
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling
from torch_geometric.sampler.base import SubgraphType

from headrace.pipeline.compat.pyg.batches import Output, link_batch
from headrace.pipeline.compat.pyg.finish import ForeignSampler, alone_with
from headrace.pipeline.compat.pyg.inputs import check_links
from headrace.pipeline.compat.pyg.links import check_negatives, link_metadata
from headrace.pipeline.compat.pyg.neighbor_loader import NeighborPlanLoader
from headrace.pipeline.compat.pyg.sampler import Sampler
from headrace.pipeline.data.label_range import check_real
from headrace.pipeline.plan import InputError, Plan


class LinkNeighborLoader(NeighborPlanLoader, PygLinkNeighborLoader):  # type: ignore[misc]
    """Mini-batches of links with the sampled neighbourhoods of their ends, as PyG's ``LinkNeighborLoader``.

    Threads, seeds, resuming and `num_workers` are as in `NeighborLoader`. The ends of the links are the first rows of a
    batch, each node once, in order of first occurrence.

    Differences from PyG, besides those of `NeighborLoader`:

    - With ``disjoint=True`` or times, both ends of a link, and all ends of a triplet, share one tree; in PyG each end
      has its own tree, under the same number in ``batch``. The rows of the ends are link by link.

    Numbers in ``batch``, times and negatives are in PyG's order: negative i belongs to link i modulo the number of
    links.

    Parameters
    ----------
    data
        A ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore).
    num_neighbors
        In-edges to draw per node, one number per hop, the hop next to the links first; -1 takes all.
    edge_label_index
        The links, [2, num_links]; None for all edges. In a graph with types an edge type, or a pair (edge type, links).
    edge_label
        Their labels.
    edge_label_time
        Their times.
    replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr
        As for `NeighborLoader`.
    neg_sampling, neg_sampling_ratio
        Negatives for the links. In mode "binary" both ends are drawn, in mode "triplet" destinations. If nodes have
        times, no negative is later than its link.
    transform, transform_sampler_output, is_sorted, filter_per_worker, neighbor_sampler, directed
        As for `NeighborLoader`.
    exclude_seed_edges
        headrace's own: True excludes the positive links of the batch from sampling; "reverse" also their reverse edges,
        for graphs with every edge in both directions; in a graph with types ``{edge_type: reverse_type}``. All edges
        between the ends of a link are excluded. To keep repeats of a link, use a plan with
        ``exclude_seed_edges(by="edge_id")``, or, with times, `strictly_before`.
    exclude_per
        headrace's own, with ``disjoint=True`` or times: "seed" excludes from the tree of a link, and from the trees of
        its negatives, only that link, and keeps the other links of the batch. "batch" (default) excludes all links.
    strictly_before
        headrace's own, with times: False (default), as PyG, includes edges of the link's own time, and so its own edge;
        True only earlier edges. Ends of negatives may be as late as the link.
    seed, num_threads, prefetch
        headrace's own, as for `NeighborLoader`.
    **kwargs
        Arguments of ``torch.utils.data.DataLoader``.

    Raises
    ------
    InputError
        For data, neighbours or links that do not fit together, when the loader is made.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: NegativeSampling | None = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        strictly_before: bool = False,
        seed: int | None = None,
        num_threads: int | None = None,
        exclude_seed_edges: bool | str | dict[Any, Any] = False,
        exclude_per: Literal["batch", "seed"] = "batch",
        prefetch: bool | int | None = None,
        **kwargs: Any,
    ) -> None:
        # Lightning makes a loader anew of the attributes that have the names of arguments.
        self.num_neighbors, self.replace, self.subgraph_type = num_neighbors, replace, subgraph_type
        self.disjoint, self.temporal_strategy, self.directed = disjoint, temporal_strategy, directed
        self.time_attr, self.weight_attr, self.is_sorted = time_attr, weight_attr, is_sorted
        self.edge_label, self.edge_label_time = edge_label, edge_label_time
        self.neighbor_sampler, self.neg_sampling_ratio = neighbor_sampler, None
        if (edge_label_time is None) != (time_attr is None):
            raise InputError(
                "LinkNeighborLoader: expected edge_label_time and time_attr, or neither, got "
                f"{'no edge_label_time' if edge_label_time is None else 'no time_attr'}; sampling by time needs both"
            )
        self.strictly_before = strictly_before
        self.check_strictly_before(neighbor_sampler)
        self.exclude_seed_edges, self.exclude_per = exclude_seed_edges, exclude_per
        if exclude_seed_edges is not False and not isinstance(neighbor_sampler, Sampler | None):
            raise InputError(
                "LinkNeighborLoader: expected exclude_seed_edges=False with a neighbor_sampler that is not "
                f"headrace.pyg.Sampler, got {exclude_seed_edges!r} and {type(neighbor_sampler).__name__}, which cannot "
                "leave out edges"
            )
        self.check_sampler(neighbor_sampler, "sample_from_edges")
        check_negatives(neg_sampling, neg_sampling_ratio)
        if isinstance(edge_label, Tensor) and (neg_sampling is not None or neg_sampling_ratio is not None):
            check_real(edge_label)
        check_links(data, edge_label_index, label=edge_label, time=edge_label_time, input_id=kwargs.get("input_id"))
        kwargs = self.settle(seed, num_threads, prefetch, kwargs)
        if neighbor_sampler is None:
            neighbor_sampler = self.own_sampler(data)
        LinkLoader.__init__(
            self,
            data,
            neighbor_sampler,
            edge_label_index=edge_label_index,
            edge_label=edge_label,
            edge_label_time=edge_label_time,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **kwargs,
        )
        self.prepare()

    @property
    def items(self) -> Any:
        """The links."""
        links = self.input_data
        pairs = torch.stack([links.row, links.col], 1)
        if isinstance(self.link_sampler, Sampler):
            pairs = self.link_sampler.flat_pairs(links.row, links.col, links.input_type)
        return pairs

    @property
    def settings(self) -> tuple[Any, ...]:
        """The attributes that may change between epochs: also the sampler, its parameters, negatives and exclusions."""
        negatives = self.neg_sampling
        amount = "" if negatives is None else f"{negatives.mode} {negatives.amount}"
        exclusion = f"{self.exclude_seed_edges!r} {self.exclude_per}"
        return (*self.settings_of(self.link_sampler), negatives, amount, exclusion)

    @property
    def samples_ahead(self) -> bool:
        """Whether the sampler runs in threads."""
        return self.samples_ahead_by(self.link_sampler)

    def sampled(self, source: Plan) -> Plan:
        """Return the plan up to the ``SamplerOutput``."""
        if not isinstance(self.link_sampler, Sampler):
            return source.then(ForeignSampler(self.sampled_at))
        exclusion = self.exclude_seed_edges, self.exclude_per
        return self.link_sampler.plan_of_links(source, self.neg_sampling, self.input_data.input_type, *exclusion)

    def described(self, out: Output) -> Output:
        """Return a ``SamplerOutput`` of the plan with the ids, labels and times of its links."""
        if isinstance(self.link_sampler, Sampler):
            positions, rows, times = out.metadata
            out.metadata = link_metadata(self.input_data[positions], rows, self.neg_sampling, times)
        return out

    def batch_of(self, out: Output, num_threads: int) -> Any:
        """Return the ``SamplerOutput`` with its attributes."""
        triplets = self.neg_sampling is not None and self.neg_sampling.is_triplet()
        permutation, input_type = self.link_sampler.edge_permutation, self.input_data.input_type
        return link_batch(
            self.data,
            out,
            permutation,
            input_type,
            triplets=triplets,
            num_threads=num_threads,
            custom_cls=self.custom_cls,
        )

    def sampled_now(self, items: EdgeSamplerInput) -> Output:
        """Return the output of the sampler for some links, in the calling thread."""
        sampler, negatives, exclude = self.link_sampler, self.neg_sampling, self.exclude_seed_edges
        if not isinstance(sampler, Sampler):
            with alone_with(sampler):
                return sampler.sample_from_edges(items, neg_sampling=negatives)
        if exclude is False:  # a subclass need not know of exclusion
            return sampler.sample_from_edges(items, neg_sampling=negatives)
        return sampler.sample_from_edges(items, negatives, exclude=exclude, exclude_per=self.exclude_per)
