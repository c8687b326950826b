"""A loader as a node in a torchdata graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.pipeline.run.base_node import BaseNode

if TYPE_CHECKING:
    from headrace.pipeline.run.loader import Loader


class LoaderNode(BaseNode[Any]):
    """Yields the batches of a loader: one epoch, the next one after every ``reset``. Its state is the loader's."""

    def __init__(self, loader: Loader[Any]) -> None:
        super().__init__()
        self._loader = loader
        self._epoch: Iterator[Any] | None = None

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
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
