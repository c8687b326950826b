"""Programs that are interrupted, and those whose workers are stuck where nothing reaches them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

import torch

from headrace.pipeline.run import shutdown

from exits.program import OF_INTERRUPT, ends_with, midway, plan, with_tensors


def interrupt_soon(when=lambda: True):
    """Send this process what Ctrl-C does, half a second after something has come true."""

    def interrupt():
        while not when():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


STUCK = threading.Event()


def never(batch):
    if batch.index == 1:
        STUCK.set()
        threading.Event().wait()
    return with_tensors(batch)


@ends_with(OF_INTERRUPT)
def an_interrupt():
    for _ in midway(plan().loader()):
        if _.index == 2:
            interrupt_soon()
            time.sleep(5.0)


def interrupted_while_stuck(loader):
    """The first Ctrl-C is seen, and at once, though a transform does not return."""
    shutdown.PATIENCE = 1.0
    sent = []
    interrupt_soon(when=lambda: STUCK.is_set() and (sent.append(time.monotonic()) or True))
    try:
        for _ in loader:
            pass
    finally:
        if time.monotonic() - sent[0] > 10.0:
            os._exit(7)


@ends_with(OF_INTERRUPT)
def an_interrupt_while_a_transform_is_stuck():
    interrupted_while_stuck(plan(never).loader())


@ends_with(OF_INTERRUPT)
def an_interrupt_where_a_stuck_loader_is_closed():
    with plan(never).loader() as loader:
        interrupted_while_stuck(loader)


@ends_with(OF_INTERRUPT)
def an_interrupt_of_close():
    shutdown.PATIENCE = 1.0
    loader = plan(never).loader()
    iterator = iter(loader)
    next(iterator)
    interrupt_soon(when=STUCK.is_set)
    loader.close()


@ends_with(1)
def an_exception_where_a_stuck_loader_is_closed():
    shutdown.PATIENCE = 1.0
    with plan(never).loader() as loader:
        for _ in loader:
            raise ValueError("expected")


def leave_stuck(transform):
    shutdown.PATIENCE = 0.5
    shutdown.GRACE = 0.5
    next(iter(plan(transform).loader()))
    time.sleep(0.5)
    sys.exit(4)


@ends_with(4)
def stuck_in_a_lock():
    leave_stuck(never)


@ends_with(4)
def stuck_in_python():
    def runs(batch):
        while batch.index == 1:
            print("still here")
        return with_tensors(batch)

    leave_stuck(runs)


@ends_with(4)
def stuck_in_torch():
    """In one operation, longer than anybody waits; it may come back at any time."""
    matrix = torch.ones(300, 300)

    def multiplies(batch):
        while batch.index == 1:
            with contextlib.suppress(SystemExit):
                while True:
                    matrix @ matrix
        return with_tensors(batch)

    leave_stuck(multiplies)


@ends_with(OF_INTERRUPT)
def an_interrupt_and_another_as_python_ends():
    """Nobody has to wait for the threads that are stuck."""
    shutdown.PATIENCE = 1000.0
    interrupt_soon(when=STUCK.is_set)
    interrupt_soon(when=lambda: shutdown._WORKERS._ended)
    for _ in plan(never).loader():
        pass
