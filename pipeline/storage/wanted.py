"""What is wanted of a store for each batch: rows of its nodes, rows of its edges, and labels of its seeds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import PlanError
from headrace.pipeline.data import FeatureName, MiniBatch
from headrace.pipeline.data.feature_names import (
    LabelNames,
    as_labels,
    edge_ids_of,
    label_ids_of,
    label_names,
    node_ids_of,
    of_layers,
    own_type,
    read_types,
)
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Decoding

#: A feature of a store: its domain, "node" or "edge", and its name there.
Feature = tuple[str, FeatureName]


@dataclass(frozen=True)
class Wanted:
    """Names of features of a store, in the order in which they are read: of nodes, of edges, labels.

    A stage that fetches holds one. It loops over `sources`, over the `ids` that a batch needs of each, and gives the
    rows to `filled`.

    Parameters
    ----------
    store
        Where the features are.
    node, edge, labels, dtype
        As for ``fetch_feature``.
    """

    shown_as_parameters: ClassVar[bool] = True

    store: FeatureStore
    node: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    edge: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    labels: LabelNames | None = field(default=None, kw_only=True)
    dtype: torch_dtype | None = field(default=None, kw_only=True)

    def __bool__(self) -> bool:
        return bool(self.node or self.edge or self.labels is not None)

    @property
    def of_seeds(self) -> tuple[FeatureName, ...]:
        """The node features that are read for the seeds alone."""
        return label_names(self.labels)

    @property
    def features(self) -> tuple[Feature, ...]:
        """All features, in the order of `sources`; one of nodes that is a label, too, is there twice."""
        of_nodes, of_edges = (("node", name) for name in self.node), (("edge", name) for name in self.edge)
        return (*of_nodes, *of_edges, *(("node", name) for name in self.of_seeds))

    @property
    def fetches(self) -> frozenset[Feature]:
        """The features whose rows a batch has behind the fetch, without labels."""
        return frozenset(self.features[: len(self.node) + len(self.edge)])

    @property
    def reads(self) -> frozenset[str]:
        """Fields of a batch by which rows are found."""
        fields = {"n_id": self.node, "blocks": self.edge, "seeds": self.labels is not None}
        return frozenset(name for name, wanted in fields.items() if wanted)

    @property
    def writes(self) -> frozenset[str]:
        """Fields of a batch that `filled` sets."""
        fields = {"node": self.node, "edge": self.edge, "y": self.labels is not None}
        return frozenset(name for name, wanted in fields.items() if wanted)

    def source(self, feature: Feature) -> FeatureSource:
        """Return the source of a feature, with all members of the contract."""
        domain, name = feature
        return (self.store.node if domain == "node" else self.store.edge).in_contract(name)

    def sources(self) -> list[FeatureSource]:
        """Return what is read from: for each node feature, for each edge feature, for each label."""
        return [self.source(feature) for feature in self.features]

    def decodings(self) -> list[Decoding | None]:
        """Return what makes the rows of each source those that are wanted; None where they are that. Labels stay.

        Raises
        ------
        InputError
            If the dtype cannot hold them.
        """
        if self.dtype is None:
            return [None] * len(self.features)
        from headrace.pipeline.storage.decoding import decoding_of  # most plans have no dtype

        kept = len(self.node) + len(self.edge)  # behind these are labels
        return [
            decoding_of(source, self.dtype, *feature) if place < kept else None
            for place, (feature, source) in enumerate(zip(self.features, self.sources(), strict=True))
        ]

    def check_dtype(self) -> None:
        """Refuse a dtype that cannot hold the rows, and codes that nobody decodes.

        Raises
        ------
        InputError
            Naming the feature.
        """
        for decoding, feature, source in zip(self.decodings(), self.features, self.sources(), strict=True):
            if decoding is None and source.quantization is not None and source.dtype != self.dtype:
                from headrace.pipeline.storage.decoding import not_decoded

                raise not_decoded(source, *feature)

    def as_stored(self) -> Wanted:
        """Return the same, of the dtypes that sources have."""
        return replace(self, dtype=None)

    def decisive(self) -> dict[str, Any]:
        """Return what decides the rows of a batch, whatever else the store holds."""
        labels = [(name, self.source(("node", name))) for name in self.of_seeds]
        decided = {
            "node": {name: self.source(("node", name)) for name in self.node},
            "edge": {name: self.source(("edge", name)) for name in self.edge},
            "labels": dict(labels) if isinstance(self.labels, Mapping) else next(iter(labels), None),
        }
        if self.dtype is None:
            return decided
        scales = [None if one is None else one.quantization for one in self.decodings()]
        return {**decided, "dtype": self.dtype, "scales": scales}

    def only(
        self, wanted: Callable[[FeatureSource], bool], *, labels: Callable[[Iterable[bool]], bool] = all
    ) -> Wanted:
        """Return those whose sources are wanted; labels together, if `labels` (all or any) of their sources are."""
        has_labels = self.labels is not None and labels(wanted(self.source(("node", name))) for name in self.of_seeds)
        return replace(
            self,
            node=tuple(name for name in self.node if wanted(self.source(("node", name)))),
            edge=tuple(name for name in self.edge if wanted(self.source(("edge", name)))),
            labels=self.labels if has_labels else None,
        )

    def of_nodes(self, names: Collection[FeatureName] | None = None) -> Wanted:
        """Return the node features alone, all or those of some names."""
        node = self.node if names is None else tuple(name for name in self.node if name in names)
        return replace(self, node=node, edge=(), labels=None)

    def of_edges(self, names: Collection[FeatureName]) -> Wanted:
        """Return the edge features of some names alone."""
        return replace(self, node=(), edge=tuple(name for name in self.edge if name in names), labels=None)

    def without(self, other: Wanted) -> Wanted:
        """Return what is wanted here and not there."""
        return replace(
            self,
            node=tuple(name for name in self.node if name not in other.node),
            edge=tuple(name for name in self.edge if name not in other.edge),
            labels=self.labels if other.labels is None else None,
        )

    def ids(self, batch: MiniBatch) -> list[Sequence[Tensor]]:
        """Return the ids of the rows that a batch needs of each source: one array, or for edges one for each block.

        Raises
        ------
        InputError
            If the batch has no types, or seeds of others than the labels.
        """
        by_type = None
        if batch.types is not None:
            nodes, edges, seeds = (any(map(own_type, names)) for names in (self.node, self.edge, self.of_seeds))
            by_type = read_types(batch, nodes=nodes, edges=edges, seeds=seeds)
        found: list[Sequence[Tensor]] = [(node_ids_of(batch, name),) for name in self.node]
        if self.edge:
            found += [edge_ids_of(batch, name) for name in self.edge]
        if self.labels is not None:
            found += [(ids,) for ids in label_ids_of(batch, self.labels, by_type)]
        return found

    def filled(self, batch: MiniBatch, rows: Iterable[Sequence[Tensor]]) -> MiniBatch:
        """Return a batch with the rows of `ids`, in the same order.

        Raises
        ------
        PlanError
            If labels are wanted, and the batch has some.
        """
        each = iter(rows)
        fetched: dict[str, Any] = {}
        if self.node:
            fetched["node"] = {**batch.node, **{name: next(each)[0] for name in self.node}}
        if self.edge:
            fetched["edge"] = {**batch.edge, **{name: of_layers(batch, next(each)) for name in self.edge}}
        if self.labels is not None:
            if batch.y is not None:
                raise self.labels_twice()
            fetched["y"] = as_labels(self.labels, [one for (one,) in each])
        return batch.replace(**fetched)

    def labels_twice(self) -> PlanError:
        """Return the error for labels of batches that have some."""
        return PlanError(
            f"fetch_feature: labels={self.labels!r} would replace labels that the batch has already, those of the "
            "source's items or of a stage before; give the source ids alone, or leave out labels="
        )
