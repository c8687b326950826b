"""Errors from background threads, and processes that end while workers sample."""

from __future__ import annotations

import os
import textwrap
import traceback
from pathlib import Path

import pytest

import headrace as hr

from copies import Process
from plans import items


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
    class Silent(hr.ext.MapStage):
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
    """Run a script in a process of its own; return its exit code and output."""
    script = (
        "import gc, os, sys, threading, time, torch, headrace as hr\nfrom plans import items, graph\n"
        + textwrap.dedent(body)
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = Process("import faulthandler; faulthandler.enable()\n" + script, environment=environment)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output + errors


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

        for _ in range(8):
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
            except hr.HeadraceError as error:
                print("refused:", error, flush=True)
            print(len(list(loader)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    assert code == 0, output
    assert "begun before a fork" in output
    assert "6" in output.split()
