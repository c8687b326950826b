"""What a minibatch costs a GPU beside its kernels: waits of the host, launches, and operations of torch.

All memory is the CPU's where the CPU stands in for a GPU, so tensors are followed. On the GPU are those that code makes
or moves there by a `torch.device`, and all that operations make of these. Those moved to ``"cpu"``, by its name, are in
memory of the host again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from cuda_host.stand_in import StandIn
from cuda_host.stream_model import StreamModel

#: What reads numbers of a GPU, or has a result of a size that only the GPU knows.
WAITS = frozenset(
    (
        *("allclose", "argwhere", "bincount", "cpu", "equal", "is_nonzero", "item", "masked_select", "nonzero"),
        *("numpy", "tolist", "unique", "unique_consecutive"),
        *(f"__{name}__" for name in ("array", "bool", "contains", "float", "index", "int")),
    )
)
#: What makes tensors of numbers of the host: to a GPU they are copied from memory that is not pinned, which waits.
MADE_OF_NUMBERS = frozenset(("as_tensor", "asarray", "tensor"))


@dataclass
class Work:
    """The work of one minibatch: what the host waited for, the kernels launched, and the operations of torch."""

    waits: list[str] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {', '.join(found) or 'none'}" for name, found in vars(self).items())


class CountingStandIn(StandIn):
    """A stand-in that notes work: of each use of a side stream in `batches`, and of what is done inside `counting`."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.streams = _Streams(self)
        self.batches: list[Work] = []
        self._here = threading.local()
        self._there: Any = WeakIdKeyDictionary()

    @contextmanager
    def counting(self) -> Iterator[Work]:
        """Note the work of this thread, without that of side streams."""
        work, outer = Work(), getattr(self._here, "work", None)
        self._here.work = work
        try:
            with _Operations(work), _Calls(work, self._there):
                yield work
        finally:
            self._here.work = outer

    def launch(self, file: str, name: str, *others: Any) -> None:
        work = getattr(self._here, "work", None)
        if work is not None:
            work.launches.append(name)
        super().launch(file, name, *others)


class _Streams(StreamModel):
    """Streams of which each stretch of work is that of one minibatch."""

    def __init__(self, backend: CountingStandIn) -> None:
        super().__init__()
        self._backend = backend

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        with super().side_stream(), self._backend.counting() as work:
            yield
        self._backend.batches.append(work)


class _Calls(TorchFunctionMode):
    """Follows tensors through calls of torch, and finds those for which the host waits."""

    def __init__(self, work: Work, there: Any) -> None:
        super().__init__()
        self._work = work
        self._there = there

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        device = _device_of(name, args, kwargs)
        is_there = any(one in self._there for one in _tensors((args, kwargs)))
        if self._waits(name, args, kwargs, device, is_there):
            self._work.waits.append(name)
        _Operations.here.active = (is_there or isinstance(device, torch.device)) and name not in MADE_OF_NUMBERS
        try:
            made = function(*args, **kwargs)
        finally:
            _Operations.here.active = False
        to_host = name in ("cpu", "numpy", "__array__") or (device is not None and not isinstance(device, torch.device))
        if isinstance(made, Tensor) and (name in ("cpu", "to")) and made is args[0]:
            made = made.detach()  # memory elsewhere, another tensor
        if not to_host and (is_there or isinstance(device, torch.device)):
            for one in _tensors(made):
                self._there[one] = None
        return made

    def _waits(self, name: str, args: Any, kwargs: Any, device: Any, is_there: bool) -> bool:
        if name in MADE_OF_NUMBERS:
            return isinstance(device, torch.device) and not is_there
        if name == "to" and device is not None:
            changes = isinstance(device, torch.device) != is_there
            return changes and not kwargs.get("non_blocking", False)
        if not is_there:
            return False
        if name == "copy_":
            changes = (args[0] in self._there) != (args[1] in self._there)
            return changes and not kwargs.get("non_blocking", False)
        if name == "repeat_interleave":
            return len(args) + ("repeats" in kwargs) > 1 and kwargs.get("output_size") is None and not _is_number(args)
        if name in ("__getitem__", "__setitem__"):
            return _is_mask_or_list(args[1]) and not (name == "__setitem__" and not isinstance(args[2], Tensor))
        return name in WAITS


class _Operations(TorchDispatchMode):
    """Counts the operations of calls that work on a GPU, but for those that look at memory or allocate it."""

    here = threading.local()

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        name = function.name().removeprefix("aten::")
        looks = function.is_view or name.startswith(("empty", "_local_scalar", "lift", "detach", "alias", "_to_copy"))
        if getattr(self.here, "active", False) and not looks:
            self._work.operations.append(name)
        return function(*args, **(kwargs or {}))


def _device_of(name: str, args: Any, kwargs: Any) -> Any:
    """Return the device that a call names: a `torch.device` for a GPU, a string for the host."""
    if "device" in kwargs:
        return kwargs["device"]
    if name == "to" and len(args) > 1 and isinstance(args[1], (torch.device, str)):
        return args[1]
    return None


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)


def _is_number(args: Any) -> bool:
    return len(args) > 1 and isinstance(args[1], int)


def _is_mask_or_list(index: Any) -> bool:
    """Whether an index has a size that only its numbers give, or is copied to the GPU first."""
    if isinstance(index, tuple):
        return any(map(_is_mask_or_list, index))
    return isinstance(index, list) or (isinstance(index, Tensor) and index.dtype == torch.bool)
