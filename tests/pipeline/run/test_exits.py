"""A process that leaves an iteration midway ends with the right status; `python -m exits` does it more."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import exits.run
from copies import Process
from exits.scenarios import SCENARIOS

NAMES = list(SCENARIOS)
TOGETHER = 4


# Several at a time, as they wait for longer than they work.
@pytest.mark.combinations(2)
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sends signals and forks")
@pytest.mark.parametrize("names", [NAMES[i : i + TOGETHER] for i in range(0, len(NAMES), TOGETHER)], ids="+".join)
def test_end_as_they_should(names):
    with ThreadPoolExecutor(TOGETHER) as pool:
        assert not [end for end in pool.map(exits.run.run, names) if not end.is_right]


@pytest.fixture
def sleeping(tmp_path, monkeypatch):
    """Let the scenario "sleeps" be there, which never ends; return the processes that are started."""
    program = tmp_path / "sleeps.py"
    program.write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.setattr(exits.run, "scenarios", SimpleNamespace(__file__=str(program)))
    monkeypatch.setattr(exits.run, "SCENARIOS", {"sleeps": (None, 0)})
    started = []

    class Started(Process):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(exits.run, "Process", Started)
    return started


def test_one_that_hangs_has_no_status_and_is_killed(sleeping, monkeypatch):
    monkeypatch.setattr(exits.run, "TIMEOUT", 0.2)
    end = exits.run.run("sleeps")
    assert end.status is None
    assert not end.is_right
    assert [process.returncode for process in sleeping] == [-9]


def test_none_is_left_where_the_test_is_interrupted(sleeping, monkeypatch):
    """As by the time limit for every test."""

    def interrupt(process, timeout=None):
        if timeout:
            raise KeyboardInterrupt
        return wait(process, timeout)

    wait = Process.wait
    monkeypatch.setattr(Process, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        exits.run.run("sleeps")
    assert [process.returncode for process in sleeping] == [-9]
