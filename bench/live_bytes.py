# ruff: noqa: SLF001 - storages have no public identity, and channels no public way to exchange bytes
"""The bytes of tensors that are alive: all that one thread makes and autograd keeps, to the byte."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Within ``with live:`` every storage that torch's operations return counts until its memory is given back.

    Of the thread that entered alone, its backward pass included; not what an operation takes and gives back inside, and
    not what was there before, unless it is named.
    """

    def __init__(self, counted: Iterable[torch.Tensor], known: Iterable[torch.Tensor]) -> None:
        """Begin with some tensors that count; those that are `known`, and views of them, never do."""
        super().__init__()
        self.now = self.most = 0
        self._seen: set[int] = set()
        self._see(counted, count=True)
        self._see(known, count=False)

    def _see(self, tensors: Iterable[torch.Tensor], *, count: bool) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata in self._seen or not storage.nbytes():
                continue
            size = storage.nbytes() if count else 0
            self._seen.add(storage._cdata)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._gone, storage._cdata, size).atexit = False

    def begin(self) -> None:
        """Forget the largest number so far."""
        self.most = self.now

    def _gone(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        # Sparse tensors have no storage: of what they are made of, the operations before have returned it.
        made = (leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided)
        self._see(made, count=True)
        return out


def most_live(call: Callable[[], object], known: Iterable[torch.Tensor]) -> int:
    """Return the most bytes that were alive at once of what a call makes; tensors that are `known` do not count."""
    with LiveBytes([], known) as live:
        call()
    return live.most


@contextmanager
def copies_of_channel_uncounted(comm: Any) -> Iterator[None]:
    """Leave out what the in-process channel copies, which a network does not."""
    plain = comm._all_to_all

    def exchange(sent: Any, received: Any, send_counts: Any, receive_counts: Any, meanwhile: Any) -> None:
        meanwhile()
        with _disable_current_modes():
            plain(sent, received, send_counts, receive_counts, lambda: None)

    comm._all_to_all = exchange
    try:
        yield
    finally:
        del comm._all_to_all
