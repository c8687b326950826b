"""The node contract: torchdata's where torchdata has one (>= 0.10), else the same contract from here.

A node is an iterator with a position. Subclasses implement ``reset``, ``next`` and ``get_state``; users call
``next(node)`` and ``node.state_dict()``. Inside a loader nodes have no state: each batch carries the position behind
it, as those that run ahead are not where the training loop is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

    from headrace.pipeline.run.loader import Loader


T_co = TypeVar("T_co", covariant=True)


class FallbackNode(Iterator[T_co], Generic[T_co]):
    """What ``torchdata.nodes.BaseNode`` promises, for torchdata versions that do not have it."""

    def __init__(self) -> None:
        self._is_reset = False

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Stand at the beginning, or where ``initial_state`` (from :meth:`state_dict`) says. Subclasses call super."""
        del initial_state
        self._is_reset = True

    def next(self) -> T_co:
        """Return the next value or raise StopIteration."""
        raise NotImplementedError(type(self))

    def get_state(self) -> dict[str, Any]:
        """Return what ``reset`` needs to continue after the last value returned."""
        raise NotImplementedError(type(self))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        self._reset_once()
        return self.next()

    def state_dict(self) -> dict[str, Any]:
        """Return :meth:`get_state`, after a first reset if there was none."""
        self._reset_once()
        return self.get_state()

    def _reset_once(self) -> None:
        if not self._is_reset:
            self.reset(None)


if TYPE_CHECKING:
    BaseNode = FallbackNode
else:
    try:
        from torchdata.nodes import BaseNode
    except ImportError:
        BaseNode = FallbackNode


class LoaderNode(BaseNode[Any]):
    """Yields the batches of a loader: one epoch, the next one after every ``reset``. Its state is the loader's."""

    def __init__(self, loader: Loader[Any]) -> None:
        super().__init__()
        self._loader = loader
        self._epoch: Any = None  # the iteration that runs

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        if self._epoch is not None:
            self._epoch.supersede()  # also where a thread of the graph of nodes has not ended yet
        if initial_state is not None:
            self._loader.load_state_dict(initial_state)
            self._epoch = None
        elif self._epoch is not None:
            # Begun here, not at the next batch, so that a state taken in between already points into the new epoch.
            self._epoch = iter(self._loader)

    def next(self) -> Any:
        if self._epoch is None:
            self._epoch = iter(self._loader)
        return next(self._epoch)

    def get_state(self) -> dict[str, Any]:
        return self._loader.state_dict()
