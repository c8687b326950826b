"""Types of nodes and edges: ranges of ids, and ids of several types in one list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.ops.gpu import device_of, use_here
from headrace.pipeline.data.arrays import as_cpu_tensor, check_kind, describe, whole_number
from headrace.pipeline.data.by_type import ByType
from headrace.pipeline.data.checks import as_list, check_ids

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

TypeName = str | tuple[str, str, str]
# The keys of a Mapping are invariant: one spelling for node types, edge types and a mixture.
TypeCounts = Mapping[str, int] | Mapping[tuple[str, str, str], int] | Mapping[TypeName, int]
"""A node type is a string; an edge type is a (source type, relation, destination type) triple, or a string."""


@dataclass(frozen=True, eq=False, repr=False)
class TypeOffsets:
    """Name consecutive ranges of an id space: type ``names[i]`` owns the ids ``offsets[i]`` to ``offsets[i + 1] - 1``.

    A heterogeneous graph is one homogeneous graph plus two of these, so no kernel needs to know about types:
    node types split the node ids, edge types split the *input* edge ids (the order in which edges were given).

    Parameters
    ----------
    names
        One name per type, all different. The order is the order of the ranges.
    offsets: int64[num_types + 1]
        Starts at 0 and never decreases; the last entry is the size of the id space.

    Raises
    ------
    InputError
        If a name occurs twice, or the offsets have the wrong length or dtype, do not start at 0, or decrease.
    """

    names: tuple[TypeName, ...]
    offsets: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(as_list(self.names, "TypeOffsets: names", "types", InputError)))
        odd = [name for name in self.names if not _is_hashable(name)]
        if odd:
            raise InputError(f"TypeOffsets: expected names that can be looked up, got {odd[0]!r}; pass texts or tuples")
        if len(set(self.names)) != len(self.names):
            raise InputError(
                f"TypeOffsets: expected names that all differ, got {list(self.names)}; rename the repeated ones"
            )
        offsets = as_cpu_tensor(self.offsets, "TypeOffsets: offsets")
        if offsets.dtype != torch.int64 or offsets.shape != (len(self.names) + 1,):
            raise InputError(
                f"TypeOffsets: expected offsets of int64[{len(self.names) + 1}] for {len(self.names)} names, "
                f"got {offsets.dtype} of shape {tuple(offsets.shape)}; pass one per type and the total at the end"
            )
        if int(offsets[0]) != 0 or bool((offsets.diff() < 0).any()):
            raise InputError(
                f"TypeOffsets: expected offsets that start at 0 and never decrease, got {offsets.tolist()}; "
                "TypeOffsets.from_counts builds them from the number of ids of each type"
            )
        object.__setattr__(self, "offsets", offsets.detach().cpu())

    @classmethod
    def from_counts(cls, counts: TypeCounts) -> TypeOffsets:
        """Build the offsets from the number of ids of each type, in the order of the mapping.

        Raises
        ------
        InputError
            If a count is negative, or no integer.
        """
        advice = 'pass {"author": 100, "paper": 300}, or TypeOffsets'
        check_kind(counts, Mapping, "TypeOffsets: expected a dictionary of types and their counts", advice, InputError)
        what, least = "TypeOffsets.from_counts: the count of", torch.iinfo(torch.int64).min
        sizes = [whole_number(count, f"{what} {name!r}", least, InputError) for name, count in counts.items()]
        if any(size < 0 for size in sizes):
            raise InputError(
                f"TypeOffsets.from_counts: expected counts >= 0, got {dict(counts)}; correct the negative ones"
            )
        if sum(sizes) >= 1 << 63:
            raise InputError(f"TypeOffsets.from_counts: expected fewer than 2**63 ids, got {dict(counts)}")
        return cls(tuple(counts), torch.tensor([0, *sizes], dtype=torch.int64, device="cpu").cumsum(0))

    @property
    def num_types(self) -> int:
        """Return the number of types."""
        return len(self.names)

    @property
    def num_ids(self) -> int:
        """Return the size of the whole id space."""
        return int(self.offsets[-1])

    def id_range(self, name: TypeName) -> range:
        """Return the ids that type `name` owns.

        Raises
        ------
        InputError
            If there is no such type; the message lists those that exist.
        """
        if not _is_hashable(name) or name not in self.names:
            raise InputError(f"TypeOffsets: there is no type {name!r}; the types are {list(self.names)}")
        position = self.names.index(name)
        return range(int(self.offsets[position]), int(self.offsets[position + 1]))

    def global_ids(self, name: TypeName, ids: ArrayLike | Tensor) -> Tensor:
        """Return the ids in the whole id space of ids that count from 0 within type `name`, int64[num_ids].

        Raises
        ------
        InputError
            If there is no such type, or it has no such ids.
        """
        own = self.id_range(name)
        within = as_cpu_tensor(ids, "ids")
        if within.dtype not in INTEGERS:
            raise InputError(f"TypeOffsets.global_ids: expected integer ids, got {describe(within)}")
        if within.numel() and (int(within.min()) < 0 or int(within.max()) >= len(own)):
            raise InputError(
                f"expected ids of type {name!r} in [0, {len(own)}), got ids from {int(within.min())} to "
                f"{int(within.max())}; they count from 0 within each type"
            )
        return within.to(torch.int64) + own.start

    def type_of(self, ids: Tensor) -> Tensor:
        """Return the position in `names` of each id's type (`ids`: int[num_ids] → int64[num_ids]).

        Raises
        ------
        InputError
            If an id is outside the id space.
        """
        check_ids(ids, "TypeOffsets.type_of", InputError)
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= self.num_ids):
            raise InputError(
                f"TypeOffsets.type_of: expected ids in [0, {self.num_ids}), "
                f"got ids from {int(ids.min())} to {int(ids.max())}"
            )
        return self.numbers_of(ids)

    def numbers_of(self, ids: Tensor) -> Tensor:
        """Return the result of `type_of` for ids that are known to be in the id space, on any device."""
        # right=True skips empty types: the last type that starts at or before the id is the one that owns it.
        return torch.searchsorted(self._offsets_on(ids), ids.to(torch.int64).contiguous(), right=True) - 1

    def _offsets_on(self, ids: Tensor) -> Tensor:
        """Return the offsets where ids are; a GPU gets them once."""
        device = device_of(ids)
        if device is None:
            return self.offsets.to(ids.device)
        copies: dict[torch.device, Tensor] = vars(self).setdefault("_copies", {})
        if device not in copies:
            copies[device] = self.offsets.to(device)
        use_here([copies[device]])
        return copies[device]

    def __getstate__(self) -> dict[str, object]:
        return {"names": self.names, "offsets": self.offsets}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypeOffsets):
            return NotImplemented
        return self.names == other.names and torch.equal(self.offsets, other.offsets)

    def __hash__(self) -> int:
        return hash((self.names, tuple(self.offsets.tolist())))

    def __repr__(self) -> str:
        counts = zip(self.names, self.offsets.diff().tolist(), strict=True)
        return "TypeOffsets(" + ", ".join(f"{name!r}: {count}" for name, count in counts) + ")"


def _is_hashable(name: object) -> bool:
    try:
        hash(name)
    except TypeError:  # also of a tuple with a list
        return False
    return True


def as_type_offsets(types: TypeOffsets | TypeCounts | None, num_ids: int, what: str) -> TypeOffsets | None:
    """Accept offsets, counts or nothing, and check that they cover an id space of `num_ids` exactly.

    Raises
    ------
    InputError
        If the types cover another number of ids. `what` names the argument in the message.
    """
    if types is None:
        return None
    offsets = types if isinstance(types, TypeOffsets) else TypeOffsets.from_counts(types)
    if offsets.num_ids != num_ids:
        raise InputError(
            f"Graph: expected {what} to cover {num_ids} ids, got {offsets!r} which covers {offsets.num_ids}; "
            "every id belongs to exactly one type"
        )
    return offsets


def check_edge_ends(src: Tensor, dst: Tensor, node_types: TypeOffsets | None, edge_types: TypeOffsets | None) -> None:
    """Check that edges of a (source type, relation, destination type) triple join nodes of those two types.

    Parameters
    ----------
    src, dst: int[num_edges]
        Edge ends in input order.

    Raises
    ------
    InputError
        If an edge type names a node type that does not exist, or an end lies outside its node type's range.
    """
    if node_types is None or edge_types is None:
        return
    for name in edge_types.names:
        if isinstance(name, str):
            continue
        edges = edge_types.id_range(name)
        for end, ids, node_type in (("source", src, name[0]), ("destination", dst, name[2])):
            allowed = node_types.id_range(node_type)
            found = ids[edges.start : edges.stop]
            if found.numel() == 0:
                continue
            low, high = (int(value) for value in torch.aminmax(found))
            if low < allowed.start or high >= allowed.stop:
                raise InputError(
                    f"Graph: expected {end} ids of edge type {name} in {node_type!r}'s range "
                    f"[{allowed.start}, {allowed.stop}), got ids from {low} to {high}; "
                    "add the node type's offset to ids that count from 0 within their type"
                )


@dataclass(frozen=True, eq=False, repr=False)
class TypedIds:
    """Ids of nodes in the id space of all types, with the types of a graph.

    Nodes of a type are numbered in the order in which they stand here: so ids that come first have the same numbers
    in every longer list.

    Parameters
    ----------
    node_types, edge_types
        Of the graph.
    ids: int64[num_ids]
        Such as ``batch.n_id``.
    """

    node_types: TypeOffsets
    edge_types: TypeOffsets
    ids: Tensor

    @cached_property
    def types(self) -> Tensor:
        """The place of each id's type among the names, int64[num_ids]."""
        return self.node_types.numbers_of(self.ids)

    @cached_property
    def by_type(self) -> ByType:
        """The places of ids, those of the first type first."""
        return ByType(self.types, self.node_types.num_types)

    @cached_property
    def numbers(self) -> Tensor:
        """Number of each id among those of its type, int64[num_ids]."""
        numbers = torch.empty_like(self.ids)
        for number in range(self.node_types.num_types):
            places = self.by_type.places(number)
            numbers[places] = torch.arange(len(places), device=self.ids.device)
        return numbers

    def places(self, name: TypeName) -> Tensor:
        """Return the places of the ids of a type, int64[n], ascending.

        Raises
        ------
        InputError
            If there is no such type.
        """
        return self.by_type.places(type_number(self.node_types, name))

    def count(self, name: TypeName) -> int:
        """Return how many ids are of a type."""
        return self.by_type.count(type_number(self.node_types, name))

    def within(self, name: TypeName) -> Tensor:
        """Return the ids of a type as they count within it, int64[n]."""
        return self.ids[self.places(name)] - self.node_types.id_range(name).start

    def of_edges(self, edge_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number of the type of each edge, and the edge as it counts within the type, both int64[n]."""
        numbers = self.edge_types.numbers_of(edge_ids)
        return numbers, edge_ids - self.edge_types.offsets.to(edge_ids.device)[numbers]

    def first(self, number: int) -> TypedIds:
        """Return the first ids alone."""
        return self if number == len(self.ids) else self.of(self.ids[:number])

    def of(self, ids: Tensor) -> TypedIds:
        """Return other ids with these types."""
        return TypedIds(self.node_types, self.edge_types, ids)

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> TypedIds:
        """Return the same with a function applied to the ids."""
        return self.of(of_tensor(self.ids))

    def __reduce__(self) -> tuple[type[TypedIds], tuple[TypeOffsets, TypeOffsets, Tensor]]:
        return TypedIds, (self.node_types, self.edge_types, self.ids)

    def __repr__(self) -> str:
        return "TypedIds(" + ", ".join(f"{name!r}: {self.count(name)}" for name in self.node_types.names) + ")"


def count_by_hop(numbers: Tensor, num_types: int, sizes: Sequence[int]) -> list[list[int]]:
    """Return how many of each type each hop brought, where those of hops follow each other.

    Parameters
    ----------
    numbers: int64[n]
        The place of each one's type among the names.
    num_types
        Types.
    sizes
        How many each hop brought.
    """
    of_hops = torch.tensor(sizes, dtype=torch.int64, device=numbers.device)
    hops = torch.repeat_interleave(of_hops, output_size=len(numbers))
    counts = torch.bincount(numbers * len(sizes) + hops, minlength=num_types * len(sizes))
    listed: list[list[int]] = counts.view(num_types, len(sizes)).tolist()
    return listed


def type_number(types: TypeOffsets, name: TypeName) -> int:
    """Return the place of a type among the names; of an edge type its relation alone will do, where one has it.

    Raises
    ------
    InputError
        If there is no such type, or several have the relation.
    """
    names = types.names
    if name in names:
        return names.index(name)
    alike = [place for place, known in enumerate(names) if isinstance(known, tuple) and known[1] == name]
    if len(alike) == 1:
        return alike[0]
    problem = f"several types are called {name!r}" if alike else f"there is no type {name!r}"
    meant = next((one for one in names if isinstance(one, tuple) and ":".join(one) == name), None)
    raise InputError(f"{problem}; " + (f"the types are {list(names)}" if meant is None else f"write {meant}"))


def type_size(types: TypeOffsets, name: TypeName) -> int:
    """Return how many ids a type has.

    Raises
    ------
    InputError
        As `type_number`.
    """
    number = type_number(types, name)
    return int(types.offsets[number + 1] - types.offsets[number])
