"""Streams as a model: what a side stream is given runs when somebody waits for it, and not before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from cuda_host.graph_model import Graph

Made = TypeVar("Made")
Queue = list[Callable[[], None]]


@dataclass
class _Memory:
    """Memory that a side stream has made, or of the host, and the streams that are known to use it."""

    alive: StorageWeakRef
    is_on_host: bool = False
    users: list[Queue | None] = field(default_factory=list)
    maker: Queue | None = None
    position: int = 0  # of the maker, behind which it is made


@dataclass
class _Copy:
    """A copy to the host, and what is copied."""

    there: Tensor
    read: Tensor
    has_arrived: bool = False


class StreamModel:
    """Side streams, one for each thread, whose work is put off as long as it can be.

    A real one may have done its work when nobody has waited. This one never has, so whoever forgets to wait reads what
    is not there yet. Only the host and the main stream, whose work runs at once, let it run: what a side stream waits
    for is put off with its own work. Copies that block nobody (`copy_`, and those of arrays of the host) are put off as
    well, and so are `fill_` and `zero_`.

    Copies to the host for which it does not wait, ``to("cpu", non_blocking=True)``, it does not see on any stream, the
    main one included, before it waits for that stream or sees that an event behind them is done. Until then -1, or NaN,
    is there. The CPU is named by a string there, and a GPU by a `torch.device`.

    What torch's operations make on a side stream is there at once, as sizes depend on it; `check` refuses uses of it by
    streams that have not waited for it.

    Memory belongs to the side stream that made it. A GPU's allocator gives it to others once its tensors are gone,
    whatever other streams still do with it, unless it was told of them: `check` refuses uses of which it was not.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.RLock()
        self._memory: dict[int, _Memory] = {}
        self._late: dict[int, list[_Copy]] = {}
        #: How far in the work of others each stream is known to be behind it; and how far the host has waited, by None.
        self._behind: dict[int | None, dict[int, int]] = {}

    @property
    def queue(self) -> Queue | None:
        """The work put off on the stream that is current, or None on the main one."""
        return self._local.queue if getattr(self._local, "inside", False) else None

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        if not hasattr(self._local, "queue"):
            self._local.queue = []
        self._local.inside = True
        try:
            with _InOrder(self), _ReadByHost(self):
                yield
        finally:
            self._local.inside = False

    def record(self) -> tuple[Callable[[], None], Callable[[], bool]]:
        """Return what lets the stream that calls it wait for all that the current one was given, and whether it ran."""
        queue = self.queue
        if queue is None:
            late, known = list(self._late_on(None)), dict(self._behind_of(None))

            def follow() -> None:
                self._late_on(self.queue).extend(late)
                _merge(self._behind_of(self.queue), known)

            return follow, lambda: _arrive(late)
        position = len(queue)

        queue.append(_done)  # so that what is made from now on is behind the event
        behind = {**self._behind_of(queue), id(queue): position}

        def run(waiting: Queue | None) -> None:
            self._run(queue, position)
            if waiting is not queue:
                self._late_on(waiting).extend(self._late_on(queue))

        def wait() -> None:
            waiting = self.queue
            _merge(self._behind_of(waiting), behind)
            if waiting is None:
                run(None)
            elif waiting is not queue:
                waiting.append(lambda: run(waiting))

        def is_done() -> bool:
            if not all(work is _done for work in queue[:position]):
                return False
            _merge(self._behind.setdefault(None, {}), behind)
            return _arrive(self._late_on(queue))

        return wait, is_done

    @property
    def graph(self) -> Graph | None:
        """The graph that this thread captures."""
        return getattr(self._local, "graph", None)

    def capture(self, work: Callable[[], Made]) -> tuple[Made, Callable[[], None]]:
        """Return what work returns, which has not run, and a function that runs it: a CUDA graph."""
        assert self.queue is None
        self._local.graph = graph = Graph()
        try:
            with graph.capture():
                return work(), graph.replay
        finally:
            self._local.graph = None

    def synchronize(self) -> None:
        """Let the host wait for all that the current stream was given."""
        if self.graph is not None:
            raise RuntimeError("the host waits while a graph is captured")
        self.catch_up()
        _arrive(self._late_on(self.queue))
        if self.queue is not None:
            behind = {**self._behind_of(self.queue), id(self.queue): len(self.queue)}
            _merge(self._behind.setdefault(None, {}), behind)

    def catch_up(self) -> None:
        """Do all that the current stream was given, of which the host does not know."""
        if self.queue is not None:
            self._run(self.queue, len(self.queue))

    def copy_to_host(self, tensor: Tensor) -> Tensor:
        """Return a copy for the host, which does not wait for it."""
        queue = self.queue
        with _disable_current_modes():
            memory = torch.full((tensor.nbytes,), 255, dtype=torch.uint8)
            copy = _Copy(memory.view(tensor.dtype).view(tensor.shape), tensor.detach())
        self.made_here(copy.there, on_host=True)

        def run() -> None:
            with _disable_current_modes():
                copy.read = copy.read.clone()
            self._late_on(queue).append(copy)

        if queue is None:
            run()
        else:
            self.check([tensor], "a copy to the host")
            queue.append(run)
        return copy.there

    def copy_from_host(self, tensor: Tensor) -> Tensor:
        """Return a copy in memory of the GPU, for which nobody waits: on a side stream it comes in its turn."""
        queue = self.queue
        with _disable_current_modes():
            read = tensor.clone()
            if queue is None:
                return read
            memory = torch.full((read.nbytes,), 255, dtype=torch.uint8)
            there = memory.view(read.dtype).view(read.shape)

        def run() -> None:
            with _disable_current_modes():
                there.copy_(read)

        queue.append(run)
        return there

    def _behind_of(self, queue: Queue | None) -> dict[int, int]:
        return self._behind.setdefault(id(queue), {})

    def _is_behind(self, memory: _Memory) -> bool:
        """Whether the current stream, or the host, has waited until memory was made."""
        maker, here = memory.maker, self.queue
        if maker is None or maker is here:
            return True
        waited = (self._behind_of(here), self._behind.setdefault(None, {}))
        return any(one.get(id(maker), -1) >= memory.position for one in waited)

    def _late_on(self, queue: Queue | None) -> list[_Copy]:
        """Return the copies to the host behind which a stream is, and of which the host does not know."""
        return self._late.setdefault(id(queue), [])

    def use(self, tensor: Tensor) -> None:
        """Note that the current stream uses memory of a tensor: `Tensor.record_stream`."""
        memory = self._memory_of(tensor)
        if memory is not None:
            memory.users.append(self.queue)

    def check(self, tensors: Iterable[Any], what: str) -> None:
        """Refuse tensors in memory of another side stream, which was not told that the current one uses it."""
        for tensor in tensors:
            memory = self._memory_of(tensor) if isinstance(tensor, Tensor) else None
            if memory is not None and not memory.is_on_host:
                message = f"{what}: memory of another stream is used here, and nobody has called record_stream"
                assert any(user is self.queue for user in memory.users), message
                message = f"{what}: memory is used here that another stream is about to make, and nobody has waited"
                assert self._is_behind(memory), message

    def made_here(self, tensor: Tensor, *, on_host: bool = False) -> None:
        """Let memory of a tensor belong to the current stream, or to the host."""
        with self._lock:
            if len(self._memory) > 4096:
                self._memory = {key: one for key, one in self._memory.items() if not one.alive.expired()}
            storage = tensor.untyped_storage()
            position = 0 if self.queue is None else len(self.queue)
            self._memory[storage._cdata] = _Memory(StorageWeakRef(storage), on_host, [self.queue], self.queue, position)

    def _memory_of(self, tensor: Tensor) -> _Memory | None:
        # The address of a storage is its own as long as there is a weak reference to it.
        memory = self._memory.get(tensor.untyped_storage()._cdata)
        return None if memory is None or memory.alive.expired() else memory

    def is_on_host(self, tensor: Tensor) -> bool:
        """Whether memory was the target of a copy to the host."""
        memory = self._memory_of(tensor)
        return memory is not None and memory.is_on_host

    def _run(self, queue: Queue, position: int) -> None:
        with self._lock:
            for place in range(position):
                work, queue[place] = queue[place], _done
                work()


#: Torch's operations that write and read nothing, and are put off.
_FILLS = ("aten::fill_", "aten::zero_")


class _InOrder(TorchDispatchMode):
    """Lets torch's own operations on a stream see what was put off before them.

    They run at once, so all before them does, too; memory that they allocate or look at from another side is not read.
    """

    def __init__(self, streams: StreamModel) -> None:
        super().__init__()
        self._streams = streams

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        name = function.name()
        given = list(_tensors((args, kwargs)))
        is_late = name == "aten::copy_" and (kwargs.get("non_blocking") or args[2:3] == (True,))
        if is_late or name.partition(".")[0] in _FILLS:
            self._streams.check(given, name)
            self._put_off(function, args, kwargs)
            return args[0]
        if not function.is_view and "empty" not in name:
            self._streams.catch_up()
            self._streams.check(given, name)
        made = function(*args, **kwargs)
        known = {tensor.untyped_storage()._cdata for tensor in given}
        for tensor in _tensors(made):
            if tensor.untyped_storage()._cdata not in known:
                self._streams.made_here(tensor)
        return made

    def _put_off(self, function: Any, args: Any, kwargs: Any) -> None:
        def copy() -> None:
            with _disable_current_modes():
                function(*args, **kwargs)

        assert self._streams.queue is not None
        self._streams.queue.append(copy)


class _ReadByHost(TorchFunctionMode):
    """The same for the reads of memory that torch does not dispatch on a CPU. On a GPU, the host waits there."""

    def __init__(self, streams: StreamModel) -> None:
        super().__init__()
        self._streams = streams

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        is_read = getattr(function, "__name__", None) in ("tolist", "numpy", "__array__")
        if is_read and not self._streams.is_on_host(args[0]):
            self._streams.synchronize()
        return function(*args, **(kwargs or {}))


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _merge(known: dict[int, int], other: dict[int, int]) -> None:
    for key, position in other.items():
        known[key] = max(known.get(key, -1), position)


def _arrive(copies: list[_Copy]) -> bool:
    """Let the host see copies."""
    for copy in copies:
        if not copy.has_arrived:
            copy.has_arrived = True
            with _disable_current_modes():
                copy.there.copy_(copy.read)
    copies.clear()
    return True


def _done() -> None:
    """What has run already, or ran at once."""
