"""Programs in copies of a process end as they do in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from copies import HEADRACE, TORCH, Process, run_program

PROGRAMS = {
    "prints": "import sys; print(sys.argv[1:], __name__, 'torch' in sys.modules, 'headrace' in sys.modules)",
    "fails": "def f(): raise ValueError('on purpose')\nf()",
    "exits": "import sys; print('unflushed'); sys.exit(3)",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "is interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "at its end": "import atexit, threading, time\natexit.register(print, 'last')\n"
    "def work(): time.sleep(0.1); print('waited for', kept)\nthreading.Thread(target=work).start()\nkept = 1",
}
ENDS = {
    "prints": (0, "['1', 'two'] __main__ True False\n", ""),
    "fails": (1, "", "ValueError: on purpose\n"),
    "exits": (3, "unflushed\n", ""),
    "is killed": (-9, "", ""),
    "is interrupted": (-2, "", "KeyboardInterrupt\n"),
    "at its end": (0, "waited for 1\nlast\n", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_ends(name):
    process = Process(PROGRAMS[name], 1, "two", imports=TORCH)
    output, errors = process.communicate(60)
    assert (process.returncode, output) == ENDS[name][:2]
    assert errors.endswith(ENDS[name][2])
    assert bool(errors) == bool(ENDS[name][2])


@pytest.mark.slow
def test_what_is_imported_is_imported_once():
    """By the process of which all are copies, and whose own copies may import more."""
    program = "import sys\nassert 'headrace.pipeline.public' in sys.modules\nimport headrace as hr; print(id(hr.Graph))"
    first, second = (run_program(program, imports=HEADRACE) for _ in range(2))
    assert first.stdout == second.stdout != "", first.stderr


def test_the_collector_is_as_in_any_process():
    """What it passes over is destroyed later when Python ends, or never."""
    program = "import gc; print(gc.get_freeze_count(), gc.isenabled())"
    alone = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run_program(program).stdout == alone.stdout


def test_folders_and_filters_of_warnings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = "import os, warnings; print(os.getcwd(), warnings.filters[0][0])"
    ended = run_program(program, environment={"PYTHONWARNINGS": "error"})
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{tmp_path} error\n", "")


def test_one_that_does_not_end():
    process = Process("import time; print('begun', flush=True); time.sleep(1000)")
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(0.01)
    while process.printed() != "begun\n":
        assert process.poll() is None
    process.kill()
    assert process.communicate() == ("begun\n", "")
    assert process.returncode == -9


def test_programs_in_files(tmp_path):
    (tmp_path / "beside_it.py").write_text("NUMBER = 5")
    (tmp_path / "program.py").write_text("import sys, beside_it; print(beside_it.NUMBER, sys.argv, __file__)")
    path = str(tmp_path / "program.py")
    output, errors = Process(tmp_path / "program.py", environment={}).communicate(60)
    assert (output, errors) == (f"5 {[path]} {path}\n", "")
    assert sys.argv != [path]
