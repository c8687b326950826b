"""Draws and keys of dropout, the same again where torch.utils.checkpoint calls a part of a model once more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch

from headrace.ops.errors import InputError
from headrace.ops.random.rng import DROPOUT, stream_key

T = TypeVar("T")

#: Calls of a module whose draws are kept until the backward direction.
KEPT = 32


def is_recomputing() -> bool:
    """Return whether this thread is in a backward direction, where only `torch.utils.checkpoint` calls modules."""
    return bool(torch._C._current_graph_task_id() != -1)  # noqa: SLF001 - as torch.autograd.graph asks for it


def may_be_recomputed() -> bool:
    """Return whether `torch.utils.checkpoint` may have called the module, so that it would call it again.

    It does so without gradients, or takes what is saved for gradients by hooks. What cannot be known is taken for true.
    """
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # noqa: SLF001 - from torch 2.4 on
    return not torch.is_grad_enabled() or hooks is None or hooks(True) is not None


class Draws(Generic[T]):
    """What a module drew at each call, to be given again where `torch.utils.checkpoint` repeats the call.

    Masks here follow from a batch or from how often a layer was called, neither of which a repeated call would find as
    it was. But checkpoint sets torch's generator back to where it was. So what was drawn is kept under a number of that
    generator, which is drawn for this alone, and found again under the same number. Where it cannot be
    checkpoint that calls, nothing is drawn or kept: with gradients, from torch 2.4 on.
    """

    def __init__(self) -> None:
        self._drawn: OrderedDict[int, T] = OrderedDict()

    def of(self, draw: Callable[[], T]) -> T:
        """Return what is drawn at this call, or was when it was made for the first time.

        Raises
        ------
        InputError
            If it is repeated, but what was drawn is not known any more.
        """
        if is_recomputing():
            drawn = self._drawn.get(_number())
            if drawn is None:
                raise InputError(
                    "dropout: expected torch.utils.checkpoint to repeat a call as it was, got other random numbers; "
                    f"leave preserve_rng_state=True, call backward() before {KEPT} further calls, and let no other "
                    "thread draw meanwhile"
                )
            return drawn
        drawn = draw()
        if may_be_recomputed():
            self._drawn[_number()] = drawn
            if len(self._drawn) > KEPT:
                self._drawn.popitem(last=False)
        return drawn

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Draws, ()  # a copy of a module has not been called


def _number() -> int:
    return int(torch.randint(2**63 - 1, (), device="cpu"))


class DropoutKeys:
    """Keys of the masks of one layer, another one at each call, and the same on all ranks.

    Parameters
    ----------
    seed
        Another one gives other masks.
    number
        Which layer of the model it is.
    """

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number, self.calls = seed, number, 0
        self._draws: Draws[int] = Draws()

    def next(self) -> int:
        """Return the key of this call."""
        return self._draws.of(self._next)

    def _next(self) -> int:
        self.calls += 1
        return stream_key(self.seed, 0, self.calls - 1, self.number, DROPOUT)
