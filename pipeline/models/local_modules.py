"""Modules that would work on the rows of one rank as if they were all, where nothing takes their place."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from headrace.ops.errors import InputError

#: Norms of PyG that look at one row at a time, or that hold a `nn.BatchNorm1d`.
ROW_NORMS = ("BatchNorm", "DiffGroupNorm", "MessageNorm")


def check_replaceable(model: nn.Module, caller: str, ours: tuple[type[nn.Module], ...]) -> None:
    """Refuse norms of many rows and dropout of other kinds than the two that are replaced.

    A subclass may compute anything, so what is exact for its base class need not be so for it.

    Parameters
    ----------
    model
        What is to run on several ranks.
    caller
        Begins the error.
    ours
        What replaces `nn.BatchNorm1d` and `nn.Dropout`, and may be there already.

    Raises
    ------
    InputError
        With the name of the class.
    """
    for module in model.modules():
        kind = type(module)
        if kind in (nn.BatchNorm1d, nn.Dropout, *ours):
            continue
        name = f"{caller}: {kind.__module__}.{kind.__name__}"
        if getattr(module, "allow_single_element", False):
            raise InputError(
                f"{name} with allow_single_element=True would not meet the other ranks where it has one row; leave it "
                "out: rows of all ranks are normalised together"
            )
        if isinstance(module, _BatchNorm) or _is_norm_of_many_rows(module):
            raise InputError(
                f"{name} would look at the rows of one rank alone; use nn.BatchNorm1d, which is computed over all "
                "ranks, or a norm of single rows"
            )
        if isinstance(module, _DropoutNd):
            raise InputError(
                f"{name} would draw on each rank for itself; use nn.Dropout, whose masks are the same for any number "
                "of ranks"
            )


def _is_norm_of_many_rows(module: nn.Module) -> bool:
    kind = type(module)
    if not kind.__module__.startswith("torch_geometric.nn.norm") or kind.__name__ in ROW_NORMS:
        return False
    return kind.__name__ != "LayerNorm" or getattr(module, "mode", "graph") != "node"
