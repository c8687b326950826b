"""The cost model: its formulas on numbers that can be worked out by hand, and counts that follow the scale."""

from __future__ import annotations

import json

import pytest

ROW = 100.0


@pytest.fixture
def model(bench):
    return bench("cost_model")


@pytest.fixture
def rates(model):
    return model.Rates(edges=1e6, host=1e9, gather=1e10, peer=1e8, network=1e7, ranks_a_machine=2, latency=1e-3)


@pytest.fixture
def independent(bench):
    return bench("counted_work").Work(edges=2e6, rows=1000.0, missed=400.0, wanted=1000.0)


@pytest.fixture
def cooperative(bench):
    return bench("counted_work").Work(
        edges=1e6, rows=600.0, missed=200.0, wanted=900.0, asked=1000.0, remote=500.0, collectives=9
    )


def test_one_machine_independent(model, rates, independent):
    cost = model.cost(independent, rates, 2, ROW, features_on_each_machine=True)
    assert cost.sampling == pytest.approx(2.0)
    # 600 rows from the cache, 400 from the host.
    assert cost.copying == pytest.approx(600 * 100 / 1e10 + 400 * 100 / 1e9)
    assert cost.total == cost.sampling + cost.copying
    assert cost == model.cost(independent, rates, 2, ROW, features_on_each_machine=False)


def test_one_machine_cooperative(model, rates, cooperative):
    cost = model.cost(cooperative, rates, 2, ROW, features_on_each_machine=True)
    assert cost.sampling == pytest.approx(1.0 + 8 * 1000 / 1e8 + 8e-3)
    copied = (400 + 1800) * 100 / 1e10 + 200 * 100 / 1e9
    assert cost.copying == pytest.approx(copied + 500 * 100 / 1e8 + 1e-3)


def test_of_the_other_ranks_those_of_other_machines_are_behind_the_network(model, rates, cooperative):
    # Of 3 other ranks, 1 is in the same machine.
    cost = model.cost(cooperative, rates, 4, ROW, features_on_each_machine=True)
    assert cost.sampling == pytest.approx(1.0 + 8 * 1000 * (1 / 3 / 1e8 + 2 / 3 / 1e7) + 8e-3)
    copied = (400 + 1800) * 100 / 1e10 + 200 * 100 / 1e9
    assert cost.copying == pytest.approx(copied + 500 * 100 * (1 / 3 / 1e8 + 2 / 3 / 1e7) + 1e-3)


def test_rows_of_a_host_that_holds_a_part_come_over_the_network(model, rates, independent, cooperative):
    whole, part = (
        model.cost(independent, rates, 8, ROW, features_on_each_machine=held).copying for held in (True, False)
    )
    # Of 4 machines, 3 hold what this one lacks.
    assert part - whole == pytest.approx(400 * 100 * 0.75 * (1 / 1e7 + 1 / 1e10))
    both = [model.cost(cooperative, rates, 8, ROW, features_on_each_machine=held) for held in (True, False)]
    assert both[0] == both[1]


def test_published_bandwidths_are_of_both_directions(bench, model):
    a100 = bench("published_cooperative").HARDWARE[0]
    rates = model.rates_of(a100, 1.0, 2.0, 3.0, 4)
    assert (rates.host, rates.peer, rates.gather) == (32e9, 300e9, 1e12)
    assert (rates.edges, rates.network, rates.latency, rates.ranks_a_machine) == (1.0, 2.0, 3.0, 4)


def test_published_totals_add_up(bench):
    """All but those of LABOR-0, whose total is with the copy of dependent batches."""
    for (_, sampler, _), times in bench("published_cooperative").RUN_TIMES.items():
        total = times.sampling + times.cached_copy + times.model
        if sampler == "NS":
            assert total == pytest.approx(times.total, abs=0.11)
        else:
            assert total > times.total


@pytest.mark.parametrize("mode", ["independent", "cooperative"])
def test_counts_do_not_depend_on_the_scale(bench, mode, monkeypatch):
    counted, chung_lu = bench("counted_work"), bench("chung_lu")
    monkeypatch.setattr(counted, "COUNTING", 48)  # batches of 32 seeds differ by a tenth from one to the next
    small, large = (
        counted.count(
            counted.Scaled(chung_lu.chung_lu_graph(nodes, 10.0, 0.6, seed=nodes), 160_000 / nodes, 1.0),
            "LABOR-0",
            mode,
            world_size=4,
            per_rank=256,
            capacity=8_000,
        )
        for nodes in (20_000, 40_000)
    )
    for name in ("edges", "rows", "missed", "wanted", "asked", "remote"):
        assert getattr(small, name) == pytest.approx(getattr(large, name), rel=0.06), name
    assert small.collectives == (9 if mode == "cooperative" else 0)


def test_caches_that_hold_everything_together_miss_nothing(bench):
    counted = bench("counted_work")
    scaled = counted.Scaled(bench("chung_lu").chung_lu_graph(2_000), 10.0, 0.5)
    together = counted.count(scaled, "NS", "cooperative", world_size=4, per_rank=100, capacity=5_000)
    alone = counted.count(scaled, "NS", "independent", world_size=4, per_rank=100, capacity=5_000)
    without = counted.count(scaled, "NS", "independent", world_size=4, per_rank=100, capacity=0)
    assert together.missed == 0
    assert 0 < alone.missed < alone.rows
    assert without.missed == without.rows


def test_the_projection_prints_writes_and_draws(bench, monkeypatch, tmp_path, capsys):
    projection = bench("projection")
    counts, records = tmp_path / "counts.json", tmp_path / "records.json"
    command = ["projection.py", "--nodes", "20000", "--ranks", "1", "16", "--rounds", "2", "--networks", "10"]
    monkeypatch.setattr("sys.argv", [*command, "--counts", str(counts), "--json", str(records)])
    projection.main()
    printed = capsys.readouterr().out
    assert "papers100M, machines of 8 A100, 10 Gb/s a GPU, 16 ranks" in printed
    assert "trillion edges, 16 ranks: left out" in printed
    found = bench("harness").read_json(records)
    published = {(r.case, r.system, r.metric): r.median for r in found if r.bench == "projection: published"}
    assert published["papers100M, 8 A100, LABOR-0", "cooperative, published", "cached copy"] == 7.1
    assert all(record.median >= 0 for record in found)
    first = json.loads(counts.read_text())
    # What was counted once is read.
    monkeypatch.setattr(projection, "count", None)
    projection.main()
    assert json.loads(counts.read_text()) == first
