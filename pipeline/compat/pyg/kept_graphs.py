"""One graph for all loaders of the same data: kept as long as the data are there, and made anew where they change."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import is_sparse

from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.graph import Graph

#: By the id of what owns them, an object of the user; entries go with it.
_kept: dict[int, _Graphs] = {}
_guard = RLock()


@dataclass(eq=False)
class _Graphs:
    """The graphs of an owner, by what was asked for, each beside what it was made of."""

    owner: weakref.ref[Any]
    lock: Any = field(default_factory=RLock)
    by_name: dict[Any, tuple[_Inputs, Graph]] = field(default_factory=dict)


def kept_graph(owner: Any, name: Any, inputs: Iterable[Any], make: Callable[[], Graph]) -> Graph:
    """Return the graph of an owner, made anew only where what it is made of is not what it was.

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
    """
    given = _inputs_of(inputs)
    if given is None:
        return make()
    with _guard:
        graphs = _kept.get(id(owner))
        if graphs is None or graphs.owner() is not owner:
            try:
                there = weakref.ref(owner, _forget(id(owner)))
            except TypeError:  # nothing would tell that it is gone
                return make()
            graphs = _kept[id(owner)] = _Graphs(there)
    with graphs.lock:
        known = graphs.by_name.get(name)
        if known is not None and known[0].are(given):
            return known[1]
        graphs.by_name.pop(name, None)  # frees what nobody else has before another one is made
        graph = make()
        graphs.by_name[name] = given, graph
    return graph


def _forget(key: int) -> Callable[[Any], None]:
    def forget(reference: Any) -> None:
        graphs = _kept.get(key)
        if graphs is not None and graphs.owner is reference:
            del _kept[key]

    return forget


@dataclass(eq=False)
class _Inputs:
    """What a graph was made of: weak references to arrays, and a mark of each input that changes with it."""

    arrays: list[weakref.ref[Any]]
    marks: list[Any]

    def are(self, other: _Inputs) -> bool:
        """Return whether they are the same, now; an id says so of objects alone that are still there."""
        return self.marks == other.marks and all(reference() is not None for reference in self.arrays)


def _inputs_of(inputs: Iterable[Any]) -> _Inputs | None:
    """Return the inputs as they are now; None where no mark would tell of a change."""
    arrays: list[weakref.ref[Any]] = []
    marks: list[Any] = []
    for value in inputs:
        if isinstance(value, Tensor) or is_sparse(value):
            # Rows of an edge_index are another object at each look; the tensor that they are rows of is not.
            whole = value._base if isinstance(value, Tensor) and value._base is not None else value  # noqa: SLF001
            mark = _mark(value)
            if mark is None:
                return None
            arrays.append(weakref.ref(whole))
            marks.append((id(whole), mark))
        elif value is None or isinstance(value, int | str | tuple):
            marks.append(value)
        else:
            return None
    return _Inputs(arrays, marks)


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
