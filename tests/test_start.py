"""What is loaded when: `import headrace` and the command load little, a plan and a loader what they need."""

from __future__ import annotations

import gc
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
import headrace.ops
from headrace.ops.names import load
from headrace.pipeline.passes import PASSES

from copies import TORCH, run_program

TESTS = Path(__file__).resolve().parent

#: Of headrace, by `import headrace`: what holds the names, and packages on the way there.
MOST_AT_IMPORT = 12


def of_a_fresh_process(program: str) -> object:
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def of_a_process_with_torch(program: str) -> object:
    """Which has nothing of headrace."""
    result = run_program("import sys\nassert 'headrace' not in sys.modules\n" + program, imports=TORCH)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_import_loads_neither_torch_nor_what_names_stand_for():
    program = "import sys, json; import headrace; print(json.dumps(list(sys.modules)))"
    loaded = of_a_fresh_process(program)
    assert not {"torch", "numpy", "torchdata"} & set(loaded)
    assert len([name for name in loaded if name.split(".")[0] == "headrace"]) <= MOST_AT_IMPORT


COMMANDS = ("convert", "generate", "info", "head", "verify", "explain", "reorder", "partition", "doctor")

#: Of the process, with the start of Python; by the clock of the CPU, which other processes do not move.
MOST_SECONDS_FOR_HELP = 0.15


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["no such command"], *([name, "--help"] for name in COMMANDS)]
)
def test_the_command_says_what_it_is_without_torch(arguments):
    program = f"""
import sys, json
from headrace.pipeline.cli.command_line import main
try:
    main({arguments!r})
except SystemExit:
    print(json.dumps(list(sys.modules)))
"""
    assert not {"torch", "numpy", "headrace.pipeline.storage"} & set(of_a_fresh_process(program))


def test_help_names_every_command_and_is_fast():
    program = """
import time, json
from headrace.pipeline.cli.command_line import main
try:
    main(["--help"])
except SystemExit:
    print(json.dumps(time.process_time()))
"""
    # A machine that does other work makes some of them slow.
    assert any(of_a_fresh_process(program) <= MOST_SECONDS_FOR_HELP for _ in range(12))
    result = subprocess.run([sys.executable, "-m", "headrace", "--help"], capture_output=True, text=True, check=True)
    assert re.findall(r"^    ([a-z]+)", result.stdout, flags=re.MULTILINE) == list(COMMANDS)


def test_no_garbage_is_collected_while_headrace_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "asks_of_collection.py").write_text("import gc\nenabled = gc.isenabled()\n")
    (tmp_path / "fails_to_load.py").write_text("raise KeyError\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert gc.isenabled()
    assert not load("asks_of_collection").enabled
    assert gc.isenabled()
    with pytest.raises(KeyError):
        load("fails_to_load")
    assert gc.isenabled()
    gc.disable()
    try:
        load("asks_of_collection")
        assert not gc.isenabled(), "who switched it off finds it off"
    finally:
        gc.enable()


@pytest.mark.thorough
def test_each_name_is_imported_alone():
    """In fresh processes, forked: from headrace import X, for each X."""
    program = f"""
import json, os, torch, headrace
wrong = []
for name in {hr.__all__!r}:
    child = os.fork()
    if child == 0:
        try:
            exec(f"from headrace import {{name}}")
            assert name in dir(headrace)
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        wrong.append(name)
print(json.dumps(wrong))
"""
    assert of_a_fresh_process(program) == []


def test_a_source_of_ones_own_has_verbs_whatever_is_loaded():
    program = """
import json, headrace as hr
class Mine(hr.ext.SourceStage):
    name, seed = "mine", 7
    def source(self, settings): ...
print(json.dumps([callable(Mine().prefetch), callable(Mine().loader), "sample_neighbor" in dir(Mine()),
                  "sample_neighbor" in hr.ext.verbs(), hr.Plan.sample_neighbor.__doc__[:6]]))
"""
    assert of_a_process_with_torch(program) == [True, True, True, True, "Sample"]


def test_verbs_of_our_own_are_not_taken_again():
    program = """
import json, headrace as hr
try:
    hr.ext.verb("sample_neighbor")(hr.ext.MapStage)
except hr.PlanError as error:
    print(json.dumps(str(error)))
"""
    assert "already have a method" in of_a_process_with_torch(program)


@pytest.mark.slow
def test_pickles_are_read_in_a_fresh_process(tmp_path):
    plan = hr.ItemSampler(10, batch_size=4).prefetch(workers=1)
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    program = f"""
import json, pickle
plan = pickle.load(open({str(tmp_path / "plan")!r}, "rb"))
print(json.dumps([batch.seeds.tolist() for batch in plan.loader()]))
"""
    assert of_a_process_with_torch(program) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_passes_have_files_of_their_names():
    files = {path.stem for path in (TESTS.parent / "pipeline/passes").glob("*.py") if "RULES = " in path.read_text()}
    assert {one.name for one in PASSES} == files
