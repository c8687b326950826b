"""What decides whether labels leave 0, the class of negative pairs, free."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.ops.errors import InputError


class LabelRange(NamedTuple):
    """What is known of the labels of items, as ranks that bring their own tell it.

    Attributes
    ----------
    smallest
        The smallest label; NaN if one is.
    has_zero
        Whether the label of an item is 0; of labels with several numbers, all of them.
    is_full
        Whether a label is the largest of its dtype, so that it cannot increase by one.
    """

    smallest: float
    has_zero: bool = False
    is_full: bool = False

    @staticmethod
    def of(labels: Tensor | None) -> LabelRange | None:
        """Return it of some labels, [num_items, ...]; None where there are none.

        Raises
        ------
        InputError
            For complex labels, of which none is the smallest.
        """
        if labels is None or not labels.numel():
            return None
        check_real(labels)
        return LabelRange(float(labels.min()), bool(are_zero(labels).any()), bool(cannot_increase(labels).any()))


def check_real(labels: Tensor) -> None:
    """Refuse complex labels, of which none is the smallest.

    Raises
    ------
    InputError
        Saying so.
    """
    if labels.is_complex():
        raise InputError(
            f"expected labels beside negatives to be real numbers, of which negatives take 0, got {labels.dtype}; pass "
            "torch.view_as_real(labels)"
        )


def are_zero(labels: Tensor) -> Tensor:
    """Return whether each label is that of negatives: bool[num_items]."""
    zeros = labels == 0
    return zeros if labels.ndim == 1 else zeros.flatten(1).all(1)


def cannot_increase(labels: Tensor) -> Tensor:
    """Return whether each label has the largest number of its dtype: bool[num_items]."""
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:  # bool becomes int64
        return labels.new_zeros(len(labels), dtype=torch.bool)
    full = labels == torch.iinfo(labels.dtype).max
    return full if labels.ndim == 1 else full.flatten(1).any(1)
