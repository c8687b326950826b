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
    it was. But checkpoint sets torch's generator back to the state that it had. So what was drawn is kept under that
    state, and found again under the same one. Where it cannot be checkpoint that calls, nothing is kept: with
    gradients, from torch 2.4 on.
    """

    def __init__(self) -> None:
        self._drawn: OrderedDict[int, T] = OrderedDict()

    def of(self, draw: Callable[[], T]) -> T:
        """Return what is drawn at this call, or was when it was made for the first time.

        Parameters
        ----------
        draw
            Returns None where the caller draws from torch's generator itself, which then stays as it is here.

        Raises
        ------
        InputError
            If it is repeated, but what was drawn is not known any more.
        """
        again = is_recomputing()
        if not again and not may_be_recomputed():
            return draw()
        state = hash(torch.default_generator.get_state().numpy().tobytes())
        if again:
            if state not in self._drawn:
                raise InputError(
                    "dropout: expected torch.utils.checkpoint to repeat a call as it was, got other random numbers; "
                    f"leave preserve_rng_state=True, call backward() before {KEPT} further calls, and let no other "
                    "thread draw meanwhile"
                )
            drawn = self._drawn[state]
        else:
            drawn = self._drawn[state] = draw()
            if len(self._drawn) > KEPT:
                self._drawn.popitem(last=False)
        if drawn is not None:
            torch.randint(2, (), device="cpu")  # the next call finds another state
        return drawn

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Draws, ()  # a copy of a module has not been called


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
