"""Memory that caches may yet fill is not given twice."""

from __future__ import annotations

from headrace.ops.memory_promises import HOST, Promise, promised

#: A place of these tests' own: other promises of the process do not count there.
HERE = 1 << 20


def test_a_promise_lives_as_long_as_its_owner():
    first = Promise(100, lambda: 0, place=HERE)
    second = Promise(50, lambda: 0, place=HERE)
    assert promised(HERE) == (150, 150, 150)
    del first
    assert promised(HERE).num_bytes == 50
    del second
    assert promised(HERE) == (0, 0, 0)


def test_what_is_filled_or_allocated_is_counted_by_the_system():
    held = [30]
    filled = Promise(100, lambda: held[0], place=HERE)
    assert promised(HERE) == (100, 70, 70)
    held[0] = 130
    assert promised(HERE) == (100, 0, 0)
    allocated = Promise(40, lambda: 10, allocated=True, place=HERE)
    assert promised(HERE) == (140, 30, 0)
    assert filled.place == allocated.place != HOST
