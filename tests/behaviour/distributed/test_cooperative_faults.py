"""What goes wrong on one rank reaches all of them, with its reason; what is merely slow or empty does no harm."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
import torch
from ranks import run_processes, run_ranks

import headrace as hr

from plans import graph, items, store

pytestmark = pytest.mark.slow

SOON = 30.0

SCRIPT = """
import json, os, signal, sys, time, torch
import headrace as hr
from plans import graph, items, store

rank, world_size, meeting, faults = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
samplers = {
    "labor_star": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], importance="*"),
    "ladies": lambda plan: plan.sample_ladies(graph(), [20, 30]),
    "pladies": lambda plan: plan.sample_ladies(graph(), [20, 30], poisson=True),
}

def run(fault):
    def stage(batch):
        if rank == 1 and batch.index == 2:
            if fault == "stage":
                raise ValueError("a stage of rank one is out of order")
            if fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "slow":
                time.sleep(2.0)
        return batch

    class Source(hr.FeatureSource):
        def __init__(self, rows):
            self.rows_in_place = rows

        def read_into(self, ids, out, **options):
            if rank == 1 and fault == "source":
                raise RuntimeError("the rows of rank one are out of order")
            return super().read_into(ids, out, **options)

    sampler = samplers.get(fault, lambda plan: plan.sample_neighbor(graph(), [5, 3]))
    features = store() if fault != "source" else hr.FeatureStore(node={"x": Source(torch.ones(200, 2))})
    plan = sampler(items()).fetch_feature(features, node=["x"])
    if fault != "source":
        plan = sampler(items()).transform(stage).fetch_feature(features, node=["x"])
    seen, error, began = [], "", time.monotonic()
    try:
        with plan.loader(cooperative=True) as loader:
            for batch in loader:
                seen.append(batch.digest())
                if rank == 1 and batch.index == 2 and fault == "loop":
                    raise ValueError("the training loop of rank one is out of order")
                if batch.index == 1 and fault == "break":
                    break
            if fault == "break":
                seen += [batch.digest() for batch in loader]
    except (hr.HeadraceError, ValueError, RuntimeError) as caught:
        error = f"{type(caught).__name__}: {caught}"
    return {"seen": seen, "error": error, "seconds": time.monotonic() - began}

results = {fault: run(fault) for fault in faults}
print(json.dumps(results), flush=True)
if not any(result["error"] for result in results.values()):
    torch.distributed.destroy_process_group()
"""


# A job for all of a line, as processes take longer to start than to run a fault. Each fault has a loader of its own.
HARMLESS = ("none", "labor_star", "ladies", "pladies", "slow", "break")
ERRORS = ("stage", "loop", "source")


def run_with(faults: tuple[str, ...], folder: Path, *, failing: bool) -> list[dict | None]:
    """Run the script on three ranks; return what each printed, None for one that was killed."""
    began = time.monotonic()
    printed = run_processes(SCRIPT, 3, folder / "meeting", *faults, failing=failing)
    assert time.monotonic() - began < 100
    return [json.loads(text) if text else None for text in printed]


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    return run_with(HARMLESS, tmp_path_factory.mktemp("harmless"), failing=False)


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    return run_with(ERRORS, tmp_path_factory.mktemp("errors"), failing=True)


def expected(plan: hr.Plan | None = None, world_size: int = 3) -> list[list[str]]:
    plan = items().sample_neighbor(graph(), [5, 3]) if plan is None else plan
    fetched = plan.fetch_feature(store(), node=["x"])
    return run_ranks(world_size, lambda comm: digests(fetched, comm))


def digests(plan: hr.Plan, comm: hr.Comm) -> list[str]:
    with plan.loader(cooperative=True, comm=comm) as loader:
        return [batch.digest() for batch in loader]


def test_processes_hold_what_threads_hold(harmless):
    results = [ran["none"] for ran in harmless]
    assert [result["error"] for result in results] == ["", "", ""]
    assert [result["seen"] for result in results] == expected()


@pytest.mark.parametrize(
    ("sampler", "plan"),
    [
        ("labor_star", lambda: items().sample_layer_neighbor(graph(), [5, 3], importance="*")),
        ("ladies", lambda: items().sample_ladies(graph(), [20, 30])),
        ("pladies", lambda: items().sample_ladies(graph(), [20, 30], poisson=True)),
    ],
)
def test_processes_sample_layers_as_threads_do(sampler, plan, harmless):
    results = [ran[sampler] for ran in harmless]
    assert [result["error"] for result in results] == ["", "", ""]
    assert [result["seen"] for result in results] == expected(plan())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("stage", "a stage of rank one is out of order"),
        ("loop", "the training loop of rank one is out of order"),
        ("source", "the rows of rank one are out of order"),  # while the others' are on their way
    ],
)
def test_an_error_on_one_rank_reaches_all(fault, reason, errors):
    for rank, result in enumerate(ran[fault] for ran in errors):
        assert reason in result["error"]
        own = "RuntimeError" if fault == "source" else "ValueError"
        left = r"( \(it left epoch 0 after batch \d( and ended with .*)?\))?"  # a loop is left before it fails
        assert re.match(own if rank == 1 else f"PeerError: rank 1 failed{left}:", result["error"])
        assert rank == 1 or "Traceback" in result["error"]
        assert result["seconds"] < SOON


REFUSING = """
import json, sys, time, torch
import headrace as hr
from plans import graph, items, store

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
wrong = hr.FeatureStore(node={"x": torch.zeros(7 if rank == 1 else 200, 2)})

def stage(batch):
    if batch.index == 1 and rank == 1:
        raise ValueError("a stage of rank one is out of order")
    return batch

errors, began = [], time.monotonic()
sampled = items().sample_neighbor(graph(), [5, 3])
for features, transform in ((wrong, None), (store(), stage), (wrong, None), (wrong, None)):
    try:
        plan = sampled if transform is None else sampled.transform(transform)
        with plan.fetch_feature(features, node=["x"]).loader(cooperative=True) as loader:
            list(loader)
    except (hr.HeadraceError, ValueError) as error:
        kind = "InputError" if isinstance(error, hr.InputError) else type(error).__name__
        errors.append(f"{kind}: {error}")
with sampled.fetch_feature(store(), node=["x"]).loader(cooperative=True) as loader:
    seen = [batch.digest() for batch in loader]
print(json.dumps({"seen": seen, "errors": errors, "seconds": time.monotonic() - began}), flush=True)
torch.distributed.destroy_process_group()
"""


def test_a_rank_that_cannot_make_its_loader_tells_the_others(tmp_path):
    """Also after a failure that left half a collective; in the end all go on."""
    results = [json.loads(text) for text in run_processes(REFUSING, 3, tmp_path / "meeting", failing=True)]
    assert [result["seen"] for result in results] == expected()
    for rank, result in enumerate(results):
        assert result["seconds"] < SOON
        for number, error in enumerate(result["errors"]):
            own, reason = ("InputError", "got 7 rows") if number != 1 else ("ValueError", "stage of rank one")
            assert error.startswith(own if rank == 1 else "PeerError: rank 1 failed")
            assert reason in error
        assert len(result["errors"]) == 4


def test_a_thread_that_cannot_make_its_loader_tells_the_others():
    def work(comm: hr.Comm) -> tuple[str, list[str]]:
        features = hr.FeatureStore(node={"x": torch.zeros(7 if comm.rank == 1 else 200, 2)})
        plan = items().sample_neighbor(graph(), [5, 3])
        with pytest.raises(hr.HeadraceError) as raised:
            plan.fetch_feature(features, node=["x"]).loader(cooperative=True, comm=comm)
        return str(raised.value), digests(plan.fetch_feature(store(), node=["x"]), comm)

    results = run_ranks(3, work)
    assert [seen for _, seen in results] == expected()
    for rank, (error, _) in enumerate(results):
        assert error.startswith("rank 1 failed") is (rank != 1)
        assert "got 7 rows" in error


def test_a_killed_rank_is_noticed(tmp_path):
    first, killed, third = run_with(("kill",), tmp_path, failing=True)
    assert killed is None
    for result in (first["kill"], third["kill"]):
        assert result["error"].startswith("PeerError")
        assert "lost the connection to rank 1: " in result["error"]
        assert result["seconds"] < SOON


def test_a_slow_rank_is_waited_for(harmless):
    assert [ran["slow"]["seen"] for ran in harmless] == expected()


def test_leaving_the_loop_at_the_same_batch_lets_the_next_epoch_begin(harmless):
    for result, whole in zip([ran["break"] for ran in harmless], expected(), strict=True):
        assert result["error"] == ""
        assert result["seen"][:2] == whole[:2]
        assert len(result["seen"]) == 2 + len(whole)


def test_ranks_without_items_take_part():
    plan = hr.ItemSampler(5, batch_size=3, seed=1).sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"])
    shares = run_ranks(8, lambda comm: list(plan.loader(cooperative=True, comm=comm)))
    assert {len(share) for share in shares} == {2}
    assert sum(len(batch.seeds) for share in shares for batch in share) == 5


def test_a_rank_that_leaves_early_is_named():
    plan = items().sample_neighbor(graph(), [5, 3])

    def work(comm: hr.Comm) -> str:
        with plan.loader(cooperative=True, comm=comm, prefetch=False) as loader:
            for batch in loader:
                if comm.rank == 1 and batch.index == 1:
                    return ""
        return "finished"

    with pytest.raises(hr.PeerError, match=r"rank 1 left epoch 0 after batch 1; rank 0 went on"):
        run_ranks(2, work, timeout=1.0)


@pytest.mark.parametrize("prefetch", [True, False])
def test_another_number_of_ranks_continues_a_run(prefetch):
    plan = items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], labels="y")

    def first_part(comm: hr.Comm) -> dict:
        with plan.loader(cooperative=True, comm=comm, prefetch=prefetch) as loader:
            for batch in loader:
                if batch.index == 2:
                    break
            return loader.state_dict()

    states = run_ranks(3, first_part)
    assert all(state == states[0] for state in states)

    def rest(comm: hr.Comm) -> list[hr.MiniBatch]:
        with plan.loader(cooperative=True, comm=comm, prefetch=prefetch) as loader:
            loader.load_state_dict(states[0])
            return list(loader)

    whole = list(plan.loader())[3:]
    for world_size in (1, 2, 5):
        shares = run_ranks(world_size, rest)
        for batch, mine in zip(whole, zip(*shares, strict=True), strict=True):
            assert torch.equal(torch.cat([share.seeds for share in mine]), batch.seeds)
            edges = torch.cat([share.e_id for share in mine])
            assert torch.equal(edges.sort().values, batch.e_id.sort().values)


@pytest.mark.parametrize("prefetch", [True, False])
def test_after_a_failure_the_ranks_begin_anew(prefetch):
    plan = items().sample_neighbor(graph(), [5, 3])

    def work(comm: hr.Comm) -> tuple[int, list[str], float]:
        began, seen = time.monotonic(), 0
        try:
            with plan.loader(cooperative=True, comm=comm, prefetch=prefetch) as loader:
                for batch in loader:
                    seen += 1
                    if comm.rank == 1 and batch.index == 1:
                        raise ValueError("out of order")  # noqa: TRY301 - as a training loop does
        except (hr.PeerError, ValueError):
            pass
        seconds = time.monotonic() - began
        return seen, digests(plan, comm), seconds

    expected = run_ranks(3, lambda comm: digests(plan, comm))
    for (seen, again, seconds), whole in zip(run_ranks(3, work), expected, strict=True):
        assert seen < len(whole)
        assert again == whole
        assert seconds < 10.0


def test_a_stage_that_raises_stop_iteration_is_reported():
    def stop(batch: hr.MiniBatch) -> hr.MiniBatch:
        if batch.index == 1 and len(batch.seeds) == 6:
            raise StopIteration
        return batch

    plan = hr.ItemSampler(40, batch_size=13, seed=1).sample_neighbor(graph(), [2]).transform(stop)

    def work(comm: hr.Comm) -> str:
        try:
            digests(plan, comm)
        except (RuntimeError, hr.PeerError) as error:
            return str(error)
        return ""

    messages = run_ranks(2, work, timeout=20.0)
    assert sorted("raised StopIteration" in message for message in messages) == [False, True]
    assert any("failed" in message for message in messages)
