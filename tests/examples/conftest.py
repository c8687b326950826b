"""The examples as modules, and a small data set for them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NUM_NODES, NUM_CLASSES = 600, 3


@pytest.fixture
def examples(monkeypatch):
    """Put the examples' folder where it is when one of them runs."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    for name in {path.stem for path in EXAMPLES.glob("*.py")}:
        sys.modules.pop(name, None)


@pytest.fixture
def node_classification(examples):
    import node_classification

    return node_classification


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A graph whose classes are easy to tell apart, in the archive format of the example."""
    random = np.random.default_rng(0)
    y = random.integers(0, NUM_CLASSES, NUM_NODES)
    src, dst = random.integers(0, NUM_NODES, (2, 40_000))
    same = y[src] == y[dst]
    src, dst = np.r_[src[same], src[~same][:2_000]], np.r_[dst[same], dst[~same][:2_000]]
    columns = np.stack([y, NUM_CLASSES + random.integers(0, 5, NUM_NODES)], axis=1).astype(np.int32)
    masks = {f"{part}_mask": random.permutation(NUM_NODES) < 200 for part in ("train", "val", "test")}
    path = tmp_path_factory.mktemp("data") / "easy.npz"
    np.savez(
        path,
        edge_index=np.stack([src, dst]).astype(np.int32),
        x_indptr=np.arange(NUM_NODES + 1) * 2,
        x_indices=columns.reshape(-1),
        x_data=np.ones(2 * NUM_NODES, dtype=np.uint8),
        x_shape=np.array([NUM_NODES, NUM_CLASSES + 5]),
        y=y,
        **masks,
    )
    return path
