"""A rank that waits long in the model says for whom: another one may be in a collective of its own."""

from __future__ import annotations

import json

import pytest
from ranks import run_processes

pytestmark = pytest.mark.slow

SCRIPT = """
import json, sys, time, warnings, torch
import headrace as hr
from headrace.pipeline.distributed import job_comm
from plans import graph, items, store

job_comm.PATIENCE = 1.0
rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
torch.manual_seed(0)
net = torch.nn.Module()
net.layers = torch.nn.ModuleList([hr.nn.SAGEConv(8, 4)])
net.forward = lambda x, blocks: net.layers[0](x, blocks[0])
model = hr.cooperative(net)
warned = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    plan = items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    with plan.loader(cooperative=True) as loader:
        for batch in loader:
            if rank == 1 and batch.index == 1:
                time.sleep(3.0)
            model(batch, batch.x, batch.blocks).sum().backward()
            hr.sum_gradients(model)
print(json.dumps([str(one.message) for one in caught if "has waited" in str(one.message)]))
torch.distributed.destroy_process_group()
"""


def test_a_rank_that_waits_in_the_model_names_the_one_that_it_waits_for(tmp_path):
    first, second = (json.loads(one) for one in run_processes(SCRIPT, 2, tmp_path / "meeting"))
    assert second == []
    (said,) = first
    assert said.startswith("rank 0 has waited 1 seconds in an exchange")
    assert "for rank 1, and gives up after 1800 seconds; each rank has to call the model for each batch" in said
