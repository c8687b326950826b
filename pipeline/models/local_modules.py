"""Modules that would work on the rows of one rank as if they were all, where nothing takes their place."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from headrace.ops.errors import InputError


def check_replaceable(model: nn.Module, caller: str, ours: tuple[type[nn.Module], ...]) -> None:
    """Refuse kinds of batch normalisation and of dropout other than the two that are replaced.

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
        if isinstance(module, _BatchNorm):
            raise InputError(
                f"{name} would look at the rows of one rank alone; use nn.BatchNorm1d, which is computed over all "
                "ranks, or a norm of single rows"
            )
        if isinstance(module, _DropoutNd):
            raise InputError(
                f"{name} would draw on each rank for itself; use nn.Dropout, whose masks are the same for any number "
                "of ranks"
            )
