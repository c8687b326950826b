"""fuse_sampling: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

from dataclasses import fields

import pytest
from explained import names, stages

import headrace as hr

from plans import PLANS

SAMPLERS = [
    "neighbor",
    "neighbor_new",
    "neighbor_replace",
    "full",
    "labor",
    "labor_poisson",
    "labor_dependent",
    "labor_1",
    "labor_star_new",
    "ladies",
    "weighted_pladies",
    "in_subgraph_new",
    "pairs",
]


@pytest.mark.parametrize("name", SAMPLERS)
def test_fires_on_every_sampler(name):
    found = names(PLANS[name]())
    assert found.count("sample_fused") == 1
    assert not {"sample_hop", "compact"} & {*found}


def test_keeps_what_keys_the_randomness():
    (fused,) = (stage for stage in stages(PLANS["labor_dependent"]().explain(machine=hr.Machine())) if "fused" in stage)
    assert "[LaborRule(5), LaborRule(3), LaborRule(2)], key_layers=[0, 0, 0]" in fused


@pytest.mark.parametrize("name", SAMPLERS)
def test_blocks_have_all_fields_and_pass_the_checks_that_they_are_made_without(name):
    for batch in PLANS[name]().loader():
        for block in batch.blocks:
            made = {field.name: getattr(block, field.name) for field in fields(hr.Block)}
            # Marks are no fields: of blocks of our own, and of sizes in a process that has compiled a model.
            assert {name: one for name, one in vars(block).items() if not name.startswith("_")} == made
            hr.Block(**made)


def test_is_switched_off():
    found = names(PLANS["neighbor"](), fuse_sampling=False)
    assert "sample_fused" not in found
    assert found.count("sample_hop") == 2


@pytest.mark.parametrize("name", SAMPLERS)
def test_same_result(name):
    fused, apart = PLANS[name]().loader(), PLANS[name]().loader(fuse_sampling=False)
    for left, right in zip(fused, apart, strict=True):
        assert left.digest() == right.digest()
