"""What manifests say of arrays, and of the features, items, ids and graphs that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import dtype as torch_dtype

from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.data.types import TypeName
from headrace.pipeline.storage.json_fields import dtype_of


@dataclass(frozen=True)
class ArrayFile:
    """Where an array is, and what it must be."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str | None = None

    @property
    def torch_dtype(self) -> torch_dtype:
        """The dtype."""
        return dtype_of(self.dtype)


@dataclass(frozen=True)
class FeatureFile:
    """A feature of nodes or of edges, of all or of one type.

    In a part `digest` is the fingerprint of the rows of all parts, `FeatureSource.content_digest`, and rows of edges
    are in the order of their ids.
    """

    of: str
    type: TypeName | None
    name: str
    rows: ArrayFile
    quantization: dict[str, Any] | None = None
    digest: str | None = None

    @property
    def key(self) -> FeatureName:
        """Its key in a `FeatureStore`."""
        return self.name if self.type is None else (self.type, self.name)


@dataclass(frozen=True)
class ItemFiles:
    """Items of one type, or of a graph without types."""

    type: TypeName | None
    ids: ArrayFile
    labels: ArrayFile | None
    times: ArrayFile | None


@dataclass(frozen=True)
class IdFiles:
    """The users' ids of the nodes of a type: integers, or texts as bytes with the start of each."""

    type: str
    values: ArrayFile
    starts: ArrayFile | None
    order: ArrayFile | None


@dataclass(frozen=True)
class GraphFiles:
    """The arrays of a graph."""

    indptr: ArrayFile
    indices: ArrayFile
    edge_ids: ArrayFile | None
    node_ids: ArrayFile | None
    edge_attrs: Mapping[str, ArrayFile]
    node_attrs: Mapping[str, ArrayFile]


@dataclass(frozen=True)
class EdgeCutFiles:
    """What a part of a graph that is cut by edges has beside them: see `headrace.pipeline.distributed.edge_part`.

    Attributes
    ----------
    nodes, first_positions
        int64[num_rows]: destinations, of which ``graph.indptr`` bounds the edges.
    positions
        int64[num_edges].
    others
        int64[num_others].
    in_degrees, out_degrees
        int64[num_own + num_others].
    holders_indptr, holders
        int64[num_own + 1] and int32[num_pairs].
    sums_before, row_sums
        float64[num_edges] and float64[num_own + num_others], by the names of attributes that are weights.
    """

    nodes: ArrayFile
    first_positions: ArrayFile
    positions: ArrayFile
    others: ArrayFile
    in_degrees: ArrayFile
    out_degrees: ArrayFile
    holders_indptr: ArrayFile
    holders: ArrayFile
    sums_before: Mapping[str, ArrayFile]
    row_sums: Mapping[str, ArrayFile]


@dataclass(frozen=True)
class PartRecord:
    """Which part of a graph a folder holds.

    Attributes
    ----------
    identity
        Of the set of parts: that of all parts of one cut, see `headrace.pipeline.storage.parts.part_set`.
    part, num_parts
        The number of the part, and how many there are.
    num_own, num_own_of_types
        Nodes that the part owns, and those of each node type, in order.
    num_edges, num_edges_of_types
        In-edges of these nodes, or the edges that the part owns, and those of each edge type, in order.
    by_edges
        Of a graph that is cut by edges, what the part has beside these; null where it is cut by nodes.
    """

    identity: str
    part: int
    num_parts: int
    num_own: int
    num_own_of_types: tuple[int, ...] | None
    num_edges: int
    num_edges_of_types: tuple[int, ...] | None
    by_edges: EdgeCutFiles | None = None
