"""Blocks that stages of users make fit the batch, or are refused by name at their batch."""

from __future__ import annotations

import pytest
import torch
from own_hops import OF_HOP, ByNode, Plants, ring

import headrace as hr
from headrace import ext

STORE = hr.FeatureStore(node={"x": torch.arange(100.0)[:, None]})


def stage(change, **members):
    def run(batch):
        return change(ByNode(ring()).runner(None)(batch)[0]), {}

    members = {"name": "own", "writes": OF_HOP | {"seed_index", "seeds"}, "num_hops": 1, **members}
    return type("Own", (ext.MapStage,), {**members, "runner": lambda self, settings: run})()


def load(own, *, fetches=True, seeds=(7, 3, 3, 12)):
    plan = hr.ItemSampler(list(seeds), batch_size=4, seed=1).then(own)
    return list((plan.fetch_feature(STORE, node=["x"]) if fetches else plan).loader())


def block_with(**changes):
    def change(batch):
        (old,) = batch.blocks
        arrays = {"indptr": old.indptr, "indices": old.indices, "num_src": old.num_src, "num_dst": old.num_dst}
        made = {name: of(arrays[name]) for name, of in changes.items()}
        return batch.replace(blocks=(hr.Block(**(arrays | made)),))

    return change


WRONG = {
    "a source that is none": (
        block_with(indices=lambda old: old + 1),
        "blocks whose indices are sources, from 0 to 5, got 4 to 6",
    ),
    "a negative one": (block_with(indices=lambda old: old - 4), "blocks whose indices are sources, .* got -1 to 1"),
    "fewer edges": (
        block_with(indices=lambda old: old[:2]),
        "blocks whose indptr goes up from 0 to the number of edges, 2, got",
    ),
    "no order": (block_with(indptr=lambda old: old[[0, 2, 1, 3]]), "blocks whose indptr goes up from 0 to"),
    "other nodes": (
        lambda batch: batch.replace(n_id=batch.n_id[:-1]),
        r"blocks\[0\] with a source for each of the 5 n_id, got Block\(6 -> 3 nodes, 3 edges\)",
    ),
    "no block": (lambda batch: batch.replace(blocks=("edges",)), r"blocks that are all hr.Block, got str"),
    "a gap": (
        lambda batch: batch.replace(blocks=batch.blocks * 2),
        r"blocks\[1\] with the 3 destinations of blocks\[0\] as its sources, got Block\(6 -> 3",
    ),
    "seeds that are not there": (
        lambda batch: batch.replace(n_id=batch.n_id.flip(0)),
        r"n_id with the seeds at seed_index, got others; seeds come first in n_id",
    ),
    "seeds behind": (
        lambda batch: batch.replace(n_id=batch.n_id.flip(0), seed_index=5 - batch.seed_index),
        r"seeds that are destinations of blocks\[-1\], so that seed_index is below 3, got 5",
    ),
    "another shape": (
        lambda batch: batch.replace(seed_index=batch.seed_index[:2]),
        r"seed_index of int64, of the shape of seeds, got int64\[2\]",
    ),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("fetches", [True, False])
def test_blocks_that_do_not_fit_are_refused(what, fetches):
    change, match = WRONG[what]
    with pytest.raises(hr.PlanError, match=f"expected Own to return {match}") as caught:
        load(stage(change), fetches=fetches)
    assert any("in stage own, batch 0 of epoch 0" in note for note in caught.value.__notes__)


FITTING = {
    "as made": lambda batch: batch,
    "without edges": block_with(indptr=lambda old: old * 0, indices=lambda old: old[:0]),
    "a list": lambda batch: batch.replace(blocks=[*batch.blocks]),
    "a copy": lambda batch: batch.to("cpu"),
    "no blocks": lambda batch: batch.replace(blocks=()),
    "not of seeds": lambda batch: batch.replace(y=batch.seeds),
}


@pytest.mark.parametrize("what", FITTING)
def test_blocks_that_fit_are_taken(what):
    assert load(stage(FITTING[what]))


def test_trees_repeat_seeds():
    own = hr.ItemSampler([7, 3, 3], batch_size=3).then(Plants()).fetch_feature(STORE, node=["x"])
    assert next(iter(own.loader())).x[:, 0].tolist() == [7, 3, 3]


def test_the_last_stage_that_declares_no_hops_may_return_what_it_likes():
    own = stage(WRONG["other nodes"][0], num_hops=0)
    assert load(own, fetches=False)
    with pytest.raises(hr.PlanError, match="a source for each of the 5 n_id"):
        load(own)
