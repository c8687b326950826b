"""How well scores tell positive pairs from negative ones."""

from __future__ import annotations

from torch import Tensor


def auc(scores: Tensor, y: Tensor) -> float:
    """Return the area under the ROC curve: how often a positive has the higher score, where equal ones count half.

    It is found from the ranks of the positives (Mann and Whitney).
    """
    _, place, counts = scores.unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2).double()  # of equal scores their mean
    positive = y > 0
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    above = float(ranks[place[positive]].sum()) - num_positive * (num_positive + 1) / 2
    return above / (num_positive * num_negative)
