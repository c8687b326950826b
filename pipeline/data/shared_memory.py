"""Memory that several processes share, and moves to it that leave running readers what they read."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.forks import ProcessLock
from headrace.pipeline.data.edge_attrs import attributes_by_name
from headrace.pipeline.data.graph_machinery import kept

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView


#: One value is moved at a time: what two threads send at once is in shared memory once.
MOVING = ProcessLock()


def shared_copy(tensor: Tensor, known: dict[Any, Tensor]) -> Tensor:
    """Return a tensor in memory that processes share: itself if it is there, or on a device, else a copy.

    The tensor stays where it is, unlike by ``tensor.share_memory_()``, so threads may read it meanwhile.

    Parameters
    ----------
    tensor
        What to copy.
    known
        The copies that were made before, by what they are copies of: views of one memory have one copy.
    """
    if tensor.device.type != "cpu" or tensor.is_shared():  # type: ignore[no-untyped-call] # torch has no type for it
        return tensor
    storage = tensor.untyped_storage()
    key = storage._cdata, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype  # noqa: SLF001
    if key not in known:
        # torch's own function, of what DataLoader's workers return: the copy goes there without a detour.
        there = torch.UntypedStorage._new_shared(tensor.nbytes, device="cpu")  # type: ignore[no-untyped-call] # noqa: SLF001
        known[key] = torch.empty(0, dtype=tensor.dtype, device="cpu").set_(there).view(tensor.shape).copy_(tensor)
    return known[key]


def sent_shared(kind: type[Any], share: Callable[[Any], object]) -> None:
    """Let values of a class move themselves to shared memory before they are pickled for another process.

    That is what `torch.multiprocessing` does: arguments of ``spawn``, items of a queue, datasets of workers. Copies and
    files (`copy`, `pickle`, ``torch.save``) are as they were.
    """

    def reduced(value: Any) -> Any:
        share(value)
        return value.__reduce_ex__(2)

    ForkingPickler.register(kind, reduced)


class Readers:
    """Threads that read memory by its address, and the one that may move it when none does.

    Torch frees the old memory when it moves a tensor, so a kernel that reads it would read what is not there. Readers
    need no lock: they say that they read, and look whether somebody waits for them.
    """

    def __init__(self) -> None:
        self._reading: list[int] = []  # threads; appending and removing are atomic
        self._moving: tuple[int, threading.Event] | None = None  # and in which process

    def enter(self) -> None:
        """Begin to read, as soon as nobody moves the memory."""
        me = threading.get_ident()
        while True:
            self._reading.append(me)
            moving = self._moving
            if moving is None or moving[0] != os.getpid():
                return
            self._reading.remove(me)
            moving[1].wait(1.0)

    def leave(self) -> None:
        """End to read."""
        self._reading.remove(threading.get_ident())

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Wait until nobody reads, and let nobody begin to."""
        with MOVING.held():
            event = threading.Event()
            self._moving = os.getpid(), event
            try:
                # Readers of the process that forked this one have stayed there: only threads that run are waited for.
                while not set(self._reading).isdisjoint(sys._current_frames()):  # noqa: SLF001
                    time.sleep(0.0002)
                yield
            finally:
                self._moving = None
                event.set()

    def __reduce__(self) -> Any:
        return Readers, ()


#: The arrays of a graph, and those that it has by name.
ARRAYS = ("indptr", "indices", "edge_permutation", "node_ids", "edge_times")
_BY_NAME = ("edge_attrs_csc", "node_attrs")


def share_graph(graph: GraphView) -> None:
    """Put copies in shared memory in the place of a graph's arrays; `GraphView.share_memory` documents it.

    The values are the same, so threads that read the graph meanwhile may have arrays of both kinds. What they have
    keeps the old ones.
    """
    known: dict[Any, Tensor] = {}
    with MOVING.held():
        _share(graph, known)


def _moved(graph: GraphView, moved: dict[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the arrays of a graph that get another place, each with its copy."""
    for name, there in moved.items():
        if name in _BY_NAME:
            yield from ((array, there[key]) for key, array in getattr(graph, name).items())
        else:
            yield getattr(graph, name), there


def _share(graph: GraphView, known: dict[Any, Tensor]) -> None:
    noted = [one for some in list(kept(graph).seen.values()) for one in list(some)]
    for seen in noted:
        seen.check()  # a copy would take what was written
    moved: dict[str, Any] = {}
    for name in ARRAYS:
        array = getattr(graph, name)
        if array is not None:
            there = shared_copy(array, known)
            moved |= {} if there is array else {name: there}
    for name in _BY_NAME:
        arrays = getattr(graph, name)
        there_by_name = {key: shared_copy(array, known) for key, array in arrays.items()}
        if any(there_by_name[key] is not array for key, array in arrays.items()):
            moved[name] = attributes_by_name(there_by_name, "edge" if name == "edge_attrs_csc" else "node")
    copies = {id(array): there for array, there in _moved(graph, moved)}
    for seen in noted:
        if id(seen.array) in copies:
            seen.move(copies[id(seen.array)])
    for name, value in moved.items():
        object.__setattr__(graph, name, value)  # the graph is frozen: its values stay
    if moved:
        kept(graph).forget_samplers()
    for table in list(kept(graph).tables.values()):
        if isinstance(table, type(graph)):  # the graph in the order of times, which has arrays in common with this one
            _share(table, known)
