"""Benchmarks of GPUs, tried on what stands in for one: they run, do the same work everywhere, and count rightly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import DeviceType

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    "gather",
    "sampling",
    "plans",
    "offsets",
    "cache",
    "aggregate",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("shared", "training", "ranks")),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Processes that a benchmark starts import the files beside it; its printing changes nothing here."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    strategy, state = torch.multiprocessing.get_sharing_strategy(), torch.random.get_rng_state()
    yield
    torch.multiprocessing.set_sharing_strategy(strategy)
    torch.random.set_rng_state(state)


@pytest.mark.combinations(4)
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_run(name, bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench("harness"), "REST", 0.0)
    bench(f"gpu_{name}").main(["--smoke", "--json", str(tmp_path / "records.json")])
    records = bench("harness").read_json(tmp_path / "records.json")
    assert records
    kind = "gpu: " if torch.cuda.is_available() else "stand-in: "
    assert all(record.bench.startswith(kind) for record in records)
    of_peers = {"gather": "gather from a peer", "ranks": "shares, rows on all GPUs"}
    if name in of_peers and kind == "stand-in: ":
        assert of_peers[name] in {record.system for record in records}


def test_without_a_gpu_nothing_is_measured(bench):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(SystemExit, match="torch finds no GPU here"):
        bench("gpu_gather").main([])


def test_gathers_over_the_bus_take_the_threads_they_are_given(bench):
    gather = bench("gpu_gather")
    with gather.threads_of_bus(7):
        assert gather.bus.threads_of_bus(torch.device("cpu")) == 7
    assert gather.bus._given is None


def test_rows_that_are_others_are_found_out(bench):
    gather, device = bench("gpu_gather"), bench("gpu_device")
    options = SimpleNamespace(table_bytes=1 << 12, out_bytes=1 << 10, smoke=True)
    with device.gpu_of(options) as gpu:
        rows = gather.Rows(gpu, gather.Memory(gpu, 1 << 12), 64, options)
        rows.gather(rows.there)
        rows.check()
        rows.out[3] += 1
        with pytest.raises(ValueError, match="expected the rows of the ids"):
            rows.check()


def test_torch_alone_samples_in_neighbours_without_replacement(bench):
    sampler = bench("torch_sampler")
    indptr, indices = torch.tensor([0, 3, 3, 8, 10]), torch.tensor([1, 2, 3, 0, 1, 3, 5, 7, 0, 2], dtype=torch.int32)
    frontier = torch.tensor([2, 0, 1, 3])
    seen = set()
    for _ in range(60):
        degrees, neighbors = sampler.pick(indptr, indices, frontier, 2)
        assert degrees.tolist() == [2, 2, 0, 2]
        first, second, third = (set(part.tolist()) for part in neighbors.split([2, 2, 2]))
        assert len(first) == len(second) == 2
        assert first < {0, 1, 3, 5, 7}
        assert second < {1, 2, 3}
        assert third == {0, 2}
        seen.add(tuple(sorted(first)))
    assert len(seen) == 10
    nodes, num_edges = sampler.sample(indptr, indices, torch.tensor([3]), [2, 2])
    assert num_edges >= 2 + 2
    assert {0, 2, 3} <= set(nodes.tolist())


def test_what_the_profiler_saw_is_summed_up(bench):
    def event(name, start, end, device=DeviceType.CUDA, annotation=False):
        times = SimpleNamespace(start=start, end=end)
        return SimpleNamespace(name=name, device_type=device, time_range=times, is_user_annotation=annotation)

    events = [
        event("pick_uniform", 100.0, 200.0),
        event("gather_rows", 150.0, 250.0),  # on another stream
        event("Memcpy DtoH", 300.0, 310.0),
        event("find_slots", 160.0, 170.0),
        event("Optimizer.step#Adam.step", 0.0, 900.0, annotation=True),
        event("cudaLaunchKernel", 50.0, 60.0, DeviceType.CPU),
        event("cuLaunchKernelEx", 70.0, 75.0, DeviceType.CPU),
        event("aten::empty", 0.0, 1000.0, DeviceType.CPU),
    ]
    profile = bench("gpu_profile").of_events(events, wall=1e-3)
    assert (profile.kernels, profile.wall) == (3, 1e-3)
    assert profile.busy == pytest.approx(160e-6)
    assert profile.launching == pytest.approx(15e-6)


def test_batches_that_are_others_are_found_out(bench):
    training = bench("gpu_training")
    trainings = {
        name: SimpleNamespace(digests=lambda most, name=name: [name[0]] * most) for name in (training.PLAIN, "other")
    }
    with pytest.raises(ValueError, match="got others from other"):
        training.check_same_batches(trainings, 2)


def test_each_pass_that_does_something_is_switched_off_once(bench):
    import headrace as hr

    training, options = bench("gpu_training"), SimpleNamespace(items=0.1, batch_size=4, fanouts=[3])
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=40)
    systems = training.systems_of(
        *training.plans(graph, 4, options), hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 30,))
    )
    assert next(iter(systems)) == training.PLAIN
    assert {training.ALL_ON_CPU, training.ALL_ON_GPU} < set(systems)
    assert {"CPU samples, all but stream_overlap", "CPU samples, all but uva_gather"} < set(systems)
    assert systems["GPU samples, all but uva_gather"][1] == {"uva_gather": False}
    gains = training.gains_of(systems)
    assert len(gains) == len(set(gains)) == len(systems) - 1


def test_rows_are_fetched_and_cached_where_a_gpu_has_no_room_for_the_graph(bench):
    import headrace as hr
    from headrace.pipeline.passes import rewrite

    training, options = bench("gpu_training"), SimpleNamespace(items=0.1, batch_size=4, fanouts=[3])
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=40)
    _, plan = training.plans(graph, 4, options)
    small = training.without_room(graph, hr.Machine(cores=2, gpus=1))
    fired = [
        {one.name for one in rewrite(plan, small, switches).records if one.fired} & {"split_sample", "graph_cache"}
        for switches in training.FETCHED.values()
    ]
    assert fired == [{"split_sample", "graph_cache"}, {"split_sample"}, set()]


def test_gathers_through_a_cache_take_the_threads_they_are_given(bench, monkeypatch):
    caches, items = bench("gpu_cache"), []
    monkeypatch.setattr(
        caches.cached_rows, "launch", lambda kernel, types, num_items, *_, **__: items.append(num_items)
    )
    before = caches.cached_rows.launch
    for most in (None, 64):
        with caches.copying_threads(most):
            caches.cached_rows.launch("gather_cached", (), 1000, device=None)
            caches.cached_rows.launch("fill_cache", (), 500, device=None)
    assert items == [1000, 500, 64, 500]
    assert caches.cached_rows.launch is before


PYTHON = """#!/bin/sh
case "$*" in
  *import?torch*) exit 0;;
  *gpu_sampling*) echo "no such rows" >&2; exit 3;;
  *gpu_plans*) sleep 60;;
esac
echo "$PYTHONSAFEPATH $HEADRACE_MOVED $@"
"""


def run_script(tmp_path, *arguments, sanitizer=None, **settings):
    """Run the script with what stands in Python's place: its status, its table, and what is in its archive."""
    programs = {"python": PYTHON, **({} if sanitizer is None else {"compute-sanitizer": sanitizer})}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    out = tmp_path / "out"
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": str(tmp_path / "python"), "OUT": str(out)}
    environment = {**os.environ, "PYTHONSAFEPATH": "1", **own, **settings}
    command = ["bash", ROOT / "bench/gpu.sh", *arguments]
    code = subprocess.run(command, env=environment, capture_output=True, check=False).returncode
    assert sorted(path.name for path in out.iterdir()) == ["gpu.tar.gz", "gpu_table.txt"]
    with tarfile.open(out / "gpu.tar.gz") as archive:
        archive.extractall(tmp_path / "records", filter="data")
    records = {path.name: path.read_text() for path in (tmp_path / "records").glob("*.txt")}
    return code, (out / "gpu_table.txt").read_text(), records


def test_the_shell_script_is_tried_without_a_gpu(tmp_path):
    """A step that fails or hangs has its line, and the others run."""
    code, table, records = run_script(tmp_path, "--smoke", STEP_SECONDS="2")
    assert code == 1
    verdicts = re.findall(r"^(\w+) +(done|failed \(\d+\)|out of time) +\d+ of 2 s$", table, re.MULTILINE)
    assert dict(verdicts) == {
        "smoke": "done",
        "suite": "done",
        "gather": "done",
        "sampling": "failed (3)",
        "plans": "out of time",
        "training": "done",
    }
    assert "    no such rows\n" in table
    assert "bench/gpu_gather.py --json " in records["gather.txt"]
    assert records["gather.txt"].endswith(" --smoke\n")
    assert records["suite.txt"].startswith("1 1 -m pytest")
    assert records["smoke.txt"].startswith("  bench/on_gpu.py smoke ")
    assert records["steps.txt"] == table


def test_steps_can_be_run_alone(tmp_path):
    code, table, records = run_script(tmp_path, "--smoke", "gather")
    assert code == 0
    assert [line.split()[:2] for line in table.splitlines()[:1]] == [["gather", "done"]]
    assert set(records) == {"gather.txt", "steps.txt"}


def test_the_steps_fit_into_nine_minutes():
    text, _, full = (ROOT / "bench/gpu.sh").read_text().partition("if $full; then")
    measured = re.findall(r"^ *(?:step|bench|suite) (\w+) (\d+)", text, re.MULTILINE)
    seconds = {name: int(number) for name, number in measured}
    assert {"build", "smoke", "suite", "gather", "sampling", "plans", "training"} < set(seconds)
    assert sum(seconds.values()) <= 540
    scripts = {path.stem[4:] for path in (ROOT / "bench").glob("gpu_*.py") if "def main" in path.read_text()}
    assert scripts <= set(seconds) | set(re.findall(r"^ *bench (\w+) \d+", full, re.MULTILINE))


def test_sanitizers_run_without_torchs_allocator_and_profiler(tmp_path):
    """The one would give reads past the end of a tensor the memory of others, the other takes the sanitizer's place."""
    sanitizer = '#!/bin/sh\necho "$2 $PYTORCH_NO_CUDA_MEMORY_CACHING $HEADRACE_NO_PROFILER"\n'
    _, table, records = run_script(tmp_path, "--full", sanitizer=sanitizer, STEP_SECONDS="2")
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        for name in ("gather", "sampling", "cache", "aggregate"):
            assert records[f"{tool}-{name}.txt"] == f"{tool} 1 1\n"
    assert {"build", "own-stream", "offsets", "shared"} < {
        line.split()[0] for line in table.splitlines() if line.strip()
    }


@pytest.mark.slow
def test_the_suite_runs_as_if_on_a_gpu():
    """Arguments are copied, and what stands in for a GPU works on the copies."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile", "quick"]
    command += ["-m", "twins and not slow", "tests/ops/features/test_scatter.py"]
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "HEADRACE_MOVED": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 5


def test_all_benchmarks_are_tried_side_by_side(bench, tmp_path, monkeypatch, capsys):
    on_gpu = bench("on_gpu")
    for name, text in (
        ("gpu_one", "def main(): ...\nprint('as it should')"),
        ("gpu_two", "raise ValueError('def main(')"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(on_gpu, "HERE", tmp_path)
    assert on_gpu.smoke(tmp_path) == 1
    assert set(capsys.readouterr().out.splitlines()) == {"gpu_one: runs", "gpu_two: failed (1)"}
    assert (tmp_path / "smoke_gpu_one.txt").read_text() == "as it should\n"
    assert "ValueError" in (tmp_path / "smoke_gpu_two.txt").read_text()


def test_figures_are_written_as_they_are_measured(bench, tmp_path, capsys):
    harness, path = bench("harness"), tmp_path / "gpu_gather.json"
    records = bench("gpu_device").Measured(path)
    for number in range(2):
        records += [harness.summarised("gpu: gather", f"case {number}", "system", "row rate", "GB/s", [3.0], 1)]
        assert harness.read_json(path) == list(records)
        assert len(records) == number + 1
    capsys.readouterr()
    assert bench("on_gpu").main(["table", str(tmp_path)]) == 0
    first, _ = capsys.readouterr().out.splitlines()
    assert first.split() == ["gather:", "case", "0", "system", "row", "rate", "3.00", "GB/s"]


def test_graphs_are_drawn_on_the_device(bench):
    """Skewed, each edge once, in order of their targets."""
    device = bench("gpu_device")
    indptr, indices = device.skewed_csc(device.SMALL, torch.device("cpu"))
    assert len(indptr) == device.SMALL.num_nodes + 1
    assert indptr[-1] == len(indices) > 0.8 * device.SMALL.num_edges
    degrees = indptr.diff()
    assert degrees.max() > 5 * degrees.float().mean()
    target = torch.arange(device.SMALL.num_nodes).repeat_interleave(degrees)
    assert len(torch.unique(target * device.SMALL.num_nodes + indices)) == len(indices)
    assert 0 <= int(indices.min()) <= int(indices.max()) < device.SMALL.num_nodes


def test_times_of_the_device_begin_when_all_is_launched(bench, monkeypatch):
    calls = []

    class Event:
        def __init__(self, *, enable_timing):
            assert enable_timing

        def record(self):
            calls.append("record")

        def elapsed_time(self, other):
            return 2.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: calls.append("sleep"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("wait"))
    gpu = bench("gpu_device").Gpu(torch.device("cuda", 0), is_real=True)
    assert gpu.seconds(lambda: calls.append("launch")) == 2e-3
    assert calls == ["sleep", "record", "launch", "record", "wait"]


def test_the_report_says_what_was_never_run_on_a_gpu(bench, tmp_path):
    report, harness = bench("report"), bench("harness")
    scripts = {path.stem for path in (ROOT / "bench").glob("gpu_*.py") if "def main" in path.read_text()}
    assert set(report.GPU) == scripts
    assert {bench_name for _, bench_name, _ in report.BARS_OF_GPUS} <= scripts
    line, *rows = report.never_run({"sampling", "gpu_cache", "gpu_training"})
    assert "`gpu_gather`" in line
    assert "`gpu_cache`" not in line
    assert sum("`gpu_gather`" in row for row in rows) == 2
    assert not any("`gpu_training`" in row for row in rows)
    assert report.never_run(scripts) == []
    record = harness.summarised("stand-in: gather", "case", "system", "time", "ms", [1.0], 1)
    harness.write_json(tmp_path / "gpu_gather.json", [record])
    harness.write_json(tmp_path / "gpu_cache.json", [harness.replace(record, bench="gpu: cache")])
    text = report.report_text(tmp_path, tmp_path / "RESULTS.md")
    assert "[gpu_cache](gpu_cache.md)" in text
    assert "stand-in" not in text
    assert "`gpu_gather`" in text.split("## Reading")[0]
