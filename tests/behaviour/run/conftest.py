"""Every test of running loaders leaves no thread behind."""

from __future__ import annotations

import pytest

from workers import wait_for_workers_to_end


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    wait_for_workers_to_end()
