"""Independent against cooperative loading: the cache, the counts, the records, and the ranks that are processes."""

from __future__ import annotations

import argparse
import subprocess
from collections import OrderedDict
from dataclasses import fields
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from ranks import cooperative_batches

import headrace as hr

pytestmark = pytest.mark.slow

NUM_NODES = 3_000


@pytest.fixture
def graph(bench, monkeypatch):
    """Put a small Chung-Lu graph in the place of the one that is measured."""
    work, chung_lu = bench("cooperative_work"), bench("chung_lu")
    small = chung_lu.chung_lu_graph(NUM_NODES)
    monkeypatch.setattr(work, "chung_lu_graph", lambda: small)
    monkeypatch.setattr(work, "FANOUTS", [4, 4, 4])
    return small


class SlowCache:
    """The least recently used row goes first, one row at a time."""

    def __init__(self, capacity):
        self.capacity, self.kept = capacity, OrderedDict()

    def read(self, rows):
        missing = sum(row not in self.kept for row in rows)
        for row in rows:
            self.kept.pop(row, None)
            self.kept[row] = None
        while len(self.kept) > self.capacity:
            self.kept.popitem(last=False)
        return missing


@pytest.mark.parametrize("capacity", [1, 7, 40, 200])
def test_the_cache_misses_what_a_slow_one_does(bench, capacity):
    random = np.random.default_rng(capacity)
    cache, slow = bench("row_cache").RowCache(capacity, 100), SlowCache(capacity)
    for _ in range(60):
        rows = random.choice(100, int(random.integers(0, 60)), replace=False)
        assert cache.read(rows) == slow.read(rows.tolist())


def test_a_cache_of_nothing_is_refused(bench):
    with pytest.raises(ValueError, match="at least one row, got 0"):
        bench("row_cache").RowCache(0, 10)


def test_chung_lu_edges_are_undirected_and_single(bench):
    src, dst = bench("chung_lu").chung_lu_edges(NUM_NODES, 10.0, 0.6, seed=1)
    pairs, back = src * NUM_NODES + dst, dst * NUM_NODES + src
    assert np.array_equal(np.sort(back), pairs)
    assert len(np.unique(pairs)) == len(pairs)
    assert not (src == dst).any()
    assert 9.0 < len(src) / NUM_NODES < 10.0
    # The most popular tenth has its share of the edges: 0.1 ** (1 - exponent).
    assert (dst < NUM_NODES // 10).mean() == pytest.approx(0.1**0.4, rel=0.1)


@pytest.mark.parametrize("keys", [[], [3], [5, 1, 5, 2, 1]])
def test_distinct_keys(bench, keys):
    found = bench("chung_lu").distinct(np.array(keys, dtype=np.int64))
    assert found.tolist() == sorted(set(keys))


def test_work_ratios_are_above_one_and_grow_with_the_ranks(bench, graph):
    records = bench("cooperative_work").work_records([1, 2, 4], 64, 6)
    for sampler in ("LABOR-0", "NS"):
        ratios = [
            record for record in records if record.metric == "|S3| ratio" and record.case.startswith(f"{sampler}, ")
        ]
        assert all(record.n >= 5 for record in ratios)
        one, two, four = (record.median for record in ratios)
        assert one == 1
        assert 1.02 < two < four < 4


def test_records_of_the_work_have_the_schema_and_survive_json(bench, graph, tmp_path):
    harness, work = bench("harness"), bench("cooperative_work")
    records = work.work_records([2], 32, 5) + work.law_records([64, 128], 5)
    names = {field.name for field in fields(harness.Record)}
    assert names == {"bench", "case", "system", "metric", "unit", "median", "min", "max", "n", "threads"}
    harness.write_json(tmp_path / "records.json", records)
    assert harness.read_json(tmp_path / "records.json") == records
    found = {(record.system, record.metric): record for record in records if "LABOR-0, 2 ranks" in record.case}
    assert found["cooperative", "rounds"].median == 5
    assert found["independent", "rounds"].median == 0
    assert found["cooperative", "received bytes"].median > 0
    read = found["cooperative", "rows"].median * 1e3 * 400
    assert found["cooperative", "feature bytes"].median * 1e6 == pytest.approx(read, rel=0.02)


def test_concave_and_non_increasing(bench):
    work = bench("cooperative_work")
    assert work.is_non_increasing([3, 2, 2])
    assert not work.is_non_increasing([3, 2, 2.5])
    assert work.is_concave([1, 2, 4], [10, 19, 30])
    assert not work.is_concave([1, 2, 4], [10, 19, 40])
    assert not work.is_concave([1, 2], [10, 21])


@pytest.mark.parametrize("sampler", ["LABOR-0", "NS"])
def test_what_ranks_would_exchange_is_what_they_do_exchange(bench, graph, sampler):
    plan = bench("cooperative_work").samplers(graph)[sampler](hr.ItemSampler(240, batch_size=80, shuffle=True, seed=0))
    partition = hr.Partition.hash(NUM_NODES, 3)
    shares = cooperative_batches(plan, 3, partition=partition)
    for index, whole in enumerate(plan.loader()):
        mine = [batches[index] for batches in shares]
        wanted, asked, remote = bench("counted_work").exchanged(whole, partition)
        assert wanted == sum(len(batch.exchanges[0].wanted) for batch in mine)
        assert remote == sum(batch.exchanges[0].num_received for batch in mine)
        assert asked == sum(exchange.num_received for batch in mine for exchange in batch.exchanges[:-1])


def test_times_are_compared_round_by_round(bench):
    def taken(seconds, on_cpu):
        return {"all": seconds, "cpu": on_cpu, "kernel": on_cpu / 2, "faults": 8_000}

    def answer(factor):
        return {
            "received bytes": 5e6 * factor,
            "measured": {
                "independent": [taken(1.0 * factor, 1.0), taken(2.0 * factor, 1.0)],
                "cooperative": [taken(0.5 * factor, 3.0), taken(3.0 * factor, 3.0)],
                "bare": [taken(0.4 * factor, 2.0), taken(2.0 * factor, 1.0)],
            },
        }

    time = bench("cooperative_time")
    records = time.records_of("bench", "case", [answer(1), answer(3)], {"threads": 1, "batches": 4})
    found = {(record.system, record.metric): record for record in records}
    # Means of both ranks, twice those of the first; in milliseconds, for each of four batches.
    assert found["independent", "time"].median == pytest.approx(750.0)
    assert found["cooperative", "CPU time in the kernel"].median == pytest.approx(375.0)
    assert found["bare collectives and kernels", "page faults"].median == pytest.approx(2.0)
    overhead = found[f"cooperative over {time.BARE}", "overhead"]
    assert (overhead.min, overhead.max) == (pytest.approx(25.0), pytest.approx(50.0))
    on_cpu = found[f"cooperative over {time.BARE}", "CPU overhead"]
    assert (on_cpu.min, on_cpu.max) == (pytest.approx(50.0), pytest.approx(200.0))
    assert found["cooperative", "received by a rank"].median == pytest.approx(10.0)
    gain = found["cooperative over independent", "time gain"]
    assert (gain.min, gain.max) == (pytest.approx(2 / 3), pytest.approx(2.0))


@pytest.mark.combinations(1)
@pytest.mark.parametrize("world_size", [1, 2])
def test_processes_replay_what_the_loader_does(bench, tmp_path, world_size):
    """The ranks themselves compare the bare kernels' nodes with the loader's, and the rows with their nodes."""
    time = bench("cooperative_time")
    src, dst = bench("chung_lu").chung_lu_edges(NUM_NODES, 10.0, 0.6, seed=1)
    csc = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES)
    np.save(tmp_path / "indptr.npy", csc.indptr.numpy())
    np.save(tmp_path / "indices.npy", csc.indices.numpy())
    settings = {"folder": str(tmp_path), "batch_size": 32, "batches": 2, "width": 8, "rounds": 2, "threads": 1}
    answers = bench("processes").run_processes(
        time.SCRIPT, world_size, {**settings, "latency": 0.001 * (world_size - 1), "profile": 3}
    )
    assert len(answers) == world_size
    records = time.records_of("bench", "case", answers, settings)
    found = {(record.system, record.metric): record for record in records}
    assert (time.BARE, "time of sampling") in found
    assert ("cooperative", "time of fetch_and_exchange") in found if world_size > 1 else True
    assert len(answers[0]["profile"]) == 3
    time.print_time(records)
    if world_size > 1:
        # Each of 9 collectives waits for a millisecond.
        assert found["cooperative", "time"].min > 9
        assert answers[0]["received bytes"] > 0


def test_a_rank_that_fails_is_reported(bench, tmp_path):
    script = tmp_path / "rank.py"
    script.write_text("import sys, json; sys.exit(json.loads(sys.argv[1])['rank'])\n")
    with pytest.raises(RuntimeError, match=r"rank 1 of rank\.py ended with status 1"):
        bench("processes").run_processes(script, 2, {})


def test_links_join_two_namespaces_and_leave_nothing(bench):
    network = bench("network")
    reason = network.why_not()
    if reason is not None:
        pytest.skip(reason)
    before = set(Path("/sys/class/net").iterdir())
    with network.link(1e9, 0.001) as link:
        shown = subprocess.run([*link.prefix(1), "ip", "address"], capture_output=True, text=True, check=True).stdout
        assert "10.77.0.2/24" in shown
        limits = subprocess.run([*link.prefix(0), "tc", "qdisc"], capture_output=True, text=True, check=True).stdout
        assert "rate 1Gbit" in limits
    assert set(Path("/sys/class/net").iterdir()) == before


def test_without_the_tools_the_network_part_says_so(bench, monkeypatch, capsys):
    monkeypatch.setattr(bench("network").shutil, "which", lambda tool: None if tool == "tc" else tool)
    assert bench("cooperative_network").network_records(argparse.Namespace()) == []
    assert "skipped, tc not found (Debian: iproute2" in capsys.readouterr().out


def test_the_cache_part_compares_both_modes(bench, graph, tmp_path, monkeypatch):
    cache = bench("cooperative_cache")
    np.save(tmp_path / "indptr.npy", graph.indptr.numpy())
    np.save(tmp_path / "indices.npy", graph.indices.numpy())
    monkeypatch.setattr(cache, "cached_csc", lambda shape: tmp_path)
    monkeypatch.setattr(cache, "cached_train", lambda shape: np.arange(NUM_NODES))
    records = cache.cache_records("small", 2, 16, 500, 5)
    found = {(record.system, record.metric): record for record in records if "LABOR-0" in record.case}
    for mode in ("independent", "cooperative"):
        assert 0 < found[mode, "rows past the cache"].median <= found[mode, "rows"].median
    assert found["independent over cooperative", "rows past the cache ratio"].median > 1.1


def test_points_of_the_plot_are_the_ratios_by_ranks(bench, graph):
    script = bench("cooperative")
    records = bench("cooperative_work").work_records([1, 2], 32, 3)
    points = script.ratio_points(records, 32)
    assert [x for x, _ in points] == [1.0, 2.0, 1.0, 2.0]
    assert [record.system for _, record in islice(points, 3)] == ["LABOR-0", "LABOR-0", "NS"]
