"""The command `doctor`: what it says is so, and what is missing has its price."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import torch
from shell import main

import headrace as hr
from headrace.pipeline.cli import doctor


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
    assert names == [name for name, *_ in doctor.OPTIONAL if name == "cupy" or there(name) is None]
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "missing cupy: no GPU runs kernels of headrace; pip install 'headrace[cuda13]'" in printed
    assert f"cores: {hr.Machine.detect(1).cores}" in printed


def test_advice(monkeypatch):
    gpu = {"number": 0, "name": "a", "memory": 1 << 30, "compute capability": "9.0", "peers": []}
    monkeypatch.setattr(doctor, "_gpus", lambda: [gpu, {**gpu, "number": 1}])
    monkeypatch.setattr(doctor, "_limit", lambda name: 1 << 16)
    advice = " ".join(doctor.examined()["advice"])
    assert "only 65,536 bytes can be pinned" in advice
    assert "not all GPUs read each other's memory" in advice
