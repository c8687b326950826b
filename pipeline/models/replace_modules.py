"""Modules of a model that other ones replace where several ranks run it: batch normalisation and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from headrace.ops.errors import InputError
from headrace.ops.random.dropout import dropout_mask

Module = TypeVar("Module", bound=nn.Module)

#: Norms of PyG that look at one row at a time, or that hold a `nn.BatchNorm1d`.
ROW_NORMS = ("BatchNorm", "DiffGroupNorm", "MessageNorm")


def replace_modules(model: nn.Module, kind: type[nn.Module], replacement: Callable[[Any], nn.Module]) -> nn.Module:
    """Replace modules of just this class, in place; return the model, or what replaces it.

    A module that stands in several places is replaced by one module.
    """
    made: dict[nn.Module, nn.Module] = {}

    def replaced(module: nn.Module) -> nn.Module:
        if module not in made:
            made[module] = replacement(module) if type(module) is kind else module
            for name, child in module._modules.items():  # noqa: SLF001 - named_children leaves out repeats
                if child is not None:
                    module._modules[name] = replaced(child)  # noqa: SLF001
        return made[module]

    return replaced(model)


def taken_over(kind: type[Module], old: nn.Module, **more: Any) -> Module:
    """Return a module of another kind with all that a module has: parameters, options, mode and hooks."""
    new = kind.__new__(kind)
    new.__dict__.update(old.__dict__)
    for name, value in more.items():
        setattr(new, name, value)
    return new


def drop_elements(rows: Tensor, key: int, ids: Tensor, probability: float) -> Tensor:
    """Drop elements of rows, [num_rows, ...], by masks of key and id of the row, and scale up the others."""
    width = rows[:1].numel() if len(rows) else 0
    kept = dropout_mask(key, ids.cpu(), width, probability).view(rows.shape).to(rows.device)
    return rows * kept / (1 - probability) if probability < 1 else rows * 0


def check_replaceable(model: nn.Module, caller: str, ours: tuple[type[nn.Module], ...]) -> None:
    """Refuse norms of many rows, and modules that draw, of other kinds than the two that are replaced.

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
        if draws_by_itself(module):
            raise InputError(
                f"{name} would draw on each rank for itself; use nn.Dropout, whose masks are the same for any number "
                "of ranks, or a module that does not draw"
            )


def draws_by_itself(module: nn.Module) -> bool:
    """Whether a module of torch draws random numbers in training."""
    if isinstance(module, nn.RNNBase):
        return bool(module.dropout > 0 and module.num_layers > 1)
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0)
    return isinstance(module, _DropoutNd | nn.RReLU | nn.FractionalMaxPool2d | nn.FractionalMaxPool3d)


def _is_norm_of_many_rows(module: nn.Module) -> bool:
    kind = type(module)
    if not kind.__module__.startswith("torch_geometric.nn.norm") or kind.__name__ in ROW_NORMS:
        return False
    return kind.__name__ != "LayerNorm" or getattr(module, "mode", "graph") != "node"
