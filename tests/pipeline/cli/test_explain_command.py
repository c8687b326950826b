"""The command `headrace explain`: the plan of a loader over a data set, here and on another machine."""

from __future__ import annotations

import re

from shell import run


def test_explain_has_the_memory_of_one_rank(plain, capsys, monkeypatch):
    """Of 8 ranks on 2 machines of 4 GPUs, four share the memory of one."""
    monkeypatch.setattr("headrace.pipeline.plan.machine.shared_room", lambda: 1 << 40)
    monkeypatch.setattr("headrace.pipeline.plan.machine.own_room", lambda: None)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert run("explain", plain.path, "--ranks", 8, "--gpus", 4, "--gpu-memory", "80GiB") == 0
    printed = capsys.readouterr().out
    assert int(re.search(r" memory=(\d+)", printed)[1]) <= 1 << 38
    assert "gpu_memory=(4 x 80 GiB)" in printed
