"""The threads of loaders: which there are, and waiting until there are none."""

from __future__ import annotations

import gc
import threading

import pytest


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
