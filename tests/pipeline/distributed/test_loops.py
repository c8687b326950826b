"""What a rank knows of the loops that others left: no more than it needs, also in a process that it forks."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from headrace.pipeline.distributed.leaving import Loops, MessageLog
from headrace.testing import LocalGroup


class LocalLog(MessageLog):
    """What all ranks of one process post."""

    def __init__(self, posts: list[tuple[int, str]], rank: int) -> None:
        self._posts = posts
        self._rank = rank
        self._num_read = 0

    def post(self, text: str) -> None:
        self._posts.append((self._rank, text))

    def read(self) -> list[tuple[int, str]]:
        new = self._posts[self._num_read :]
        self._num_read += len(new)
        return new


def test_loops_that_all_are_done_with_are_forgotten():
    posts: list[tuple[int, str]] = []
    ranks = [Loops(rank, LocalLog(posts, rank)) for rank in range(2)]
    for _ in range(50):
        for loader in range(2):
            for loops in ranks:
                loop = loops.begin(loader)
                loop.ask()
                loop.receive(0, 0)
                loop.leave()
    ranks[1].look()
    assert len(posts) > 100
    assert sum(map(len, ranks[1]._left.values())) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns of a fork beside threads
def test_a_forked_process_waits_for_no_lock_of_its_parent():
    loops = Loops(0, LocalLog([], 0))
    with loops._reading:  # as a thread may at any time
        child = os.fork()
        if child == 0:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(20)
                loops.look()
                os._exit(3)
            finally:
                os._exit(4)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3


def test_loops_begin_and_end_while_another_thread_goes_through_them():
    """As where a thread finds a rank gone while others begin to iterate."""
    (comm,) = LocalGroup(1).comms
    loops, over, errors = comm.loops, threading.Event(), []
    kept = [loops.begin(number) for number in range(300)]

    def go_through() -> None:
        try:
            while not over.is_set():
                loops.forget(0)
        except RuntimeError as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=go_through)
    try:
        thread.start()
        until = time.monotonic() + 0.5
        while time.monotonic() < until and not errors:
            loops.begin(0).finish(came_to_its_end=False)
            kept.append(loops.begin(0))
            del kept[0]
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(before)
    assert errors == []
    loops.break_off()
    assert not any(loop.is_running for loop in kept)
