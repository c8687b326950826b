"""Programs that leave an iteration midway, one a process: ``python tests/exits/scenarios.py NAME``.

Their batches hold many tensors of torch's own: to free one lets another thread run, which is when Python may end.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

#: What is called behind the shutdown, as this is registered before headrace is imported.
AT_THE_VERY_END = []
atexit.register(lambda: [function() for function in AT_THE_VERY_END])

sys.path.append(str(Path(__file__).parents[1]))  # of a program started by its path

import headrace as hr  # noqa: E402

import exits.stuck  # noqa: E402, F401 - it enters programs into the table
from exits.program import (  # noqa: E402
    SCENARIOS,
    ends_with,
    leave_by_break,
    midway,
    plan,
    sampled,
    wait_until_full,
    with_tensors,
)


@ends_with(0)
def break_in_a_function():
    for step, _ in enumerate(plan().loader()):
        if step == 2:
            wait_until_full()
            break


@ends_with(0)
def break_with_one_worker():
    leave_by_break(plan(workers=1, depth=2).loader())


@ends_with(0)
def break_with_large_features():
    store = hr.FeatureStore(node={"x": torch.ones(2000, 4096)})
    leave_by_break(sampled().fetch_feature(store, node=["x"]).prefetch(workers=2, depth=8).loader())


@ends_with(0)
def break_with_two_prefetches():
    leave_by_break(plan(workers=1).transform(with_tensors).prefetch(workers=2, depth=4).loader())


@ends_with(0)
def break_in_several_loaders():
    loaders = [iter(plan().loader()) for _ in range(4)]
    for loader in loaders:
        next(loader)
    wait_until_full()


@ends_with(0)
def break_at_once():
    next(iter(plan().loader()))


@ends_with(3)
def sys_exit():
    for _ in midway(plan().loader()):
        if _.index == 2:
            sys.exit(3)


@ends_with(3)
def sys_exit_where_the_loader_is_closed():
    with plan().loader() as loader:
        for _ in midway(loader):
            if _.index == 2:
                sys.exit(3)


@ends_with(1)
def an_exception():
    for batch in midway(plan().loader()):
        if batch.index == 2:
            raise ValueError("expected")


@ends_with(1)
def an_exception_in_a_worker():
    def fails(batch):
        if batch.index == 2:
            raise ValueError("expected")
        return with_tensors(batch)

    for _ in plan(fails).loader():
        pass


@ends_with(0)
def a_loader_deleted_in_a_thread():
    loader = plan().loader()
    iterator = iter(loader)
    next(iterator)
    wait_until_full()
    held = [loader, iterator]
    del loader, iterator
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()


@ends_with(0)
def a_loader_deleted_in_a_cycle():
    loader = plan().loader()
    held = {"iterator": iter(loader), "loader": loader}
    held["self"] = held
    next(held["iterator"])
    wait_until_full()
    del held, loader
    gc.collect()


@ends_with(0)
def a_loader_deleted_by_its_worker():
    held = {}
    is_held, deleted = threading.Event(), threading.Event()

    def deletes(batch):
        if batch.index == 5:
            is_held.wait()  # workers are ahead of the loop
            held.clear()
            gc.collect()
            deleted.set()
        return with_tensors(batch)

    iterator = iter(plan(deletes).loader())
    next(iterator)
    held["iterator"] = iterator
    del iterator
    is_held.set()
    deleted.wait()


@ends_with(0)
def a_loader_closed_by_a_destructor_in_its_worker():
    closed = threading.Event()

    class Closes:
        def __init__(self, loader):
            self.loader = loader

        def __del__(self):
            self.loader.close()
            closed.set()

    held = {}
    is_held = threading.Event()

    def deletes(batch):
        if batch.index == 5:
            is_held.wait()  # workers are ahead of the loop
            held.clear()
        return with_tensors(batch)

    loader = plan(deletes).loader()
    iterator = iter(loader)
    next(iterator)
    held["closes"] = Closes(loader)
    is_held.set()
    next(iterator)
    closed.wait()


@ends_with(0)
def a_generator_left_midway():
    def batches():
        with plan().loader() as loader:
            yield from midway(loader)

    for batch in batches():
        if batch.index == 2:
            break


@ends_with(0)
def a_generator_kept_by_the_module():
    globals()["kept"] = midway(plan().loader())
    next(globals()["kept"])
    wait_until_full()


@ends_with(0)
def a_loop_in_a_thread_that_goes_on():
    """Python waits for such a thread, so its loop has its batches to the end."""
    seen = []

    def train():
        for batch in plan(depth=2).loader():
            seen.append(batch.index)
            time.sleep(0.002)

    threading.Thread(target=train).start()
    atexit.register(lambda: os._exit(7) if seen != list(range(125)) else None)


@ends_with(0)
def a_loop_in_a_daemon_thread():
    begun = threading.Event()

    def train():
        for _ in plan().loader():
            begun.set()
            while True:
                time.sleep(0.1)

    threading.Thread(target=train, daemon=True).start()
    begun.wait()
    time.sleep(0.3)


@ends_with(0)
def an_iteration_that_begins_too_late():
    """It is refused."""

    def begin():
        with contextlib.suppress(hr.HeadraceError):
            next(iter(plan().loader()))
            os._exit(7)

    AT_THE_VERY_END.append(begin)


@ends_with(0)
def a_forked_process():
    iterator = iter(plan().loader())
    next(iterator)
    child = os.fork()
    if child == 0:
        leave_by_break(plan().loader())
        sys.exit(6)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6


class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        for batch in plan(workers=1).loader(num_threads=1):
            yield batch.seeds


@ends_with(0)
def workers_of_a_data_loader():
    for _ in torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=2, multiprocessing_context="fork"):
        break


if __name__ == "__main__":
    # Shells have what they start in the background ignore it, and what that starts inherits this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    SCENARIOS[sys.argv[1]][0]()
