"""The shell scripts for machines with a GPU, with what stands in Python's place: steps, limits, budgets, records."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import tarfile
from pathlib import Path

import pytest

import headrace as hr

ROOT = Path(__file__).parents[2]
FIRST = ["torch", "build", "compile", "try", "device", "suite", "gather", "sampling", "plans", "training"]
SECOND = ["torch", "build", "compile", "sanitizer", "memcheck-gather", "memcheck-sampling", "racecheck-cache"]
SECOND += ["offsets", "own-stream", "shared", "cache", "aggregate", "ranks"]
PYTHON = f"""#!/bin/sh
case "$*" in
  *sysconfig*) echo "${{INCLUDE:-{sysconfig.get_path("include")}}}"; exit 0;;
  *find_spec*) exit ${{LACKS:-0}};;
  *import?torch*) exit ${{NO_GPU:-0}};;
  *gpu_sampling*) echo "no such rows" >&2; exit 3;;
  *gpu_plans*) sleep 60;;
esac
echo "$PYTHONSAFEPATH $HEADRACE_MOVED $PIP_NO_INDEX $@"
"""
SANITIZER = '#!/bin/sh\necho "$2 $PYTORCH_NO_CUDA_MEMORY_CACHING $HEADRACE_NO_PROFILER"\n'


def run_script(tmp_path, script, *arguments, programs=(), **settings):
    """Run a script: its status, its table, what it prints, and the texts in its archive."""
    for name, text in {"python": PYTHON, **dict(programs)}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    out = tmp_path / "out"
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": str(tmp_path / "python"), "OUT": str(out)}
    environment = {**os.environ, "PYTHONSAFEPATH": "1", **own, **settings}
    command = ["bash", ROOT / f"bench/{script}.sh", *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert sorted(path.name for path in out.iterdir()) == [f"{script}.tar.gz", f"{script}_table.txt"]
    with tarfile.open(out / f"{script}.tar.gz") as archive:
        archive.extractall(tmp_path / "records", filter="data")
    records = {path.name: path.read_text() for path in (tmp_path / "records").glob("*.txt")}
    return run.returncode, (out / f"{script}_table.txt").read_text(), run.stdout, records


def verdicts(table):
    """How each step went, in the order of the table."""
    lines = re.findall(r"^([\w-]+) +(done|failed \(\d+\)|out of time|left out) +\d+ of \d+ s$", table, re.MULTILINE)
    return dict(lines)


@pytest.mark.slow
def test_steps_that_fail_or_hang_have_their_lines_and_the_others_run(tmp_path):
    code, table, printed, records = run_script(tmp_path, "gpu", "--rehearse", STEP_SECONDS="2")
    assert code == 1
    expected = dict.fromkeys(FIRST, "done") | {"sampling": "failed (3)", "plans": "out of time"}
    assert verdicts(table) == expected
    assert list(verdicts(table)) == FIRST
    assert "    no such rows\n" in table
    assert "bench/gpu_gather.py --json " in records["gather.txt"]
    assert records["gather.txt"].endswith(" --smoke\n")
    assert records["suite.txt"].startswith("1 1 1 -m pytest -v -o addopts= --import-mode=importlib -W default ")
    assert "--junit-xml" in records["device.txt"]
    assert records["device.txt"].endswith(" tests/gpu\n")
    assert records["try.txt"].startswith("  1 bench/on_gpu.py try ")
    assert records["build.txt"].startswith("1  1 -m pip wheel ")
    assert table.startswith(records["steps.txt"])
    assert records["figures.txt"].startswith("  1 bench/on_gpu.py table ")
    assert "--timeline" in records["training.txt"]
    assert re.search(r"^planned in all +530 of 540 s$", printed, re.MULTILINE)
    assert re.search(r"^files +1 of 64 MiB \(\d+ bytes\)$", printed, re.MULTILINE)
    assert "not measured, as it takes two GPUs: reads of a peer's memory, CUDA IPC" in table


@pytest.mark.parametrize(("script", "steps"), [("gpu", FIRST), ("gpu_second", SECOND)])
def test_steps_fit_into_nine_minutes(script, steps):
    text = (ROOT / "bench/gpu_steps.sh").read_text() + (ROOT / f"bench/{script}.sh").read_text()
    planned = re.findall(r"^ *(?:stop_by=INT )?(?:step|beside|bench|suite) ([\w-]+) (\d+)", text, re.MULTILINE)
    planned += [(f"{a}-{b}", c) for a, b, c in re.findall(r"^ *sanitized (\w+) (\w+) (\d+)$", text, re.MULTILINE)]
    seconds = {name: int(number) for name, number in planned}
    assert set(seconds) == {*steps, "wheels"}
    assert sum(seconds.values()) < 540


def test_all_tests_of_operations_on_a_gpu_run_there(tmp_path):
    python = PYTHON.replace("*gpu_plans*) sleep 60", "*gpu_plans*) sleep 0")
    *_, records = run_script(tmp_path, "gpu", programs={"python": python}, STEP_SECONDS="9")
    named = re.findall(r" (tests/[\w/.]+)", records["suite.txt"])
    assert all((ROOT / name).exists() for name in named)
    files = [path for path in (ROOT / "tests/ops").rglob("test_*.py") if "mark.twins" in path.read_text()]
    files += [path for path in (ROOT / "tests").rglob("test_*.py") if "kinds import" + " GPUS" in path.read_text()]
    paths = [path.relative_to(ROOT) for path in files]
    assert len(paths) > 25
    assert not [path for path in paths if not {str(path), str(path.parent)} & set(named)]


def test_every_benchmark_is_a_step():
    text = "".join((ROOT / f"bench/{name}.sh").read_text() for name in ("gpu", "gpu_second"))
    scripts = {path.stem[4:] for path in (ROOT / "bench").glob("gpu_*.py") if "def main" in path.read_text()}
    assert scripts <= set(re.findall(r"^bench (\w+) \d+", text, re.MULTILINE))


def test_steps_can_be_run_alone(tmp_path):
    code, table, _, records = run_script(tmp_path, "gpu", "--rehearse", "gather")
    assert code == 0
    assert verdicts(table) == {"gather": "done"}
    assert set(records) == {"gather.txt", "steps.txt", "figures.txt"}
    assert re.search(r"^planned in all +35 of 540 s$", table, re.MULTILINE)


def test_records_are_kept_behind_each_step(tmp_path):
    """A machine that is taken away meanwhile leaves what came before."""
    look = f'#!/bin/sh\ncase "$*" in *gpu_plans*) tar -tzf {tmp_path}/out/gpu.tar.gz; exit 0;; esac\necho "$@"\n'
    python = PYTHON.replace("#!/bin/sh\n", look.replace('echo "$@"\n', ""), 1)
    *_, records = run_script(tmp_path, "gpu", "--rehearse", programs={"python": python}, STEP_SECONDS="9")
    assert {"./gather.txt", "./sampling.txt", "./steps.txt"} <= set(records["plans.txt"].split())


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"CXX": "no-such-compiler"}, "no C++ compiler: no-such-compiler --version fails"),
        ({"INCLUDE": "/nowhere"}, "no headers of Python: there is no /nowhere/Python.h"),
        ({"NO_GPU": "1"}, "torch finds no GPU here, or cannot be imported"),
    ],
)
def test_what_nothing_works_without_ends_it_at_once(settings, line, tmp_path):
    code, table, _, records = run_script(tmp_path, "gpu", **settings)
    assert code == 2
    assert line in table.splitlines()
    assert not {"build.txt", "gather.txt"} & set(records)


def test_tests_need_no_plugins(tmp_path):
    _, table, _, records = run_script(tmp_path, "gpu", "--rehearse", "device", LACKS="1")
    assert "xdist, pytest_timeout" in table
    assert " -n " not in records["device.txt"]
    assert "--timeout" not in records["device.txt"]


def test_sanitizers_run_without_torchs_allocator_and_profiler(tmp_path):
    """The one would give reads past the end of a tensor the memory of others, the other takes the sanitizer's place."""
    programs = {"compute-sanitizer": SANITIZER}
    _, table, _, records = run_script(tmp_path, "gpu_second", programs=programs, STEP_SECONDS="2")
    for step in ("memcheck-gather", "memcheck-sampling", "racecheck-cache"):
        assert records[f"{step}.txt"] == f"{step.partition('-')[0]} 1 1\n"
    assert list(verdicts(table)) == SECOND
    assert re.search(r"^planned in all +535 of 540 s$", table, re.MULTILINE)


def test_a_machine_that_keeps_the_sanitizer_out_is_not_asked_twice(tmp_path):
    programs = {"compute-sanitizer": '#!/bin/sh\necho "no permission" >&2\nexit 1\n'}
    _, table, _, records = run_script(tmp_path, "gpu_second", programs=programs, STEP_SECONDS="2")
    assert "    no permission\nnot measured, as the sanitizer does not run here: memcheck of gathers" in table
    assert list(verdicts(table)) == [name for name in SECOND if "check-" not in name]
    assert "offsets.txt" in records


def test_options_that_are_gone_are_refused(tmp_path):
    for option in ("--full", "--smoke"):
        command = ["bash", ROOT / "bench/gpu.sh", option]
        run = subprocess.run(command, env={**os.environ, "OUT": str(tmp_path)}, capture_output=True, check=False)
        assert run.returncode == 2
        assert b"expected --rehearse or names of steps" in run.stderr


@pytest.mark.slow
def test_all_benchmarks_are_tried_side_by_side(bench, tmp_path, monkeypatch, capsys):
    on_gpu = bench("on_gpu")
    for name, text in (
        ("gpu_one", "def main(): ...\nprint('as it should')"),
        ("gpu_two", "raise ValueError('def main(')"),
        ("gpu_three", "import time\ntime.sleep(60)  # def main("),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(on_gpu, "HERE", tmp_path)
    assert on_gpu.main(["try", str(tmp_path), "3"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert set(printed) == {"gpu_one: runs", "gpu_two: failed (1)", "gpu_three: out of time"}
    assert (tmp_path / "smoke_gpu_one.txt").read_text() == "as it should\n"
    assert "ValueError" in (tmp_path / "smoke_gpu_two.txt").read_text()


@pytest.mark.slow
def test_files_that_do_not_compile_are_named(bench):
    """Each with what is wrong there, while the others compile."""
    compiling = bench("compile_kernels")
    found = dict(compiling.errors(compiling.compile_alone, ["none.cu", "nor_this.cu"], 2))
    assert set(found) == {"none.cu", "nor_this.cu"}
    assert all("is in none of" in error for error in found.values())


def test_a_loader_writes_the_timeline_that_the_script_asks_for(tmp_path):
    name = re.search(r'--timeline "\$records/([\w.]+)"', (ROOT / "bench/gpu.sh").read_text())[1]
    with hr.ItemSampler(4, batch_size=2).loader() as loader:
        list(loader)
        assert loader.profile(tmp_path / name) == tmp_path / name
    assert not name.startswith("gpu_"), "those are records"
