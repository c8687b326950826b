"""prefetch: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

import headrace as hr
from headrace.pipeline.machine import Machine
from headrace.pipeline.plan import stages_of
from headrace.pipeline.rewriting import rewrite

from plans import PLANS, graph, items

TWO_CORES = Machine(cores=2)


def final_verbs(plan, machine=TWO_CORES, **switches):
    return [stage.verb for stage in stages_of(rewrite(plan, machine, switches).final)]


def test_fires_at_the_end():
    assert final_verbs(PLANS["neighbor"]())[-1] == "prefetch"


def test_stands_before_the_copy_to_a_device():
    assert final_verbs(PLANS["neighbor"]().copy_to("cuda"))[-2:] == ["prefetch", "copy_to"]


def test_stands_before_the_first_copy_whatever_follows():
    verbs = final_verbs(PLANS["neighbor"]().copy_to("cuda").transform(abs))
    assert verbs[-3:] == ["prefetch", "copy_to", "transform"]


def test_refuses_where_the_user_placed_one():
    plan = items().sample_neighbor(graph(), [2]).prefetch(workers=0).transform(abs)
    assert final_verbs(plan).count("prefetch") == 1


def test_refuses_on_one_core():
    assert "prefetch" not in final_verbs(PLANS["neighbor"](), Machine(cores=1))


def test_refuses_where_there_is_nothing_to_do_ahead():
    assert "prefetch" not in final_verbs(items())
    assert "prefetch" not in final_verbs(items().copy_to("cuda"))


def test_is_switched_off():
    assert "prefetch" not in final_verbs(PLANS["neighbor"](), prefetch=False)


def test_same_result():
    ahead = PLANS["neighbor"]().loader(machine=TWO_CORES)
    inline = PLANS["neighbor"]().loader(machine=TWO_CORES, prefetch=False)
    for left, right in zip(ahead, inline, strict=True):
        assert left.digest() == right.digest()


def test_a_source_alone_still_runs():
    assert len(list(hr.ItemSampler(5, batch_size=2).loader(machine=TWO_CORES))) == 3
