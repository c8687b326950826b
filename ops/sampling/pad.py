"""Pad the rows and edges of a sampled batch to given sizes, behind those of each hop, on any device.

Destinations of a block are its first sources, in every layer. So the rows that a hop found are padded where they end,
and the rows of later hops move. Padding edges lead from padding rows of the next hop to padding rows alone: no real row
reads what they carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from headrace.ops.errors import InputError


@dataclass(frozen=True)
class Padded:
    """How many rows (or edges) each hop has, and to how many it is padded, from the seeds outward.

    Parameters
    ----------
    counts : tuple of int
        Real ones.
    sizes : tuple of int
        With padding.

    Raises
    ------
    InputError
        If a size is smaller than its count.
    """

    counts: tuple[int, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.sizes) or any(
            not 0 <= count <= size for count, size in zip(self.counts, self.sizes, strict=True)
        ):
            raise InputError(f"pad: expected a size of at least {self.counts} for each hop, got {self.sizes}")

    @property
    def num_rows(self) -> int:
        """The number of rows with padding."""
        return sum(self.sizes)

    def first(self, hops: int) -> Padded:
        """Return those of the first hops."""
        return Padded(self.counts[:hops], self.sizes[:hops])

    def real(self) -> list[slice]:
        """Return where the real rows of each hop go."""
        starts = accumulate(self.sizes[:-1], initial=0)
        return [slice(start, start + count) for start, count in zip(starts, self.counts, strict=False)]

    def padding(self) -> list[slice]:
        """Return where the padding rows of each hop are."""
        ends = accumulate(self.sizes)
        return [slice(rows.stop, end) for rows, end in zip(self.real(), ends, strict=True)]


@dataclass(frozen=True)
class PaddingEdges:
    """Padding edges of one kind in a hop.

    Parameters
    ----------
    number : int
        How many there are.
    destinations, sources : slice
        Their rows, which are padding.

    Raises
    ------
    InputError
        If there are edges, and no rows at one end.
    """

    number: int
    destinations: slice
    sources: slice

    def __post_init__(self) -> None:
        if self.number and not all(rows.stop > rows.start for rows in (self.destinations, self.sources)):
            raise InputError(
                f"pad: expected padding rows at both ends of {self.number} padding edges, got none; make room for one "
                "more row in each hop"
            )


def pad_rows(values: Tensor, rows: Padded, fill: float | Tensor) -> Tensor:
    """Return an array with a row for each padded row.

    Parameters
    ----------
    values : torch.Tensor
        [number of real rows, ...].
    rows : Padded
        How many there are.
    fill : float or torch.Tensor
        The value of padding rows, or those of all of them.

    Returns
    -------
    torch.Tensor
        [rows.num_rows, ...], of the dtype and on the device of `values`.

    Raises
    ------
    InputError
        If `values` has another number of rows, or `fill` of padding rows.
    """
    _check_rows("values", values, sum(rows.counts))
    out = values.new_empty((rows.num_rows, *values.shape[1:]))
    for given, real in zip(_parts(values, rows), rows.real(), strict=True):
        out[real] = given
    padding = Padded(tuple(part.stop - part.start for part in rows.padding()), rows.sizes)
    if isinstance(fill, Tensor):
        _check_rows("fill", fill, sum(padding.counts))
    for number, place in enumerate(rows.padding()):
        out[place] = _parts(fill, padding)[number] if isinstance(fill, Tensor) else fill
    return out


def real_rows(rows: Padded, device: torch.device) -> Tensor:
    """Return which padded rows are real, bool[rows.num_rows]."""
    everywhere = torch.ones(sum(rows.counts), dtype=torch.bool, device=device)
    return pad_rows(everywhere, rows, fill=False)


def pad_edges(
    indptr: Tensor,
    indices: Tensor,
    *,
    sources: Padded,
    destinations: Padded,
    edges: Padded,
    padding: Sequence[Sequence[PaddingEdges]],
) -> tuple[Tensor, Tensor]:
    """Return the edges of a block among padded rows, in CSC.

    Parameters
    ----------
    indptr, indices : torch.Tensor
        The block: int64[num_dst + 1], and int32 or int64 sources of each edge.
    sources, destinations : Padded
        Their rows; destinations are the sources of the first hops.
    edges : Padded
        The edges of each hop of destinations; or of all together, which are then padded behind the last hop.
    padding : sequence of sequences of PaddingEdges
        For each entry of `edges` those that it lacks, in the order of their destinations.

    Returns
    -------
    indptr, indices : torch.Tensor
        Of the same dtypes. Real edges keep their order; those of a hop are followed by its padding edges, which are
        divided among their destinations. ``pad_rows(values, edges, fill)`` pads arrays of edges alike.

    Raises
    ------
    InputError
        For arrays of other lengths, and other numbers of padding edges.
    """
    _check_rows("indptr", indptr, sum(destinations.counts) + 1)
    _check_rows("indices", indices, sum(edges.counts))
    if indices.dtype not in (torch.int32, torch.int64):
        raise InputError(f"pad: expected indices of int32 or int64, got {indices.dtype}")
    lacking = [size - count for count, size in zip(edges.counts, edges.sizes, strict=True)]
    if [sum(one.number for one in hop) for hop in padding] != lacking:
        raise InputError(f"pad: expected {lacking} padding edges in hops, got {padding}")
    degrees = pad_rows(indptr.diff(), destinations, fill=0)
    places = _places(sources, indices)
    found = []
    for given, hop in zip(_parts(indices, edges), padding, strict=True):
        found.append(places.index_select(0, given))
        found += [_turns(one.number, one.sources, indices) for one in hop if one.number]
        _divide(hop, degrees)
    starts = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
    return starts, torch.cat(found)


def _turns(number: int, rows: slice, ids: Tensor) -> Tensor:
    """Return rows in turn, of the dtype of ids."""
    turns = torch.arange(number, dtype=ids.dtype, device=ids.device).remainder(rows.stop - rows.start)
    return turns.add(rows.start)


def _divide(padding: Sequence[PaddingEdges], degrees: Tensor) -> None:
    """Divide the edges of each kind of destinations among their rows."""
    kinds: dict[tuple[int, int], int] = {}
    for one in padding:
        rows = one.destinations.start, one.destinations.stop
        kinds[rows] = kinds.get(rows, 0) + one.number
    for (start, stop), number in kinds.items():
        if number:
            each, rest = divmod(number, stop - start)
            degrees[start:stop] = each
            degrees[start : start + rest] += 1


def _parts(values: Tensor, rows: Padded) -> list[Tensor]:
    """Return the real rows of each hop."""
    ends = accumulate(rows.counts)
    return [values[end - count : end] for count, end in zip(rows.counts, ends, strict=True)]


def _places(rows: Padded, ids: Tensor) -> Tensor:
    """Return the padded row of each real row, of the dtype of ids."""
    each = torch.arange(rows.num_rows, dtype=ids.dtype, device=ids.device)
    return torch.cat([each[real] for real in rows.real()])


def _check_rows(name: str, values: Tensor, expected: int) -> None:
    if not isinstance(values, Tensor) or values.ndim == 0 or len(values) != expected:
        got = f"{tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise InputError(f"pad: expected {name} of {expected} rows, got {got}")
