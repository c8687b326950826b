"""expand_macros: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

from explained import names

import headrace as hr

from plans import PLANS, graph, items

ALONE = {"fuse_sampling": False, "prefetch": False}


def final_names(plan):
    return names(plan, hr.Machine(), **ALONE)


def test_fires_on_samplers():
    hop = ["sample_hop", "compact"]
    assert final_names(items().sample_neighbor(graph(), [3, 2])) == ["item_sampler", *hop * 2]
    assert final_names(items().sample_pinsage(graph(), 2, 3, 2)) == ["item_sampler", "walk_hop", "compact"]


def test_fires_on_macros_of_users():
    class Twice(hr.ext.MacroStage):
        name = "twice"

        def parts(self):
            return items().transform(abs).transform(abs).stages[1:]

    assert final_names(items().then(Twice())) == ["item_sampler", "transform", "transform"]


def test_refuses_what_stands_for_itself():
    assert final_names(PLANS["saint_node"]()) == ["item_sampler", "sample_saint", "fetch_feature"]
