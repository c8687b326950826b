"""The changes that explain() shows."""

from __future__ import annotations

from headrace.pipeline.plan.explain import _difference


def test_changes_far_apart_are_shown_each_for_itself():
    before, after = ["a", "b", "c", "d", "e", "f"], ["a", "B", "c", "d", "e", "f", "g"]
    lines = [f"{sign}{line}" for sign, line in _difference(before, after)]
    assert lines == ["    a", "  - b", "  + B", "    c", "    ...", "    f", "  + g"]
