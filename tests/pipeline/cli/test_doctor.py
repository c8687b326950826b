"""The command `doctor`: what it says is so, and what is missing has its price."""

from __future__ import annotations

from headrace.pipeline.cli import doctor


def test_advice(monkeypatch):
    gpu = {"number": 0, "name": "a", "memory": 1 << 30, "compute capability": "9.0", "peers": []}
    monkeypatch.setattr(doctor, "_gpus", lambda: [gpu, {**gpu, "number": 1}])
    monkeypatch.setattr(doctor, "_limit", lambda name: 1 << 16)
    advice = " ".join(doctor.examined()["advice"])
    assert "only 65,536 bytes can be pinned" in advice
    assert "not all GPUs read each other's memory" in advice
