"""What stands around the measurements: peers over pipes, limits, counters, conversions, checks of features, plots."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench"


def test_a_peer_answers_until_it_is_closed_and_its_end_is_reported(bench, tmp_path):
    script = tmp_path / "peer.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(BENCH)!r})\n"
        "from worker import serve\n"
        "def double(value):\n"
        "    print('noise')\n"
        "    return 2 * value\n"
        "serve({'double': double, 'end': lambda: sys.exit(3)})\n"
    )
    worker = bench("worker").Worker(sys.executable, script)
    try:
        assert worker.call("double", value=21) == 42
        with pytest.raises(RuntimeError, match="the peer ended in end, with status 3"):
            worker.call("end")
    finally:
        worker.close()


def test_limits_copy_what_they_time(bench, tmp_path, monkeypatch):
    limits = bench("limits")
    monkeypatch.setattr(limits, "CACHE", tmp_path)
    source = torch.arange(1000, dtype=torch.int64)
    for threads in (1, 3):
        out = torch.zeros(900, dtype=torch.int64)
        assert limits.copying(source, out, threads) > 0
        assert torch.equal(out, source[:900])
        ids = torch.tensor([99, 0, 5])
        assert limits.reading(source.view(100, 10), ids, threads) > 0
    assert limits.latency(limits.chain(64)) > 0


def test_the_chain_of_loads_is_one_cycle_through_all_words(bench):
    following = bench("limits").chain(1000)
    place, seen = 0, set()
    for _ in range(1000):
        seen.add(place)
        place = int(following[place])
    assert place == 0
    assert len(seen) == 1000


def test_counters_that_the_machine_does_not_give_are_left_out(bench):
    report = (
        "<not supported>,,cache-misses,0,100.00,,\n"
        "1234,,dTLB-load-misses:u,1000,100.00,,\n"
        "# started on some day\n"
        "17.5,,page-faults,1000,100.00,0.1,K/sec\n"
    )
    assert bench("counters").parsed(report) == {"dTLB-load-misses": 1234.0, "page-faults": 17.5}


def test_libraries_convert_to_the_same_graph(bench):
    one_build = bench("one_build")
    random = np.random.default_rng(0)
    num_nodes = 200
    pairs = random.choice(num_nodes**2, 3000, replace=False)  # SciPy would merge repeated edges
    src, dst = (part.astype(np.int64) for part in np.divmod(pairs, num_nodes))
    threads = torch.get_num_threads()
    for library in ("headrace", "kernel", "scipy", "pyg"):
        indptr, indices, edge_ids = (
            np.asarray(array) for array in one_build.LIBRARIES[library](src, dst, num_nodes, 1)()
        )
        assert np.array_equal(np.diff(indptr), np.bincount(dst, minlength=num_nodes)), library
        assert np.array_equal(src[edge_ids], indices), library
        assert np.array_equal(dst[edge_ids], np.repeat(np.arange(num_nodes), np.diff(indptr))), library
    torch.set_num_threads(threads)


def test_features_say_whose_they_are(bench):
    work = bench("work")
    x = work.table(10_000, 4)
    n_id = torch.tensor([9_999, 0, 4_096, 17])
    work.identified(x[n_id], n_id)
    with pytest.raises(ValueError, match="rows of the 4 nodes"):
        work.identified(x[n_id.flip(0)], n_id)
    with pytest.raises(ValueError, match="got 3 other ones"):
        work.identified(x[n_id[:3]], n_id)


def test_environments_count_only_when_they_are_complete(bench, tmp_path):
    environment = bench("environments").Environment(tmp_path, ".installed", tmp_path / "peer.py", "make peers")
    (tmp_path / "bin").mkdir()
    environment.python.touch()
    assert not environment.ready
    (tmp_path / ".installed").touch()
    assert environment.ready


@pytest.mark.slow
def test_plots_are_drawn_and_the_same_each_time(bench, tmp_path):
    record = partial(bench("harness").Record, "bench", unit="ms", min=1.0, max=3.0, n=3, threads=1)
    records = [record(case=case, system=system, metric="time", median=2.0) for case in "xy" for system in "abc"]
    plot = bench("plot")
    for name in ("one.png", "two.png"):
        plot.draw_bars(tmp_path / name, records, "time")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    plot.draw_lines(tmp_path / "lines.png", [("title", [(10.0, records[0]), (100.0, records[3])])])
    assert (tmp_path / "lines.png").read_bytes().startswith(b"\x89PNG")
    plot.draw_bars(None, records, "time")
    with pytest.raises(ValueError, match="no records to draw"):
        plot.draw_bars(tmp_path / "none.png", records, "edges")


def test_growth_is_the_largest_graph_over_the_smallest_turn_by_turn(bench):
    scaling, harness = bench("scaling"), bench("harness")

    def measured(cost):
        common = ("scaling: graph", "case", "headrace")
        return [
            harness.Record(*common, "time", "ms", 1.0, 1.0, 1.0, 5, 1),
            harness.Record(*common, "edge cost", "ns/edge", cost, cost - 1, cost + 2, 5, 1),
        ]

    turns = [{10: measured(10.0), 1000: measured(cost)} for cost in (20.0, 40.0, 30.0)]
    (grown,) = scaling.growth_records(turns)
    assert (grown.case, grown.metric) == ("from 10 to 1,000 edges", "edge cost growth")
    assert (grown.median, grown.min, grown.max) == (3.0, 2.0, 4.0)
    pooled = scaling.pooled([turn[1000][1] for turn in turns])
    assert (pooled.median, pooled.min, pooled.max, pooled.n) == (30.0, 19.0, 42.0, 15)
    assert scaling.record_size(harness.Record("b", "1,000 edges, 40 nodes", "s", "time", "ms", 1, 1, 1, 1, 1)) == 1000
