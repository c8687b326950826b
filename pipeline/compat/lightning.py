"""Callbacks for PyTorch Lightning, as ``headrace.lightning``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.ops.optional import require
from headrace.pipeline.run.loader import Loader

if TYPE_CHECKING:
    Callback = object
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        Callback = require("pytorch_lightning", extra="lightning", stage="headrace.lightning").Callback

__all__ = ["LogStats"]


class LogStats(Callback):
    """Log the counts of the training loaders at the end of each epoch: rates, the share of waiting, bytes by place.

    The names are those of `Stats.scalars`. With several loaders the number of each is in front: ``"1/loader/..."``.

    Parameters
    ----------
    show
        Whether to print the verdict, too: how long the training loop waited.

    Examples
    --------
    ``Trainer(callbacks=[headrace.lightning.LogStats()])``
    """

    def __init__(self, *, show: bool = False) -> None:
        self.show = show

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        """Log the epoch and set the counts to zero."""
        del module
        loaders = list(_loaders(trainer.train_dataloader))
        for place, loader in enumerate(loaders):
            stats = loader.stats(reset=True)
            prefix = f"{place}/" if len(loaders) > 1 else ""
            scalars = {prefix + name: value for name, value in stats.scalars().items()}
            for logger in trainer.loggers:
                logger.log_metrics(scalars, step=trainer.global_step)
            if self.show and trainer.is_global_zero:
                print(prefix + stats.verdict)  # noqa: T201 - asked for


def _loaders(given: Any) -> Iterator[Loader]:
    """Yield the loaders of headrace among what a trainer iterates over, those of ``headrace.pyg`` included."""
    if isinstance(given, Loader):
        yield given
    elif isinstance(getattr(given, "runner", None), Loader):
        yield given.runner
    elif isinstance(given, dict | list | tuple):
        for one in given.values() if isinstance(given, dict) else given:
            yield from _loaders(one)
