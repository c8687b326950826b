"""Links are found where their two ends are alike, and not because the answer is to be seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from launched import run_example

pytestmark = pytest.mark.slow


def aucs(data: Path, *arguments: object) -> tuple[float, float]:
    """Return the AUC of training links and of test links."""
    *_, last = run_example("link_prediction.py", "--data", data, *arguments)
    training, test = last.removeprefix("training AUC ").split(", test AUC ")
    return float(training), float(test)


def test_learns(data):
    """Most links are within one of three classes, and so is a third of the others: 0.8 is about all that can be."""
    training, test = aucs(data, "--epochs", "6")
    assert test > 0.7
    assert training < 0.85


@pytest.fixture
def unrelated(tmp_path):
    """A graph whose links follow no law: nothing tells them from other pairs, unless it is told which they are."""
    random = np.random.default_rng(0)
    num_nodes, num_words = 500, 40
    words = [random.choice(num_words, 4, replace=False) for _ in range(num_nodes)]
    path = tmp_path / "unrelated.npz"
    np.savez(
        path,
        edge_index=random.integers(0, num_nodes, (2, 1_500)).astype(np.int32),
        x_indptr=np.arange(num_nodes + 1) * 4,
        x_indices=np.concatenate(words).astype(np.int32),
        x_data=np.ones(4 * num_nodes, dtype=np.uint8),
        x_shape=np.array([num_nodes, num_words]),
        y=np.zeros(num_nodes, dtype=np.int64),
        **{f"{part}_mask": np.ones(num_nodes, dtype=bool) for part in ("train", "val", "test")},
    )
    return path


@pytest.mark.thorough
def test_a_neighbourhood_does_not_tell_its_own_links(unrelated):
    size = ("--epochs", "30", "--batch-size", "100")
    told, _ = aucs(unrelated, *size, "--keep-seed-edges")
    training, _ = aucs(unrelated, *size)
    assert told > 0.8
    assert training < 0.65


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
