"""Renumber ids by first occurrence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_count, as_numpy
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.sampling import on_gpu


@dataclass(frozen=True)
class Compacted:
    """Ids and their local numbers.

    Attributes
    ----------
    ids : torch.Tensor
        int64[num_src], the ids of `seen`, then new ones by first occurrence.
    indices : torch.Tensor
        [num_edges] of the neighbours' dtype: ``ids[indices]`` are the neighbours.
    """

    ids: torch.Tensor
    indices: torch.Tensor


def compact(seen: Array, neighbors: Array) -> Compacted:
    """Renumber `neighbors` by their position in `seen`; unknown ids follow, by first occurrence.

    Parameters
    ----------
    seen : torch.Tensor or numpy.ndarray
        int64[num_seen], unique.
    neighbors : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].

    Raises
    ------
    InputError
        If `seen` has an id twice, for more than 2**31 - 1 ids, or for wrong dtypes or devices.
    """
    device = device_of(neighbors)
    if device is not None:
        return Compacted(*on_gpu.compact(seen, neighbors, device, None, "compact"))
    ids, indices = _native.compact(
        as_numpy(seen, "seen", stage="compact"),
        as_numpy(neighbors, "neighbors", stage="compact", dtypes=ID_DTYPES),
    )
    return Compacted(torch.from_numpy(ids), torch.from_numpy(indices))


class CompactedElements(NamedTuple):
    """Elements of trees and the local numbers that stand for them.

    Attributes
    ----------
    ids, slots : torch.Tensor
        int64[num_src], nodes and their trees: the elements seen before, then new ones by first occurrence.
    indices : torch.Tensor
        [num_edges] of the neighbours' dtype: ``ids[indices]`` are the neighbours.
    """

    ids: torch.Tensor
    slots: torch.Tensor
    indices: torch.Tensor


def compact_elements(
    seen: torch.Tensor, seen_slots: torch.Tensor, neighbors: torch.Tensor, slots: torch.Tensor, num_nodes: int
) -> CompactedElements:
    """Renumber neighbours as `compact` does, where the same node in another tree is another element.

    Parameters
    ----------
    seen, seen_slots : torch.Tensor
        int64[num_seen] each, unique elements.
    neighbors : torch.Tensor
        int32[num_edges] or int64[num_edges].
    slots : torch.Tensor
        int64[num_edges], their trees.
    num_nodes : int
        Nodes are below it.

    Raises
    ------
    InputError
        As `compact`, and for more trees than 63 bits can tell apart.
    """
    of_edges = element_keys(neighbors.to(torch.int64), slots, num_nodes)
    compacted = compact(element_keys(seen, seen_slots, num_nodes), of_edges)
    ids, of_ids = nodes_and_slots(compacted.ids, num_nodes)
    return CompactedElements(ids, of_ids, compacted.indices.to(neighbors.dtype))


def element_keys(nodes: torch.Tensor, slots: torch.Tensor, num_nodes: int) -> torch.Tensor:
    """Return one number for each element (node, slot), int64[n]; `nodes_and_slots` is the way back.

    Raises
    ------
    InputError
        If there are more elements than 63 bits can tell apart.
    """
    if len(slots) and int(slots.max()) >= torch.iinfo(torch.int64).max // num_nodes:
        message = (
            f"expected trees that 63 bits can tell apart, got {int(slots.max()) + 1} of a graph of {num_nodes} nodes; "
            "use smaller batches"
        )
        raise InputError(message)
    if slots.is_cpu:  # NumPy's sums of a minibatch take a fraction of the time of torch's, whose threads wait for cores
        return torch.from_numpy(slots.numpy() * num_nodes + nodes.numpy())
    return slots * num_nodes + nodes


def nodes_and_slots(keys: torch.Tensor, num_nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the elements of keys: nodes, and their slots."""
    if keys.is_cpu:
        divided, rest = np.divmod(keys.numpy(), num_nodes)
        return torch.from_numpy(rest), torch.from_numpy(divided)
    slots = torch.div(keys, num_nodes, rounding_mode="floor")
    return keys - slots * num_nodes, slots


class Compactor:
    """Renumber nodes of one graph repeatedly, as `compact` does, but several times as fast.

    It keeps scratch memory between calls, once per call that runs at the same time: 4 bytes per node of a graph of up
    to 2**27 nodes, otherwise 16 to 64 bytes per node of the largest call. Calling it from several threads at once
    is safe.

    Parameters
    ----------
    num_nodes : int
        Nodes of the graph.
    dense : bool
        False takes memory by the size of calls for graphs of any size, as for a part of a graph.

    Raises
    ------
    InputError
        For a negative number, or another type.
    """

    def __init__(self, num_nodes: int, *, dense: bool = True) -> None:
        self._num_nodes = as_count(num_nodes, "num_nodes", stage="Compactor")
        self._native = _native.Compactor(self._num_nodes, **({} if dense else {"most_slots": 0}))

    @property
    def scratch_bytes(self) -> int:
        """The bytes kept between calls; those of a running call are counted after its end."""
        return self._native.scratch_bytes()

    def compact(self, seen: Array, neighbors: Array) -> Compacted:
        """Renumber `neighbors` as the function `compact` does.

        Parameters
        ----------
        seen : torch.Tensor or numpy.ndarray
            int64[num_seen], unique, in [0, num_nodes).
        neighbors : torch.Tensor or numpy.ndarray
            int32[num_edges] or int64[num_edges], in [0, num_nodes).

        Raises
        ------
        InputError
            If an id is not a node, `seen` has an id twice, for more than 2**31 - 1 ids, or for wrong dtypes or devices.
        """
        stage = "Compactor.compact"
        device = device_of(neighbors)
        if device is not None:
            return Compacted(*on_gpu.compact(seen, neighbors, device, self._num_nodes, stage))
        ids, indices = self._native.compact(
            as_numpy(seen, "seen", stage=stage), as_numpy(neighbors, "neighbors", stage=stage, dtypes=ID_DTYPES)
        )
        return Compacted(torch.from_numpy(ids), torch.from_numpy(indices))


def unique_and_inverse(ids: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distinct ids by first occurrence, and the position of each id among them.

    Parameters
    ----------
    ids : torch.Tensor or numpy.ndarray
        int64[n].

    Returns
    -------
    unique : torch.Tensor
        int64[num_unique].
    inverse : torch.Tensor
        int64[n], ``unique[inverse]`` are the ids.
    """
    device = device_of(ids)
    if device is not None:
        none = torch.empty(0, dtype=torch.int64, device=device)
        return on_gpu.compact(none, ids, device, None, "unique_and_inverse", int64_alone=True)
    values = as_numpy(ids, "ids", stage="unique_and_inverse")
    unique, inverse = _native.compact(np.empty(0, np.int64), values)
    return torch.from_numpy(unique), torch.from_numpy(inverse)
