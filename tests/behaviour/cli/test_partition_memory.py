"""Partitions of data sets in little memory: the same files, a peak below the limit, and what cannot keep to one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shell import main
from small_datasets import saved


def partition(*arguments: object) -> int:
    return main(["partition", *map(str, arguments)])


def test_a_dry_run_writes_nothing(tmp_path, capsys):
    data = saved(tmp_path / "set", "typed")[0]
    assert partition(data.path, "--parts", 2, "--dry-run") == 0
    printed = capsys.readouterr().out
    assert "2 parts of 21 nodes" in printed
    assert "would be 2 parts in" in printed
    assert not (data.path / "parts").exists()
    assert partition(data.path, "--parts", 2, "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"]
    assert partition(data.path, "--parts", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == told["bytes"]
    arrays = (data.path / "parts" / "hash-2").rglob("*.npy")
    assert told["bytes"] == sum(np.load(one).nbytes for one in arrays)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "lots"], "partition: expected memory to be bytes or a text"),
        (["--memory", "1MB"], "partition: expected memory for the libraries, which take"),
        (["--memory", "4GB", "--method", "metis"], "expected --method stream, hash or range for --memory, got metis"),
        (["--memory", "4GB", "--reorder"], "expected no --reorder for --memory"),
    ],
)
def test_what_cannot_keep_to_memory(options, message, tmp_path, capsys):
    data = saved(tmp_path / "set")[0]
    assert partition(data.path, tmp_path / "out", "--parts", 2, *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_arrays_that_are_no_data_set_may_be_copied(tmp_path, capsys):
    np.savez(tmp_path / "graph.npz", src=[0, 1], dst=[1, 0])
    assert partition(tmp_path / "graph.npz", tmp_path / "out", "--parts", 2, "--memory", "4GB") == 2
    assert "make a data set of it by headrace convert" in capsys.readouterr().err
