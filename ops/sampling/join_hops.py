"""Join the hops of a minibatch into one list of edges, each edge once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_numpy
from headrace.ops.errors import InputError
from headrace.ops.features.gather import gather_rows

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class JoinedHops:
    """The edges of all hops, each once, hop by hop.

    Attributes
    ----------
    edge_index : torch.Tensor
        int64[2, num_joined], local sources in row 0, local destinations in row 1.
    edge_ids : torch.Tensor or None
        int64[num_joined]; None if the hops have none.
    num_edges : tuple of int
        The number of edges that each hop added.
    kept : tuple of torch.Tensor
        For each hop int64, the positions of added edges among its first `num_checked`; all later edges were added.
    num_checked : tuple of int
        For each hop the number of its first edges, whose destinations are also in an earlier hop.
    """

    edge_index: torch.Tensor
    edge_ids: torch.Tensor | None
    num_edges: tuple[int, ...]
    kept: tuple[torch.Tensor, ...]
    num_checked: tuple[int, ...]

    def join(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Convert rows of the hops' edges, one tensor per hop, to rows of the joined edges."""
        rows = []
        for part, kept, num_checked in zip(parts, self.kept, self.num_checked, strict=True):
            if num_checked:
                rows.append(gather_rows(part, kept))
            rows.append(part[num_checked:])
        return torch.cat(rows) if len(rows) > 1 else rows[0]


def join_hops(
    indptrs: Sequence[Array],
    indices: Sequence[Array],
    edge_ids: Sequence[Array] | None = None,
) -> JoinedHops:
    """List the edges of several hops, without edges of earlier hops; the time is linear in the number of edges.

    Edges are compared by id. Edges that one hop has twice, from sampling with replacement, stay twice.

    Parameters
    ----------
    indptrs : sequence of torch.Tensor or numpy.ndarray
        For each hop int64[num_dst + 1]. Destination i is the same node in every hop that has it, so an edge of two hops
        is in the same row of both.
    indices : sequence of torch.Tensor or numpy.ndarray
        For each hop its local sources, int32[num_edges] or int64[num_edges].
    edge_ids : sequence of torch.Tensor or numpy.ndarray, optional
        For each hop int64[num_edges]. A single hop needs none.

    Raises
    ------
    InputError
        For several hops without edge ids, different numbers of arrays, wrong dtypes or devices, or 2**31 edges into one
        destination.
        For an invalid indptr, or arrays of wrong lengths.
    """
    stage = "join_hops"
    arrays = [
        [as_numpy(one, f"{name}[{hop}]", stage=stage, dtypes=dtypes) for hop, one in enumerate(given)]
        for name, given, dtypes in (
            ("indptrs", _listed(indptrs, "indptrs"), ("int64",)),
            ("indices", _listed(indices, "indices"), ID_DTYPES),
            ("edge_ids", () if edge_ids is None else _listed(edge_ids, "edge_ids"), ("int64",)),
        )
    ]
    edge_index, ids, kept, num_checked = _native.join_hops(
        arrays[0], arrays[1], None if edge_ids is None else arrays[2]
    )
    num_edges = [
        len(positions) + len(sources) - checked
        for positions, sources, checked in zip(kept, arrays[1], num_checked, strict=True)
    ]
    return JoinedHops(
        torch.from_numpy(edge_index).reshape(2, -1),
        None if ids is None else torch.from_numpy(ids),
        tuple(num_edges),
        tuple(torch.from_numpy(positions) for positions in kept),
        tuple(num_checked),
    )


def _listed(arrays: Sequence[Array], name: str) -> Sequence[Array]:
    if not isinstance(arrays, (list, tuple)):
        message = f"join_hops: expected {name} to be a list with an array for each hop, got {type(arrays).__name__}"
        raise InputError(message)
    return arrays
