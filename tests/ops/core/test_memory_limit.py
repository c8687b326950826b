"""How much memory a process may use, as containers limit it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headrace.ops import memory_limit


@pytest.fixture
def groups(tmp_path):
    """Write control groups, and return what limits they make."""

    def limits(text: str, **files: str) -> list[int]:
        (tmp_path / "groups").write_text(text)
        for path, content in files.items():
            file = tmp_path / "root" / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return memory_limit._control_group_limits(tmp_path / "root", tmp_path / "groups")

    return limits


def test_limits_of_the_second_version_are_those_of_the_group_and_all_above(groups):
    files = {"a__b__memory.max": "300\n", "a__memory.max": "max\n", "memory.max": "500\n"}
    assert groups("0::/a/b\n", **files) == [300, 500]


def test_limits_of_the_first_version_are_the_memory_controllers(groups):
    files = {"memory__a__memory.limit_in_bytes": "70\n", "cpu__a__memory.limit_in_bytes": "1\n"}
    assert groups("4:cpu:/a\n3:memory:/a\n", **files) == [70]


def test_in_a_container_the_group_is_the_root(groups):
    assert groups("0::/docker/0123\n", **{"memory.max": "900"}) == [900]


def test_no_groups_set_no_limit(groups, tmp_path):
    assert groups("1:name=systemd:/\n") == []
    assert memory_limit._control_group_limits(tmp_path, tmp_path / "missing") == []


def test_the_least_room_counts(monkeypatch, tmp_path):
    (tmp_path / "status").write_text("Name:\tpython\nVmSize:\t       2 kB\nRssAnon:\t       1 kB\n")
    monkeypatch.setattr(memory_limit, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(memory_limit, "_control_group_limits", lambda: [1 << 62, 5 << 10])
    monkeypatch.setattr(memory_limit, "_address_space_limit", lambda: None)
    assert memory_limit.free_memory_bytes() == 4 << 10
    monkeypatch.setattr(memory_limit, "_address_space_limit", lambda: 5 << 10)
    assert memory_limit.free_memory_bytes() == 3 << 10
    monkeypatch.setattr(memory_limit, "_address_space_limit", lambda: 1 << 10)
    assert memory_limit.free_memory_bytes() == 0


def test_where_the_system_says_little(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_limit, "_field", lambda path, name: None)
    monkeypatch.setattr(memory_limit, "_control_group_limits", list)
    monkeypatch.setattr(memory_limit, "_address_space_limit", lambda: None)
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: 1000)
    assert memory_limit.free_memory_bytes() == 1000
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: None)
    assert memory_limit.free_memory_bytes() is None


_ROOM = """
import resource, sys
import numpy as np
from headrace.ops.memory_limit import free_memory_bytes
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))
before = free_memory_bytes()
held = np.ones(1 << 27, np.uint8)
print(before, free_memory_bytes())
"""


@pytest.mark.uninstrumented
def test_what_a_process_holds_is_not_free():
    """Of addresses: the free memory of the machine changes with whatever else runs."""
    result = subprocess.run([sys.executable, "-c", _ROOM], capture_output=True, text=True, check=True)
    before, after = map(int, result.stdout.split())
    assert before < 8 << 30
    assert abs(before - after - (1 << 27)) < 1 << 24
