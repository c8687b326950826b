"""Links are found where their two ends are alike, and not because the answer is to be seen."""

from __future__ import annotations

import pytest
import torch

from launched import run_example

pytestmark = pytest.mark.slow


def aucs(*arguments: object) -> tuple[float, float]:
    *_, last = run_example("link_prediction.py", "--epochs", "6", "--batch-size", "512", *arguments)
    training, test = last.removeprefix("training AUC ").split(", test AUC ")
    return float(training), float(test)


def test_learns(data):
    """Most links are within one of three classes, so half of the others are below any link: 0.75 to 0.85 is all."""
    training, test = aucs("--data", data)
    assert test > 0.7
    assert training < test + 0.05


@pytest.fixture
def auc(examples):
    from auc import auc

    return auc


def test_auc_is_how_often_a_positive_is_above_a_negative(auc):
    scores = torch.randint(0, 5, (40,), generator=torch.Generator().manual_seed(0)).float()
    y = (torch.arange(40) % 3 == 0).float()
    pairs = [(float(p), float(n)) for p in scores[y > 0] for n in scores[y == 0]]
    expected = sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs)
    assert auc(scores, y) == pytest.approx(expected)
    assert auc(torch.zeros(40), y) == pytest.approx(0.5)
    assert auc(y, y) == 1
