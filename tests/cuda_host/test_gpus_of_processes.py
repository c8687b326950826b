"""Processes as torchrun starts them, each with what stands in for a GPU: "cuda" is that of each, also with shares."""

from __future__ import annotations

import json

import pytest
from ranks import run_processes

import headrace as hr
from headrace.ops.gpu import name_of_gpu
from headrace.pipeline.run.several_ranks import check_gpus_of_ranks

from plans import graph, items, store

SCRIPT = """
import json, os, sys, warnings, torch
import headrace as hr
from headrace.cuda.backend import stand_in
from cuda_host.stand_in import StandIn
from plans import graph, items, store

rank, world_size, meeting, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
os.environ["LOCAL_RANK"] = str(rank)
torch.cuda.device_count = lambda: world_size  # all of this machine, as torchrun shows them to each process
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
plan = items().copy_to(device).sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"])
with stand_in(backend := StandIn()), warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with plan.loader() as loader:
        digests = [batch.digest() for batch in loader]
        text = loader.explain()
    with plan.loader(rank=0, world_size=1) as alone:
        of_one = alone.explain()
    print(json.dumps({
        "digests": digests, "text": text.split("plan as written")[0], "alone": of_one.split("plan as written")[0],
        "launched": sorted({one.partition("<")[0] for one in backend.launches}),
        "warned": [str(one.message) for one in caught if "are all on" in str(one.message)],
    }))
torch.distributed.destroy_process_group()
"""


COOPERATIVE = """
import json, os, sys, warnings, torch
import headrace as hr
from headrace.cuda.backend import stand_in
from cuda_host.stand_in import StandIn
from plans import graph, items, store

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.environ["LOCAL_RANK"] = str(rank)
torch.cuda.device_count = lambda: world_size
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
plan = items().copy_to("cuda").sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"])
machine = hr.Machine(cores=2, gpus=world_size, current_gpu=rank)
of_rank = hr.Machine(cores=2, gpus=world_size, current_gpu=rank, rank=rank, world_size=world_size)
others = hr.Machine(cores=2, gpus=8, rank=rank, world_size=8)
with stand_in(StandIn()), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with plan.loader(machine=machine, cooperative=True) as loader:
        runs = loader.explain()
    told = [plan.explain(machine=one, cooperative=True) for one in (machine, of_rank, None, others)]
print(json.dumps({"runs": runs, "told": told}))
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_explain_shows_the_exchanges_of_the_job_there_is(tmp_path):
    """A plan is told of NCCL only for ranks that are not those of this job, which has gloo."""
    for one in map(json.loads, run_processes(COOPERATIVE, 2, tmp_path / "meeting")):
        of_machine, of_rank, of_process, of_others = one["told"]
        assert of_machine == of_rank == one["runs"]
        detour = "ranks exchange ids and rows of batches and rows of the model through CPU memory"
        assert all(detour in " ".join(text.split()) for text in (of_machine, of_process))
        assert "through CPU memory" not in of_others


@pytest.fixture(scope="module", params=["cuda", "cuda:0"])
def ranks(request, tmp_path_factory) -> tuple[str, list[dict[str, object]]]:
    """What each of two ranks printed."""
    meeting = tmp_path_factory.mktemp("ranks") / "meeting"
    return request.param, [json.loads(text) for text in run_processes(SCRIPT, 2, meeting, request.param)]


@pytest.mark.thorough
def test_each_rank_samples_its_share_on_a_gpu_of_its_own(ranks):
    """By the facts of the plan: that there are several ranks changes nothing."""
    device, found = ranks
    plan = items().sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"])
    for rank, one in enumerate(found):
        expected = [batch.digest() for batch in plan.loader(rank=rank, world_size=2)]
        assert one["digests"] == expected
        number = rank if device == "cuda" else 0
        for text in (one["text"], one["alone"]):
            words = " ".join(text.split())
            assert f"on_stream(cuda:{number}) copy_to('cuda:{number}') sample_fused(" in words
        assert any("pick_uniform" in kernel for kernel in one["launched"])


@pytest.mark.slow
def test_ranks_with_one_gpu_are_named(ranks):
    device, found = ranks
    for one in found:
        if device == "cuda":
            assert one["warned"] == []
        else:
            (warning,) = one["warned"]
            assert "batches of ranks [0, 1] are all on cuda:0 of" in warning
            assert "LOCAL_RANK" in warning


def test_nccl_is_refused_for_ranks_with_one_gpu():
    check_gpus_of_ranks([{"nccl_gpu": ""}, {"nccl_gpu": ""}])
    check_gpus_of_ranks([{"nccl_gpu": name_of_gpu("cuda:0")}, {"nccl_gpu": name_of_gpu("cuda:1")}])
    with pytest.raises(
        hr.PlanError, match=r"expected a GPU for each rank of NCCL, got cuda:1 of .* for ranks \[0, 2\]"
    ):
        check_gpus_of_ranks([{"nccl_gpu": name_of_gpu(f"cuda:{number}")} for number in (1, 0, 1)])


def test_names_tell_gpus_apart_however_processes_number_them(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    first = name_of_gpu("cuda:0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert name_of_gpu("cuda:0") != first
