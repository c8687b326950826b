"""What passes make is still the user's stage: by its name stages count, fail and are drawn."""

from __future__ import annotations

import traceback

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, graph, items


class BrokenRows:
    """A feature source that fails when a batch is made."""

    num_rows, row_bytes, dtype, shape = NUM_NODES, 4, torch.float32, (NUM_NODES, 1)

    def read(self, ids, *, num_threads=1, to=None):
        raise OSError("the disk is gone")

    def content_digest(self):
        return "broken"


def test_an_error_names_the_users_stage_and_the_one_that_ran():
    plan = items().sample_neighbor(graph(), [2]).fetch_feature(hr.FeatureStore(node={"x": BrokenRows()}), node=["x"])

    def notes(comm):
        with pytest.raises((OSError, hr.PeerError)) as caught, plan.loader(comm=comm, cooperative=True) as loader:
            next(iter(loader))
        return "".join(traceback.format_exception(caught.value))

    assert all("in stage fetch_feature (fetch_owned), batch 0 of epoch 0" in text for text in run_ranks(2, notes))


def test_a_pass_that_refuses_names_the_users_stage():
    plan = items().sample_neighbor(graph(), [2], expand="new")
    with pytest.raises(hr.PlanError, match=r"^cooperative: what sample_neighbor finds"):
        plan.explain(machine=hr.Machine(world_size=2), cooperative=True)
