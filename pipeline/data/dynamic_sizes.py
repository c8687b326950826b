"""Sizes that torch.compile is to take as dynamic from the first batch on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block

T = TypeVar("T")


def mark_dynamic(batch: T) -> T:
    """Mark the rows of all tensors of a batch as dynamic, so that ``torch.compile`` compiles a model once.

    Without marks it compiles for the sizes of the first batch, then again for sizes that have changed: two or three
    times an epoch. Loaders mark their batches once ``torch.compile`` was called. Call it on tensors that you make of
    them, outside of the model::

        model = torch.compile(model, fullgraph=True)
        for batch in loader:
            rows = hr.nn.mark_dynamic(batch.x[batch.seed_index])
            out = model(rows)

    Sizes of 0 and 1 are not marked: torch compiles for them separately. A size that the model needs as a constant
    becomes one.

    Parameters
    ----------
    batch : MiniBatch, Block, Tensor, or tuple, list or dict of them
        The batch, or a part of it.

    Returns
    -------
    The same object.

    Raises
    ------
    InputError
        For other arguments.

    Examples
    --------
    >>> import headrace as hr, torch
    >>> block = hr.Block(torch.tensor([0, 2]), torch.tensor([1, 2]), num_src=3, num_dst=1)
    >>> hr.nn.mark_dynamic(block)
    Block(3 -> 1 nodes, 2 edges)
    """
    from torch import _dynamo  # takes seconds: whoever compiles has to load it

    for tensor in _tensors(batch):
        if tensor.ndim and len(tensor) > 1:
            _dynamo.maybe_mark_dynamic(tensor, 0)
    return batch


def mark_where_compiled(batch: object) -> None:
    """Mark a minibatch without padding, in a process that has called ``torch.compile``."""
    # Not by importing it: that takes seconds, and who compiles has done so. Optimizers leave a backend None there.
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if any(getattr(dynamo, "cached_backends", {}).values()) and isinstance(batch, MiniBatch):
        from headrace.pipeline.data.padded_batch import PaddedBatch

        if not isinstance(batch, PaddedBatch):
            mark_dynamic(batch)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Block):
        rows = vars(value)["_marked_rows"] = value.indptr.new_empty(value.num_src, 0)
        return [rows, *(tensor for _, tensor in value.named_tensors())]
    if isinstance(value, MiniBatch):
        return [*value.tensors(), *_tensors(value.blocks)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, tuple | list):
        raise InputError(
            f"mark_dynamic: expected a MiniBatch, a Block, a tensor, or a tuple, list or dict of them, got "
            f"{type(value).__name__}"
        )
    return [tensor for one in value for tensor in _tensors(one)]
