"""CUDA graphs as a model: what is captured has not run, and runs at each replay, in the memory of the capture.

A capture of this model does run, so that sizes and errors are known. At its end all memory that was there before is as
it was, and what the capture allocated holds no number. It refuses what a GPU refuses: that the host reads.

It does not find constants of the host that a GPU copies while it captures, as ``torch.tensor([1.0])`` is in memory of
the CPU on a stand-in too, nor memory that a GPU gives to several tensors of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

#: Operations whose result has a size, or is a value, that the host waits for.
_WAITS = (
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::bincount",
    "aten::equal",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
)
_BY_INDEX = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
_MASKS = (torch.bool, torch.uint8)


def refuse_to_wait(function: Any, args: Any, kwargs: Any) -> None:
    """Refuse an operation for which the host waits for a GPU.

    Raises
    ------
    RuntimeError
        As torch does while it captures.
    """
    name = function.name().partition(".")[0]
    has_mask = name in _BY_INDEX and any(one is not None and one.dtype in _MASKS for one in args[1])
    unknown_size = name == "aten::repeat_interleave" and kwargs.get("output_size") is None
    if name in _WAITS or has_mask or unknown_size:
        raise RuntimeError(f"the host waits in {name}")


class NoReads(TorchFunctionMode):
    """The same for reads that torch does not dispatch on a CPU."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if getattr(function, "__name__", None) in ("tolist", "numpy", "__array__"):
            raise RuntimeError(f"the host waits in {function.__name__}")
        return function(*args, **(kwargs or {}))


class NoWaits(TorchDispatchMode):
    """Refuses operations for which the host waits."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        refuse_to_wait(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


class Graph(TorchDispatchMode):
    """Operations of torch and launches of kernels, as one capture has seen them."""

    def __init__(self) -> None:
        super().__init__()
        self._work: list[Callable[[], object]] = []
        self._made: dict[int, torch.UntypedStorage] = {}
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    @contextmanager
    def capture(self) -> Iterator[None]:
        try:
            with NoReads(), self:
                yield
        finally:
            for memory, before in self._before.values():
                memory.copy_(before)
            for memory in self._made.values():
                _bytes_of(memory).fill_(255)  # nan, or -1

    def launch(self, arguments: Sequence[object], run: Callable[[], None]) -> None:
        """Capture a kernel, which may write to any of its arguments."""
        for one in arguments:
            if isinstance(one, Tensor):
                self._keep(one)
        run()
        self._work.append(run)

    def replay(self) -> None:
        with _disable_current_modes(), torch.no_grad():
            for work in self._work:
                work()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        refuse_to_wait(function, args, kwargs)
        given = _tensors((args, kwargs))
        if function._schema.is_mutable:
            for tensor in given:
                self._keep(tensor)
        made = function(*args, **kwargs)
        known = {tensor.untyped_storage()._cdata for tensor in given}
        fresh = [place for place, one in enumerate(_tensors(made)) if one.untyped_storage()._cdata not in known]
        outputs = [_tensors(made)[place].detach() for place in fresh]  # no graph of autograd is kept
        for tensor in outputs:
            self._made[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        if not function.is_view and "empty" not in function.name() and _tensors((given, made)):
            arguments = tree_map_only(Tensor, Tensor.detach, (args, kwargs))
            self._work.append(lambda: _again(function, *arguments, fresh, outputs))
        return made

    def _keep(self, tensor: Tensor) -> None:
        """Keep what memory holds that the capture has not allocated."""
        memory = tensor.untyped_storage()
        if memory._cdata not in self._made and memory._cdata not in self._before:
            with _disable_current_modes():
                self._before[memory._cdata] = memory, memory.clone()


def _again(function: Any, args: Any, kwargs: Any, fresh: list[int], outputs: list[Tensor]) -> None:
    made = _tensors(function(*args, **kwargs))
    for place, output in zip(fresh, outputs, strict=True):
        output.copy_(made[place])


def _tensors(value: Any) -> list[Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, Tensor)]


def _bytes_of(memory: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(memory)
