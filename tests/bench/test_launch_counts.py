"""The plugin of runs on a GPU: modules that launch nothing fail, and an interrupt leaves what was found out."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from copies import Process, run_program

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
LAUNCHES = """
import torch
from cuda_host.stand_in import StandIn
from headrace import ops
from headrace.cuda.backend import stand_in

def test_rows():
    with stand_in(StandIn()):
        assert ops.gather_rows(torch.arange(6.0).view(3, 2), torch.tensor([2])).tolist() == [[4.0, 5.0]]
"""
NOTHING = "def test_numbers():\n    assert 1 + 1 == 2\n"
SKIPPED = "import pytest\n\ndef test_elsewhere():\n    pytest.skip('not here')\n"
ENDLESS = "import pathlib, time\n\ndef test_hangs():\n    pathlib.Path('begun').touch()\n    time.sleep(600)\n"


PYTEST = """
import sys, pytest
plain = ["-c", "/dev/null", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "gpu.launches", "--rootdir", "."]
sys.exit(pytest.main([*plain, "--junit-xml", "junit.xml", *sys.argv[1:]]))
"""


def environment():
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(TESTS)}


def written(folder, **modules):
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text)


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one process", "two"])
def test_a_module_that_launches_nothing_fails(options, tmp_path, monkeypatch):
    pytest.importorskip("xdist")
    monkeypatch.chdir(tmp_path)
    written(tmp_path, launches=LAUNCHES, nothing=NOTHING, skipped=SKIPPED)
    run = run_program(PYTEST, *options, environment=environment())
    assert run.returncode == 1, run.stdout + run.stderr
    failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    assert failed == ["FAILED test_nothing.py: its tests have passed, and launched nothing on the device"]
    launched = {line.split()[1]: line.split()[0] for line in run.stdout.splitlines() if line.endswith(".py")}
    assert launched["test_launches.py"] != "0"


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one process", "two"])
def test_modules_that_launch_or_skip_pass(options, tmp_path, monkeypatch):
    pytest.importorskip("xdist")
    monkeypatch.chdir(tmp_path)
    written(tmp_path, launches=LAUNCHES, skipped=SKIPPED)
    run = run_program(PYTEST, *options, environment=environment())
    assert run.returncode == 0, run.stdout + run.stderr
    launched = {line.split()[1]: line.split()[0] for line in run.stdout.splitlines() if line.endswith(".py")}
    assert launched["test_launches.py"] != "0"


def test_an_interrupt_leaves_what_was_found_out(tmp_path, monkeypatch):
    """Also where the script was begun in the background, whose processes ignore it."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, endless=ENDLESS, a=LAUNCHES)
    ignores = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    process = Process(ignores + PYTEST, "test_a.py", "test_endless.py", environment=environment())
    try:
        for _ in range(600):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == pytest.ExitCode.INTERRUPTED
    finally:
        process.kill()
    assert "test_rows" in (tmp_path / "junit.xml").read_text()
