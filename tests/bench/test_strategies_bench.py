"""The benchmark of strategies: trains what it says, and compares what claims are about."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch


@pytest.fixture
def folder(tmp_path):
    """A graph of sixty nodes and two classes, in the format of the real ones."""
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    src, dst = random.integers(0, 60, (2, 800))
    src, dst = src[y[src] == y[dst]], dst[y[src] == y[dst]]
    part = np.arange(60) // 20
    np.savez(
        tmp_path / "cora.npz",
        edge_index=np.stack([src, dst]).astype(np.int32),
        x_indptr=np.arange(61),
        x_indices=y.astype(np.int32),
        x_data=np.ones(60, np.uint8),
        x_shape=np.array([60, 50]),
        y=y,
        **{f"{name}_mask": part == number for number, name in enumerate(("train", "val", "test"))},
    )
    return tmp_path


@pytest.fixture
def one_thread():
    """What the script sets is not for the tests behind it."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_every_training_is_measured_and_compared(bench, folder, monkeypatch, capsys):
    strategies = bench("strategies")
    monkeypatch.setitem(strategies.SETTINGS, "cora", strategies.Setting(4, 10, 4, 2, 8, 3, 3))
    path = folder / "out.json"
    command = ["strategies.py", "--data", str(folder), "--graphs", "cora", "amazon_computers", "--seeds", "4"]
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(path), "--plot", str(folder / "out.png")])
    strategies.main()
    assert "amazon_computers: skipped" in capsys.readouterr().out
    records = json.loads(path.read_text())
    means = {one["system"]: one["median"] for one in records if one["metric"] == "mean test accuracy"}
    assert len(means) == 10
    assert means["GCN, global-batch"] > 60
    seeds = {one["system"]: one["n"] for one in records if one["metric"] == "test accuracy"}
    assert {system for system, number in seeds.items() if number == 4} == strategies.CLAIMED
    differences = {one["system"]: one["median"] for one in records if one["metric"] == "difference in accuracy"}
    assert len(differences) == 4
    less = differences["GCN, mini-batch less global-batch"]
    assert less == pytest.approx(means["GCN, mini-batch"] - means["GCN, global-batch"])


def test_differences_are_of_the_seeds_that_both_have(bench):
    (record,) = bench("strategies").differences("cora", {"GCN, mini-batch": [0.5], "GCN, global-batch": [0.4, 0.9]})
    assert record.median == pytest.approx(10)


def test_dropout_of_few_words_has_the_same_law(bench):
    training = bench("strategies_training")
    x = torch.zeros(200, 500)
    x[:, :10] = torch.rand(200, 10) + 1
    sparse = training.InputDropout(0.6, is_sparse=True)
    out = sparse(x)
    kept = out[:, :10] != 0
    assert torch.equal(out[:, 10:], x[:, 10:])
    assert torch.allclose(out[:, :10][kept], x[:, :10][kept] / 0.4)
    assert 0.35 < float(kept.float().mean()) < 0.45
    assert torch.equal(sparse.eval()(x), x)
