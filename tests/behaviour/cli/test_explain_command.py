"""The command `headrace explain`: the plan of a loader over a data set, here and on another machine."""

from __future__ import annotations

import re

import pytest
from shell import answered, run

import headrace as hr


def without_memory(text: str) -> str:
    """Leave out numbers that depend on the memory that is free."""
    return re.sub(r"\d[\d,]{7,}", "...", text)


def test_explain(data, capsys):
    assert run("explain", data.path, "--fanouts", "3,2", "--batch-size", 4, "--measure", 2) == 0
    printed = capsys.readouterr().out
    assert "items: train" in printed
    plan = hr.ItemSampler(data.items["train"], batch_size=4, shuffle=True, seed=0)
    plan = plan.sample_neighbor(data.graph, [3, 2]).fetch_feature(data.store, node=list(data.store.node))
    assert without_memory(plan.loader().explain()) in without_memory(printed)
    assert "2 batches in" in printed


def test_explain_for_a_machine_that_is_not_here(data, capsys):
    given = ("explain", data.path, "--copy-to", "cuda", "--gpus", 4, "--ranks", 4)
    assert run(*given) == 0
    assert "on_stream(cuda:0)" in capsys.readouterr().out
    assert run(*given, "--cooperative") == 0
    assert "exchange_rows" in capsys.readouterr().out
    assert run("explain", data.path, "--cooperative") == 2
    assert "--cooperative: expected --ranks" in capsys.readouterr().err
    assert run(*given, "--measure", 2) == 2
    assert "--measure: expected the machine that is here" in capsys.readouterr().err
    for name, value in (("--measure", -1), ("--measure", 0), ("--gpus", -1), ("--ranks", 0), ("--gpus", 10**9)):
        assert run(*given[:2], name, value) == 2
        assert f"expected {name} to be an integer " in capsys.readouterr().err
    assert run("explain", data.path, "--gpu-memory", "80GB") == 2
    assert "--gpu-memory: expected --gpus" in capsys.readouterr().err
    assert run(*given, "--gpu-memory", "much") == 2
    assert "--gpu-memory: expected memory to be bytes or a text" in capsys.readouterr().err
    assert run(*given, "--gpu-memory", "80") == 2
    assert "got '80', which is 80 bytes; give the unit, as \"80GB\"" in capsys.readouterr().err
    assert run("explain", data.path, "--ranks", 0) == 2
    assert "expected --ranks to be an integer from 1 to" in capsys.readouterr().err


def test_explain_of_gpus_without_a_copy_names_the_option(plain, capsys):
    hint = "--copy-to cuda moves them to GPUs"
    for more, is_there in ((["--gpus", 8], True), (["--gpus", 8, "--copy-to", "cuda"], False), (["--gpus", 0], False)):
        assert run("explain", plain.path, *more) == 0
        assert (hint in capsys.readouterr().out) == is_there
    assert hint in answered(capsys, "explain", plain.path, "--gpus", 8)["explain"][-1]


def test_explain_counts_one_batch(plain, capsys):
    assert run("explain", plain.path, "--measure", 1) == 0
    assert "\n1 batch in " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["5,x", "", "5,,6"])
def test_fanouts_that_are_no_numbers(plain, capsys, text):
    with pytest.raises(SystemExit):
        run("explain", plain.path, "--fanouts", text)
    assert f"argument --fanouts: expected whole numbers separated by commas, as 10,10, got {text!r}" in (
        capsys.readouterr().err
    )


def test_explain_of_what_is_asked_for(typed, capsys):
    assert run("explain", typed.path, "--items", "val", "--features", "item.x", "--sampler", "layer_neighbor") == 0
    printed = capsys.readouterr().out
    assert "items: val" in printed
    assert "sample_layer_neighbor" in printed
