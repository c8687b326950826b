"""Modules of torch between the layers of a model over a sharded graph: tried at their first call, as in minibatches."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from headrace.pipeline.models.by_parts.seam import running_seam
from headrace.pipeline.models.row_trial import mixes_rows, works_row_by_row
from headrace.pipeline.models.sar.rank_graph import report
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph


def try_rows(model: nn.Module, graph: ShardedGraph, ours: tuple[type[nn.Module], ...]) -> None:
    """Let the modules of torch in a model be tried on a rank's rows: they must work row by row.

    Other modules are not: they may meet the other ranks.

    Parameters
    ----------
    model
        Whose layers are replaced.
    graph
        This rank's part. Nothing is tried on one rank, which has all rows.
    ours
        Modules that are exact over ranks by themselves.
    """
    for module in model.modules():
        for hook in [one for one in module._forward_pre_hooks.values() if isinstance(one, _RowHook)]:  # noqa: SLF001
            hook.remove()
    if graph.world_size == 1:
        return
    for module in model.modules():
        parts = [one for one in module.modules() if not isinstance(one, ours)]
        if parts and all(type(one).__module__.startswith("torch.nn.") for one in parts):
            hook = _RowHook(graph, ours)
            hook.handle = module.register_forward_pre_hook(hook, with_kwargs=True)


class _RowHook:
    """Tries a module before its first call in a mode, and leaves when both modes were tried."""

    handle: RemovableHandle

    def __init__(self, graph: ShardedGraph | None, ours: tuple[type[nn.Module], ...]) -> None:
        self._graph, self._ours = graph, ours
        self._modes = {True, False}

    def __reduce__(self) -> tuple[type[_RowHook], tuple[None, tuple[()]]]:
        return _RowHook, (None, ())  # a copy of the module has the copied hook, and no graph to try it with

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._graph is None or module.training not in self._modes or running_seam() is not None:
            return
        numbers = self._graph.num_dst, self._graph.num_src, self._graph.num_edges
        verdict = works_row_by_row(module, args, kwargs, numbers, self._ours)
        if verdict is False:
            error = mixes_rows(module, "hr.sar.wrap")
            report(error, self._graph.comm)
            raise error
        if verdict is not None:
            self._modes.remove(module.training)
        if not self._modes:
            self.remove()

    def remove(self) -> None:
        """Leave the module."""
        self.handle.remove()
