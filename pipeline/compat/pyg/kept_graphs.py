"""One graph for all loaders of the same data, kept as long as the data exist, and made anew where they change."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch_geometric import EdgeIndex
from torch_geometric.utils import is_sparse

from headrace.ops import InputError, gather_rows
from headrace.ops.forks import ProcessLock
from headrace.pipeline.data import Graph, sampled_digest
from headrace.pipeline.data.graph_view import as_attributes
from headrace.pipeline.data.seen import note, of_times
from headrace.pipeline.data.times import seen_times

#: By the id of what owns them, an object of the user; entries go with it.
_kept: dict[int, _Graphs] = {}
_guard = ProcessLock(RLock)


@dataclass(eq=False)
class _Graphs:
    """The graphs of an owner, by what was asked for, each beside what it was made of."""

    owner: weakref.ref[Any]
    lock: ProcessLock = field(default_factory=lambda: ProcessLock(RLock))
    by_name: dict[Any, tuple[_Inputs, Graph]] = field(default_factory=dict)


def kept_graph(owner: Any, name: Any, inputs: Iterable[Any], make: Callable[[], Graph], *, keeps: bool = True) -> Graph:
    """Return the graph of an owner, made anew only where what it is made of is not what it was.

    Owners with the same tensors, such as a ``Data`` and ``copy.copy`` of it, have the same graph.

    A change is seen where a tensor is another one, lies elsewhere or was written by torch, which counts versions. Other
    writes, through NumPy or ``tensor.data``, are seen of arrays up to 4 MiB, and of larger ones in samples alone.

    Parameters
    ----------
    owner
        An object of the user, such as a ``Data``: the graph is kept as long as it is there.
    name
        What is asked for: the last graph of each name is kept.
    inputs
        What the graph is made of: tensors, matrices, and values that compare.
    make
        Makes the graph.
    keeps
        Whether a graph that is made now is kept.
    """
    given = _inputs_of(inputs)
    if given is None:
        return make()
    with _guard.held():
        graphs = _kept.get(id(owner))
        if graphs is None or graphs.owner() is not owner:
            try:
                there = weakref.ref(owner, _forget(id(owner)))
            except TypeError:  # nothing would tell that it is gone
                return make()
            graphs = _kept[id(owner)] = _Graphs(there)
    with graphs.lock.held():
        known = graphs.by_name.get(name)
        if known is not None and known[0].are(given):
            return known[1]
        graphs.by_name.pop(name, None)  # frees what nobody else has before another one is made
        graph = _of_another(name, given)
        if graph is None:
            graph = make()
            if not keeps:
                return graph
        graphs.by_name[name] = given, graph
    return graph


def _of_another(name: Any, given: _Inputs) -> Graph | None:
    """Return the graph of another owner, made of the same; None where there is none."""
    for graphs in list(_kept.values()):
        there = graphs.by_name.get(name)
        if there is not None and there[0].are(given):
            return there[1]
    return None


def _forget(key: int) -> Callable[[Any], None]:
    def forget(reference: Any) -> None:
        graphs = _kept.get(key)
        if graphs is not None and graphs.owner is reference:
            del _kept[key]

    return forget


@dataclass(eq=False)
class _Inputs:
    """What a graph was made of: whether the arrays are there yet, and a mark of each input that changes with it."""

    are_there: list[Callable[[], bool]]
    marks: list[Any]

    def are(self, other: _Inputs) -> bool:
        """Return whether they are the same, now; an address says so of memory alone that is still there."""
        return self.marks == other.marks and all(is_there() for is_there in self.are_there)


def _inputs_of(inputs: Iterable[Any]) -> _Inputs | None:
    """Return the inputs as they are now; None where no mark would tell of a change."""
    are_there: list[Callable[[], bool]] = []
    marks: list[Any] = []
    for value in inputs:
        if isinstance(value, Tensor) or is_sparse(value):
            mark = _mark(value)
            if mark is None:
                return None
            identity, is_there = _identity(value)
            are_there.append(is_there)
            marks.append((identity, mark))
        elif value is None or isinstance(value, int | str | tuple):
            marks.append(value)
        else:
            return None
    return _Inputs(are_there, marks)


def _identity(array: Any) -> tuple[int, Callable[[], bool]]:
    """Return what tells an array from all others, as long as a function returns True.

    Of a tensor it is its memory: rows of an ``edge_index`` are another object at each look, and so are aliases.
    """
    inner = array._data if isinstance(array, EdgeIndex) else array  # noqa: SLF001 - what has the ids
    if isinstance(inner, Tensor) and inner.layout == torch.strided:
        memory: Any = StorageWeakRef(inner.untyped_storage())  # type: ignore[no-untyped-call] # torch has no type for it
        return memory.cdata, lambda: not memory.expired()
    reference = weakref.ref(array)
    return id(array), lambda: reference() is not None


def _mark(array: Any) -> tuple[Any, ...] | None:
    """Return what changes where a tensor or a matrix is written, or moved; None where nothing does."""
    if not isinstance(array, Tensor):
        return ()  # of torch_sparse: it is never written, methods return others
    if array.is_inference():
        return None  # torch does not count its versions
    of_matrix = is_sparse(array)
    inner = array._data if isinstance(array, EdgeIndex) else array  # noqa: SLF001 - what has the ids
    mark: tuple[Any, ...] = (array._version, inner._version, tuple(array.shape), array.dtype, array.device)  # noqa: SLF001
    if of_matrix:
        return mark
    mark = (*mark, inner.data_ptr(), inner.stride())
    if inner.device.type != "cpu" or type(inner) is not Tensor:
        return mark
    return (*mark, sampled_digest([("", inner.detach().transpose(0, -1))]))  # of edges, which are columns


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
    except InputError:
        return graph  # the sampler says what is wrong, by its name
