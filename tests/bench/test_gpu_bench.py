"""Benchmarks of GPUs, tried on what stands in for one: they run, do the same work everywhere, and count rightly."""

from __future__ import annotations

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


@pytest.mark.slow
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
