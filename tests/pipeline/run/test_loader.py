"""The loader: epochs, breaks, errors from background threads, threads that end, counters."""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref
from pathlib import Path
from types import ModuleType

import pytest
import torch

import headrace as hr
from headrace.pipeline.storage.terminal import shows_bars

from contracts import digests
from plans import PLANS, graph, items, store


def worker_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("headrace-")]


def wait_for_workers_to_end():
    if not worker_threads():
        return
    # An iteration that is collected tells its workers to end and does not wait for them.
    gc.collect()
    for thread in worker_threads():
        thread.join(timeout=60)
    assert worker_threads() == []


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    wait_for_workers_to_end()


def test_an_epoch_has_every_item_once_and_len_tells_the_batches():
    loader = items().loader()
    batches = list(loader)
    assert len(batches) == len(loader) == 6
    assert sorted(torch.cat([batch.seeds for batch in batches]).tolist()) == list(range(0, 200, 2))
    assert [batch.index for batch in batches] == list(range(6))


def test_epochs_differ_and_set_epoch_seeks():
    loader = items().loader()
    first = [batch.digest() for batch in loader]
    second = [batch.digest() for batch in loader]
    assert set(first).isdisjoint(second)
    loader.set_epoch(0)
    assert [batch.digest() for batch in loader] == first
    assert loader.epoch == 1


def test_every_epoch_has_an_order_of_its_own():
    """The seeds themselves: digests of batches differ by the number of the epoch alone."""
    loader = items().loader()
    orders = [tuple(torch.cat([batch.seeds for batch in loader]).tolist()) for _ in range(5)]
    assert len(set(orders)) == 5
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(0, 200, 2))}
    # Not one order that begins elsewhere either: of 100 items, those behind each other differ.
    behind = [dict(itertools.pairwise(order)) for order in orders]
    for number, one in enumerate(behind):
        for other in behind[:number]:
            assert sum(other.get(item) == one[item] for item in one) < 20


@pytest.mark.parametrize("sampler", ["sample_neighbor", "sample_layer_neighbor"])
def test_every_epoch_and_every_batch_has_picks_of_its_own(sampler):
    """The same seeds in every batch of every epoch."""
    plan = getattr(hr.ItemSampler(torch.arange(50).repeat(3), batch_size=50, seed=3), sampler)(graph(), [3, 2])
    loader = plan.loader()
    picks = [tuple(batch.e_id.tolist()) for _ in loader.epochs(3) for batch in loader]
    assert len(picks) == len(set(picks)) == 9


def test_an_iteration_after_a_break_is_the_next_epoch():
    loader = items().loader()
    for batch in loader:
        assert batch.epoch == 0
        break
    assert {batch.epoch for batch in loader} == {1}


def test_epochs_yields_what_is_left():
    loader = items().loader()
    seen = []
    for epoch in loader.epochs(3):
        for batch in loader:
            assert batch.epoch == epoch
            if epoch == 1:
                break
        seen.append(epoch)
    assert seen == [0, 1, 2]
    with pytest.warns(UserWarning, match=r"next epoch is 3, so nothing is left; call loader\.set_epoch\(0\)"):
        assert list(loader.epochs(3)) == []
    loader.set_epoch(0)
    assert list(loader.epochs(3)) == [0, 1, 2]
    done = items().loader()
    done.load_state_dict(loader.state_dict() | {"epoch": 3})
    assert list(done.epochs(3)) == []  # a run that had come to its end when it was resumed


def test_epochs_without_iterating_ends():
    assert list(items().loader().epochs(3)) == [0, 1, 2]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_abandoned_at_any_batch(workers):
    plan = items().sample_neighbor(graph(), [3]).prefetch(workers=workers)
    loader = plan.loader()
    for stop in range(len(loader) + 1):
        for batch in loader:
            if batch.index == stop:
                break
        wait_for_workers_to_end()


def test_a_dropped_loader_leaves_no_thread():
    iterator = iter(items().sample_neighbor(graph(), [3]).prefetch(workers=2).loader())
    next(iterator)
    assert len(worker_threads()) == 2
    del iterator
    wait_for_workers_to_end()


def test_a_dropped_loader_leaves_no_batch():
    """Nor does what waits for its threads at the end of the program."""
    made = []

    def remember(batch):
        made.append(weakref.ref(batch))
        return batch

    iterator = iter(items(batch_size=5).transform(remember).prefetch(workers=2, depth=3).loader())
    next(iterator)
    del iterator
    wait_for_workers_to_end()
    gc.collect()
    assert len(made) > 0
    assert [batch() for batch in made if batch() is not None] == []


def test_with_closes():
    with items().sample_neighbor(graph(), [3]).prefetch(workers=2).loader() as loader:
        iterator = iter(loader)
        next(iterator)
    assert worker_threads() == []
    with pytest.raises(hr.LoaderError, match="one iteration at a time"):
        next(iterator)
    assert len(list(loader)) == 6


def test_two_iterations_at_once_are_refused():
    loader = items().loader()
    outer = iter(loader)
    next(outer)
    inner = iter(loader)
    assert next(inner).epoch == 1
    with pytest.raises(hr.LoaderError, match="second loader"):
        next(outer)
    with pytest.raises(hr.LoaderError, match="second loader"):
        list(zip(loader, loader, strict=True))


def test_two_loaders_of_one_plan_run_side_by_side():
    plan = PLANS["neighbor"]()
    left, right = plan.loader(), plan.loader()
    for one, other in zip(left, right, strict=True):
        assert one.digest() == other.digest()


class BrokenError(Exception):
    pass


def fails_at_batch_three(batch):
    if batch.index == 3:
        raise BrokenError("the reader's disk is gone")
    return batch


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_error_surfaces_in_order_with_its_traceback(workers):
    loader = items().transform(fails_at_batch_three).prefetch(workers=workers).loader()
    seen = []
    with pytest.raises(BrokenError) as caught:
        seen.extend(batch.index for batch in loader)
    assert seen == [0, 1, 2]
    text = "".join(traceback.format_exception(caught.value))
    assert "fails_at_batch_three" in text
    assert "in stage transform, batch 3 of epoch 0" in text
    # The loader is still good, and its state points at the batch that failed.
    state = loader.state_dict()
    assert state["source"] == {"batch": 3}
    assert next(iter(loader)).epoch == 1


def test_a_runner_that_returns_no_counts_is_told_what_to_return():
    class Silent(hr.MapStage):
        name = "silent"

        def runner(self, settings):
            return lambda batch: batch

    loader = items().then(Silent()).loader(prefetch=False)
    with pytest.raises(hr.PlanError, match=r"a batch and what it counted, got MiniBatch; return batch, \{\}") as caught:
        next(iter(loader))
    assert "in stage silent, batch 0" in caught.value.__notes__[0]


def test_after_an_error_the_iteration_is_over():
    iterator = iter(items().transform(fails_at_batch_three).prefetch(workers=2).loader())
    with pytest.raises(BrokenError):
        list(iterator)
    assert list(iterator) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stop_iteration_of_the_user_does_not_end_the_epoch(workers):
    def stops(batch):
        return next(iter([])) if batch.index == 3 else batch

    seen = []
    with pytest.raises(RuntimeError, match="transform raised StopIteration at batch 3 of epoch 0"):
        seen.extend(batch.index for batch in items().transform(stops).prefetch(workers=workers).loader())
    assert seen in ([], [0, 1, 2])


def test_an_iteration_that_yields_nothing_loses_no_place():
    loader = items().loader()
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.load_state_dict(state)
    iter(loader)
    batch = next(iter(loader))
    assert (batch.epoch, batch.index) == (0, 1)


def run_script(body):
    """Run a script in a fresh process; return its exit code and output."""
    script = (
        "import gc, os, sys, threading, time, torch, headrace as hr\nfrom plans import items, graph\n"
        + textwrap.dedent(body)
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    return result.returncode, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
def test_python_ends_in_peace_while_workers_sample(attempt):
    code, output = run_script(
        """
        src, dst = torch.randint(0, 50_000, (2, 500_000))
        big = hr.Graph.from_coo(src, dst, num_nodes=50_000)
        plan = hr.ItemSampler(50_000, batch_size=20_000).sample_neighbor(big, [10, 10])
        iterator = iter(plan.prefetch(workers=2, depth=4).loader())
        next(iterator)
        """
    )
    assert code == 0, output


@pytest.mark.slow
def test_collecting_an_iteration_inside_its_own_worker_does_not_hang():
    code, output = run_script(
        """
        class Holder:
            pass

        def collect(batch):
            gc.collect()
            return batch

        for _ in range(30):
            holder = Holder()
            holder.me = holder
            holder.iterator = iter(items(batch_size=2).transform(collect).prefetch(workers=3, depth=6).loader())
            next(holder.iterator)
            del holder
        # A worker may be collecting at this moment, and then collect() returns at once without having done anything.
        while any(thread.name.startswith("headrace-") for thread in threading.enumerate()):
            gc.collect()
            time.sleep(0.01)
        print("done")
        """
    )
    assert code == 0, output
    assert "done" in output


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_an_iteration_taken_through_a_fork_is_refused():
    code, output = run_script(
        """
        import warnings
        warnings.simplefilter("ignore")
        loader = items().sample_neighbor(graph(), [2]).prefetch(workers=1).loader()
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            try:
                next(iterator)
            except hr.LoaderError as error:
                print("refused:", error, flush=True)
            print(len(list(loader)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    assert code == 0, output
    assert "begun before a fork" in output
    assert "6" in output.split()


def test_prefetch_holds_no_more_than_its_depth():
    alive = threading.Semaphore(0)
    made = []

    def remember(batch):
        made.append(batch.index)
        alive.release()
        return batch

    iterator = iter(items(batch_size=5).transform(remember).prefetch(workers=2, depth=3).loader())
    next(iterator)
    for _ in range(4):
        alive.acquire()
    # One was handed out, so three more may be made or waiting; a fifth would need another request.
    assert not alive.acquire(timeout=0.2)
    assert sorted(made) == [0, 1, 2, 3]


def test_a_transform_must_return_a_batch():
    with pytest.raises(hr.PlanError, match="must return a MiniBatch"):
        list(items().transform(lambda batch: None).loader())


def test_stats_count_what_was_handed_out():
    loader = PLANS["neighbor"]().loader()
    nodes = edges = 0
    for batch in loader:
        nodes += len(batch.n_id)
        edges += sum(batch.num_sampled_edges)
        if batch.index == 2:
            break
    stats = loader.stats()
    assert stats["item_sampler"]["seeds"] == 51
    assert stats["sample_fused"]["edges"] == edges
    assert stats["fetch_feature"]["rows"] == nodes + 51
    assert stats["fetch_feature"]["bytes"] == nodes * 8 * 4 + 51 * 8
    assert stats["fetch_feature"]["batches"] == 3
    assert "sample_fused" in str(stats)


def test_stats_count_the_rows_of_edges():
    loader = PLANS["full"]().loader()
    batches = list(loader)
    nodes = sum(len(batch.n_id) for batch in batches)
    edges = sum(len(rows) for batch in batches for rows in batch.edge["e"])
    assert edges == sum(sum(batch.num_sampled_edges) for batch in batches) > 0
    counted = loader.stats()["fetch_feature"]
    assert counted["rows"] == nodes + edges
    assert counted["bytes"] == nodes * 8 * 4 + edges * 3 * 4


def test_stats_count_each_hop_once():
    """A stage counts what it adds to a batch, not what was there."""
    loader = PLANS["neighbor"]().loader(fuse_sampling=False)
    batches = list(loader)
    stats = loader.stats()
    for hop, name in enumerate(["compact", "compact#2"]):
        assert stats[name]["edges"] == sum(batch.num_sampled_edges[hop] for batch in batches)
        assert stats[name]["vertices"] == sum(batch.num_sampled_nodes[hop + 1] for batch in batches)


def test_stats_are_those_of_the_moment():
    loader = PLANS["neighbor"]().loader()
    batches = iter(loader)
    next(batches)
    first = loader.stats()
    shown = str(first)
    next(batches)
    assert first["item_sampler"]["batches"] == 1
    assert str(first) == shown
    # Nor does what a user does to them change what the loader counts.
    second = loader.stats()
    second.stages["item_sampler"]["batches"] = 99
    second.stages.clear()
    assert loader.stats()["item_sampler"]["batches"] == 2


def test_profile_is_a_timeline(tmp_path):
    loader = PLANS["neighbor"]().loader()
    batches = len(list(loader))
    loader.profile(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == 3 * batches
    assert {event["name"] for event in events} == {"item_sampler", "sample_fused", "fetch_feature"}
    assert all(event["dur"] >= 0 and event["args"]["epoch"] == 0 for event in events)


def test_progress_bar_shows_the_epoch(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(items().loader(progress=True))
    assert "epoch 0" in capsys.readouterr().err


def test_no_progress_bar_without_a_terminal(capsys, monkeypatch):
    """A log file would be filled with a line for each step of the bar."""
    list(items().loader(progress=True))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)  # a program without a console
    assert len(list(items().loader(progress=True))) == 6


def test_a_notebook_shows_progress_bars(monkeypatch):
    assert not shows_bars()
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert shows_bars()


def test_shares_of_ranks_make_up_the_batch():
    plan = hr.ItemSampler(torch.arange(100), batch_size=32, shuffle=True)
    whole = list(plan.loader())
    for world_size in (1, 2, 3, 8, 40):
        ranks = [list(plan.loader(rank=rank, world_size=world_size)) for rank in range(world_size)]
        assert {len(batches) for batches in ranks} == {4}
        for index, batch in enumerate(whole):
            assert torch.equal(torch.cat([batches[index].seeds for batches in ranks]), batch.seeds)
            assert all(batches[index].num_global_seeds == len(batch.seeds) for batches in ranks)


def test_an_empty_share_is_a_batch_like_any_other():
    plan = (
        hr.ItemSampler(3, batch_size=2).sample_neighbor(graph(), [2, 2]).fetch_feature(store(), node=["x"], labels="y")
    )
    last = list(plan.loader(rank=0, world_size=2))[-1]
    assert last.seeds.numel() == 0
    assert [block.num_dst for block in last.blocks] == [0, 0]
    assert last.x.shape == (0, 8)
    assert last.y.shape == (0,)


def test_a_rank_samples_what_one_process_samples():
    plan = PLANS["neighbor"]()
    whole = next(iter(plan.loader()))
    edges = set(whole.e_id.tolist())
    shares = [next(iter(plan.loader(rank=rank, world_size=3))) for rank in range(3)]
    assert {edge for share in shares for edge in share.blocks[-1].edge_ids.tolist()} == set(
        whole.blocks[-1].edge_ids.tolist()
    )
    assert {edge for share in shares for edge in share.e_id.tolist()} == edges


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rank": 1}, "together"),
        ({"rank": 2, "world_size": 2}, "rank must be"),
        ({"num_threads": 0}, "num_threads"),
        ({"fuse": False}, "fuse_exchange, fuse_sampling, prefetch"),
        ({"expand_macros": False}, "fuse_exchange, fuse_sampling, prefetch"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(hr.HeadraceError, match=match):
        items().loader(**arguments)


def test_bad_epochs():
    with pytest.raises(hr.LoaderError, match="-1"):
        items().loader().set_epoch(-1)


def test_many_epochs_do_not_grow():
    loader = PLANS["neighbor"]().loader()
    for epoch in range(5):
        assert loader.epoch == epoch
        digests(loader, epoch + 1)
