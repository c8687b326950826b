"""How much memory a process may use, as containers limit it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headrace import ops
from headrace.ops import memory_limit


@pytest.fixture
def groups(tmp_path):
    """Write control groups, and return what room they leave."""

    def rooms(text: str, **files: str) -> list[int]:
        (tmp_path / "groups").write_text(text)
        for path, content in files.items():
            file = tmp_path / "root" / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return memory_limit._control_group_rooms(0, tmp_path / "root", tmp_path / "groups")

    return rooms


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
    assert memory_limit._control_group_rooms(0, tmp_path, tmp_path / "missing") == []


def test_other_processes_of_a_group_take_room_and_pages_of_files_take_none(groups):
    stat = "anon 250\nfile 120\ninactive_file 70\nactive_file 30\n"
    files = {"a__memory.max": "1000", "a__memory.current": "400", "a__memory.stat": stat, "memory.max": "max"}
    assert groups("0::/a\n", **files) == [1000 - (400 - 100)]
    assert groups("0::/a\n", **files, **{"a__memory.high": "800\n"}) == [800 - (400 - 100)]


def test_other_processes_of_a_group_of_the_first_version_take_room(groups):
    stat = "cache 1\ninactive_file 1\nactive_file 1\ntotal_inactive_file 50\ntotal_active_file 20\n"
    files = {"limit_in_bytes": "700", "usage_in_bytes": "600", "stat": stat}
    assert groups("3:memory:/b\n", **{f"memory__b__memory.{name}": text for name, text in files.items()}) == [170]


def test_a_group_that_does_not_say_what_is_taken_has_what_this_process_holds(groups, tmp_path):
    assert groups("0::/\n", **{"memory.max": "900"}) == [900]
    assert memory_limit._control_group_rooms(100, tmp_path / "root", tmp_path / "groups") == [800]


def test_the_least_room_counts(monkeypatch, tmp_path):
    (tmp_path / "status").write_text("Name:\tpython\nVmSize:\t       2 kB\nVmData:\t       1 kB\n")
    monkeypatch.setattr(memory_limit, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(memory_limit, "_control_group_rooms", lambda held: [1 << 62, 4 << 10])
    monkeypatch.setattr(memory_limit, "_process_limits", list)
    assert memory_limit.free_memory_bytes() == 4 << 10
    monkeypatch.setattr(memory_limit, "_process_limits", lambda: [(5 << 10, "VmSize")])
    assert memory_limit.free_memory_bytes() == 3 << 10
    monkeypatch.setattr(memory_limit, "_process_limits", lambda: [(5 << 10, "VmSize"), (3 << 10, "VmData")])
    assert memory_limit.free_memory_bytes() == 2 << 10
    monkeypatch.setattr(memory_limit, "_process_limits", lambda: [(1 << 10, "VmSize")])
    assert memory_limit.free_memory_bytes() == 0


def test_a_system_that_promises_no_more_than_it_has(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemAvailable: 100 kB\nCommitLimit: 50 kB\nCommitted_AS: 40 kB\n")
    (tmp_path / "overcommit").write_text("0\n")
    monkeypatch.setattr(memory_limit, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory_limit, "_OVERCOMMIT", tmp_path / "overcommit")
    monkeypatch.setattr(memory_limit, "_control_group_rooms", lambda held: [])
    assert memory_limit.shared_room() == 100 << 10
    (tmp_path / "overcommit").write_text("2\n")
    assert memory_limit.shared_room() == 10 << 10


def test_where_the_system_says_little(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_limit, "_field", lambda path, name: None)
    monkeypatch.setattr(memory_limit, "_control_group_rooms", lambda held: [])
    monkeypatch.setattr(memory_limit, "_process_limits", list)
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: 1000)
    assert memory_limit.free_memory_bytes() == 1000
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: None)
    assert memory_limit.free_memory_bytes() is None


def test_what_limits_forbid_is_refused(monkeypatch, tmp_path):
    (tmp_path / "status").write_text("VmSize:\t 1024 kB\n")
    monkeypatch.setattr(memory_limit, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: 1 << 40)
    limits = {"groups": [], "process": []}
    monkeypatch.setattr(memory_limit, "_control_groups", lambda held: limits["groups"])
    monkeypatch.setattr(memory_limit, "_process_limits", lambda: limits["process"])
    memory_limit.check_fits_memory(1 << 31, "f: got 1", "lower it")
    for name, limit in (("groups", (1 << 30, 1 << 20)), ("process", (1 << 30, "VmSize"))):
        limits.update(groups=[], process=[])
        limits[name] = [limit]
        memory_limit.check_fits_memory(1 << 29, "f: got 1", "lower it")
        with pytest.raises(ops.InputError, match=r"f: got 1, which takes at least 2\.1 GB; .*1\.1 GB; lower it"):
            memory_limit.check_fits_memory(1 << 31, "f: got 1", "lower it")


_ROOM = """
import resource, sys
import numpy as np
from headrace.ops.memory_limit import free_memory_bytes
resource.setrlimit(getattr(resource, sys.argv[1]), (8 << 30, resource.RLIM_INFINITY))
before = free_memory_bytes()
held = np.ones(1 << 27, np.uint8)
print(before, free_memory_bytes())
"""


@pytest.mark.uninstrumented
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_what_a_process_holds_is_not_free(limit):
    """Of addresses: the free memory of the machine changes with whatever else runs."""
    result = subprocess.run([sys.executable, "-c", _ROOM, limit], capture_output=True, text=True, check=True)
    before, after = map(int, result.stdout.split())
    assert before < 8 << 30
    assert abs(before - after - (1 << 27)) < 1 << 24
