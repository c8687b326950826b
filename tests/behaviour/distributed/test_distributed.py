"""Rank and world size come from torch.distributed when it is initialised; the shares of the ranks make up the batch."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from ranks import cooperative_batches, run_processes

from copies import TORCH
from plans import graph, items, store

# Its processes have limits of their own, of which a test may need several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = """
import json, sys, torch
from plans import PLANS
rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
loader = PLANS["neighbor"]().loader()
json.dump([[batch.seeds.tolist(), batch.num_global_seeds] for batch in loader], sys.stdout)
torch.distributed.destroy_process_group()
"""


def test_ranks_of_a_process_group(tmp_path):
    shares = [json.loads(text) for text in run_processes(SCRIPT, 2, tmp_path / "meeting")]
    whole = list(items().loader())
    assert len(shares[0]) == len(shares[1]) == len(whole)
    for batch, first, second in zip(whole, *shares, strict=True):
        assert torch.equal(torch.tensor(first[0] + second[0]), batch.seeds)
        assert first[1] == second[1] == len(batch.seeds)


DDP = """
import json, sys, torch
import headrace as hr
from copies import TORCH
from plans import graph, items, store
from torch import nn

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)

class Layer(nn.Linear):
    def forward(self, h, block):
        sources, targets = block.edge_index
        out = super().forward(h)
        return out[: block.num_dst] + torch.zeros_like(out[: block.num_dst]).index_add(0, targets, out[sources])

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(8, 8), Layer(8, 5)])

    def forward(self, h, blocks):
        first, last = self.layers
        return last(torch.tanh(first(h, blocks[0])), blocks[1])

plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], labels="y")
gradients = {}
for kind in ("alone", "sum_gradients", "ddp"):
    torch.manual_seed(0)
    model = hr.cooperative(Network())
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
        model.register_comm_hook(None, hr.sum_hook)
    where = {"rank": 0, "world_size": 1} if kind == "alone" else {"cooperative": True}
    with plan.loader(**where) as loader:
        for batch in loader:
            out = model(batch, batch.x, batch.blocks)[batch.seed_index]
            loss = nn.functional.cross_entropy(out, batch.y, reduction="sum") / batch.num_global_seeds
            loss.backward()
            if kind == "sum_gradients":
                hr.sum_gradients(model)
            break
    gradients[kind] = [one.grad.reshape(-1).tolist() for one in model.parameters()]
json.dump(gradients, sys.stdout)
torch.distributed.destroy_process_group()
"""


def test_distributed_data_parallel_adds_up_gradients(tmp_path):
    for text in run_processes(DDP, 2, tmp_path / "meeting"):
        gradients = json.loads(text)
        for kind in ("sum_gradients", "ddp"):
            for found, expected in zip(gradients[kind], gradients["alone"], strict=True):
                torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-6)


GROUPS = """
import json, os, sys, time, torch
import headrace as hr
from copies import TORCH
from plans import graph, items, store

rank, world_size, meeting, hows = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]

def held():
    groups = torch.distributed.distributed_c10d._world.pg_map
    return [len(groups), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))]

def digests(loader, how, last=None):
    found = []
    for batch in loader:
        found.append(batch.digest())
        if batch.index == last and how != "failing":
            break
        if batch.index == last and rank == 1:
            raise ValueError("rank one is out of order")
    return found

def run(how):
    where = f"file://{meeting}-{how}"
    torch.distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=world_size)
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
    options = {"cooperative": True, "prefetch": how in ("prefetching", "overlapping")}
    if how == "overlapping":  # sampling and rows on channels of their own
        options["machine"] = hr.Machine(cores=4)
    counts, seen, errors, began = [], [], [], time.monotonic()
    for number in range(6 if how == "failing" else 30):
        try:
            with plan.loader(**options) as loader:
                if number == 0:
                    digests(loader, how)
                    loader.close()
                    loader.close()
                    loader.set_epoch(0)
                if number != 1:
                    seen.append(digests(loader, how, last=1 if number % 3 == 2 else None))
        except (ValueError, hr.PeerError) as error:
            errors.append(str(error))
        if number in (4, 29):
            counts.append(held())
    open_one = plan.loader(**options)
    counts.append(held())
    torch.distributed.destroy_process_group()
    open_one.close()
    return {"counts": counts, "seen": seen, "errors": errors, "seconds": time.monotonic() - began}

json.dump({how: run(how) for how in hows}, sys.stdout)
"""

HOWS = ("prefetching", "overlapping", "alone")


@pytest.fixture(scope="module")
def thirty_loaders(tmp_path_factory):
    """What each of two ranks saw, by how they loaded: one job after the other in the same processes."""
    meeting = tmp_path_factory.mktemp("groups") / "meeting"
    return [json.loads(text) for text in run_processes(GROUPS, 2, meeting, *HOWS)]


def cooperative_digests() -> list[list[str]]:
    """What each of two ranks holds in an epoch."""
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
    return [[batch.digest() for batch in mine] for mine in cooperative_batches(plan, 2)]


@pytest.mark.combinations(1)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("how", HOWS)
def test_closed_loaders_give_back_their_process_groups(thirty_loaders, how):
    """Thirty loaders: one is closed twice and goes on with a new group, one has not begun, some are left midway."""
    for results, whole in zip(thirty_loaders, cooperative_digests(), strict=True):
        result = results[how]
        after_five, after_thirty, with_one = result["counts"]
        assert after_thirty == after_five
        assert with_one[0] == after_thirty[0] + (2 if how == "overlapping" else 1)  # what would stay of each of them
        assert with_one[1] > after_thirty[1]
        assert with_one[2] > after_thirty[2]
        numbers = [number for number in range(30) if number != 1]
        assert result["seen"] == [whole[:2] if number % 3 == 2 else whole for number in numbers]
        assert result["errors"] == []


def test_closing_after_failures_waits_for_nobody(tmp_path):
    """Rank 1 fails twice, and rank 0 is in a collective then; both go on with new groups."""
    texts = run_processes(GROUPS, 2, tmp_path / "meeting", "failing", failing=True)
    for text, whole in zip(texts, cooperative_digests(), strict=True):
        result = json.loads(text)["failing"]
        assert result["seen"] == [whole] * 3, result["errors"]
        assert len(result["errors"]) == 2
        assert all("rank one is out of order" in error for error in result["errors"])
        assert result["seconds"] < 30.0


KEYS = """
import sys, torch
import headrace as hr
from ranks import comm_of_job

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
job = torch.distributed.distributed_c10d._get_default_store()
comm = comm_of_job()
counts = []
for number in range(25):
    comm.begin()
    for width in (1, 1, 2)[: 1 + number % 3]:
        comm.at((number, 0))
        comm.all_reduce_sum(torch.ones(width))
    hr.ItemSampler(4).loader().close()  # asks rank 0 for its seed
    torch.distributed.barrier()
    if number in (4, 24):
        counts.append(job.num_keys())
    torch.distributed.barrier()
print(*counts, flush=True)
"""


def test_a_job_that_makes_loaders_for_long_keeps_no_more_keys(tmp_path):
    """What ranks agreed upon, where they met and the seeds of loaders are deleted when all have read them."""
    for text in run_processes(KEYS, 2, tmp_path / "meeting"):
        few, many = map(int, text.split())
        assert many - few < 20, "at least a key more for each loader"


SHUTDOWN = """
import atexit, sys, weakref, torch

ENDED = weakref.WeakSet()
@atexit.register
def last():  # registered first, so it runs last
    print(alive, len(ENDED))

import headrace as hr
from copies import TORCH
from plans import graph, items, store

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
job = weakref.ref(torch.distributed.group.WORLD)
plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
model = torch.nn.Linear(8, 2)
model(torch.ones(1, 8)).sum().backward()
loader = plan.loader(cooperative=True)
for batch in loader:
    batch.x.sum()
hr.sum_gradients(model)
ENDED.update(torch.distributed.distributed_c10d._world.pg_map)
assert len(ENDED) == 3  # the job's, the models' and the loader's, which is not closed
torch.distributed.destroy_process_group()
alive = job() is not None
"""


def test_process_groups_end_before_python_does(tmp_path):
    """Threads of a group that is left may come to free a tensor while Python ends, which aborts the process."""
    for text in run_processes(SHUTDOWN, 2, tmp_path / "meeting", imports=TORCH):
        assert text.split() == ["False", "0"]


AGAIN = """
import sys, torch
import headrace as hr
from ranks import comm_of_job

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
comms = []
for job in range(2):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}{job}", rank=rank, world_size=world_size
    )
    comms.append(comm_of_job())
    assert comms[job].all_gather(rank) == [0, 1]
    if job == 1:
        try:
            comms[0].all_gather(rank)
        except hr.PeerError as error:
            print(error)
    torch.distributed.destroy_process_group()
"""


def test_channels_of_a_job_that_ended_are_no_channels_of_the_next(tmp_path):
    for text in run_processes(AGAIN, 2, tmp_path / "meeting"):
        assert "ended the job" in text
