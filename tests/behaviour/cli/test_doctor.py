"""The command `doctor`: what it says is so, and what is missing has its price."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import torch
from shell import main

import headrace as hr


def examined(capsys) -> dict:
    assert main(["doctor", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_is_here(capsys):
    found = examined(capsys)
    machine = hr.Machine.detect(1)
    assert (found["headrace"], found["torch"], found["numpy"]) == (hr.__version__, torch.__version__, np.__version__)
    assert found["cores"] == machine.cores
    assert len(found["GPUs"]) == torch.cuda.device_count()
    assert 0 < found["memory"]["free to this process"] <= found["memory"]["of the machine"]
    assert found["instruction sets"]


def test_what_is_missing_is_named_with_its_cost(capsys, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "cupy" else there(name, *rest))
    names = [one["name"] for one in examined(capsys)["missing"]]
    assert "cupy" in names
    assert all(name == "cupy" or there(name) is None for name in names)
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "missing cupy: no GPU runs kernels of headrace; pip install 'headrace[cuda13]'" in printed
    assert f"cores: {hr.Machine.detect(1).cores}" in printed
