"""Plans that end in `to_pyg()`: the same batches in another form, made ahead, with all that a loader has."""

from __future__ import annotations

import hashlib
import json
import sys
import threading

import pytest
import torch

import headrace as hr

from plans import PLANS, graph, items, store, typed_graph

pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData

NUM_EPOCHS = 2
# Every plan whose blocks can be joined: hops that overlap need edge ids.
WITHOUT = ("items", "labelled", "by_hand", "pinsage", "pladies", "temporal_of_nodes")
CONVERTIBLE = [name for name in PLANS if not name.startswith(WITHOUT) and name not in ("padded", "padded_trees")]


def flat(values, name=()):
    """The entries of dictionaries within dictionaries."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, (*name, str(key)))
        else:
            yield str((*name, str(key))), value


def digest_of(tensor):
    """Dtype, shape and bytes."""
    data = tensor.contiguous().flatten().view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    return str(tensor.dtype), tuple(tensor.shape), hashlib.sha256(data.numpy()).hexdigest()


def digest(data):
    """Everything that a Data holds."""
    assert type(data) in (Data, HeteroData)
    values = dict(flat(data.to_dict()))
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    rest = {name: value for name, value in values.items() if name not in tensors}
    return {name: digest_of(one) for name, one in tensors.items()}, sorted(rest.items())


def all_of(loader):
    return [digest(data) for _ in loader.epochs(NUM_EPOCHS) for data in loader]


def plan():
    return items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], edge=["e"], labels="y")


@pytest.mark.slow
@pytest.mark.combinations(24)
@pytest.mark.parametrize("name", CONVERTIBLE)
def test_the_same_as_converting_in_the_loop(name):
    in_loop = [digest(batch.to_pyg()) for batch in PLANS[name]().loader()]
    assert [digest(data) for data in PLANS[name]().to_pyg().loader()] == in_loop
    for options in ({"fuse_sampling": False}, {"prefetch": False, "num_threads": 1}):
        assert [digest(data) for data in PLANS[name]().to_pyg().loader(**options)] == in_loop


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_any_number_of_workers(workers):
    expected = all_of(plan().to_pyg().loader(prefetch=False))
    assert all_of(plan().to_pyg().prefetch(workers=workers, depth=3).loader()) == expected
    assert all_of(plan().prefetch(workers=workers).to_pyg().copy_to("cpu").loader()) == expected


def test_the_conversion_is_made_in_the_background(tmp_path):
    loader = plan().to_pyg().prefetch().loader()
    num_batches = len(list(loader))
    loader.profile(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    made = [event for event in events if event["name"] == "to_pyg"]
    assert len(made) == num_batches
    assert all(event["tid"] != threading.get_ident() for event in made)
    assert [event["args"]["batch"] for event in made] == list(range(num_batches))
    assert all(event["args"]["epoch"] == 0 for event in made)


def test_explain_and_stats():
    loader = plan().to_pyg().copy_to("cpu").loader(machine=hr.Machine(cores=2))
    runs, _ = loader.explain().split("\nplan as written\n")
    assert [line.strip().split("(")[0] for line in runs.splitlines()[-3:]] == ["to_pyg", "prefetch", "copy_to"]
    batches = list(loader)
    stats = loader.stats()
    assert stats["to_pyg"]["batches"] == len(batches)
    assert stats["to_pyg"]["converted_nodes"] == sum(data.num_nodes for data in batches)
    assert stats["to_pyg"]["converted_edges"] == sum(data.num_edges for data in batches)
    assert stats.total("edges") == stats["sample_neighbor"]["edges"]
    assert stats["copy_to"]["bytes"] == sum(
        value.numel() * value.element_size()
        for data in batches
        for value in data.to_dict().values()
        if isinstance(value, torch.Tensor)
    )


def test_copied_to_a_device_behind():
    data = next(iter(plan().to_pyg().copy_to("meta").loader()))
    assert {data[name].device.type for name in ("x", "y", "edge_index", "n_id", "e_id", "e")} == {"meta"}


@pytest.mark.parametrize("workers", [0, 2])
def test_resume(workers):
    """In the middle of an epoch, also from a checkpoint of the plan without the stage, and the other way around."""
    assert plan().to_pyg().loader().state_dict()["plan"] == plan().loader().state_dict()["plan"]
    expected = all_of(plan().to_pyg().loader())
    for first in (plan().to_pyg(), plan()):
        loader = first.prefetch(workers=workers).loader()
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = plan().to_pyg().prefetch(workers=workers).loader()
        resumed.load_state_dict(state)
        assert all_of(resumed) == expected[3:]
        plain = plan().loader()
        plain.load_state_dict(state)
        assert [digest(batch.to_pyg()) for _ in plain.epochs(NUM_EPOCHS) for batch in plain] == expected[3:]


def test_as_a_torchdata_node():
    node = plan().to_pyg().loader().node()
    node.reset()
    assert [digest(data) for data in node] == [digest(batch.to_pyg()) for batch in plan().loader()]


@pytest.mark.parametrize(
    "behind",
    [
        lambda one: one.transform(lambda batch: batch),
        lambda one: one.fetch_feature(store(), node=["x"]),
        lambda one: one.sample_neighbor(graph(), [2]),
        lambda one: one.to_pyg(),
        lambda one: one.prefetch().copy_to("cpu").to_dgl(),
    ],
)
def test_only_prefetch_and_copies_may_follow(behind):
    with pytest.raises(hr.PlanError, match=r"cannot stand here: behind to_pyg a batch is an object of another library"):
        behind(plan().to_pyg()).loader()
    plan().to_pyg().prefetch().copy_to("cpu").copy_to("cpu").loader()


def test_what_it_needs_is_said_when_the_loader_is_made():
    with pytest.raises(hr.PlanError, match="it reads blocks, which no stage before it writes"):
        items().to_pyg().loader()
    with pytest.raises(hr.PlanError, match="the batch was copied to a device before: copy it behind"):
        plan().copy_to("meta").to_pyg().loader()
    blind = {"edge_ids": False}
    for fused in (True, False):
        with pytest.raises(hr.PlanError, match=r'2 hops share edges.*expand="new"'):
            items().sample_neighbor(graph(), [2, 2], **blind).to_pyg().loader(fuse_sampling=fused)
    with pytest.raises(hr.PlanError, match="2 hops share edges"):
        items().sample_pinsage(graph(), 2, num_walks=2, walk_length=2, num_layers=2).to_pyg().loader()
    for one in (
        items().sample_neighbor(graph(), [2], **blind),
        items().sample_neighbor(graph(), [2, 2], expand="new", **blind),
        items().sample_pinsage(graph(), 2, num_walks=2, walk_length=2, num_layers=2, expand="new"),
    ):
        assert next(iter(one.to_pyg().loader())).num_nodes > 0


def test_a_subgraph_takes_the_place_of_the_hops_before_it():
    """What they share does not count any more."""
    hops = items().sample_neighbor(graph(), [2, 2], edge_ids=False)
    induced = hops.induce_subgraph(graph(), edge_ids=False)
    expected = [digest(batch.to_pyg()) for batch in induced.loader()]
    assert [digest(data) for data in induced.to_pyg().loader()] == expected


def test_without_pyg(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.delitem(sys.modules, "torch_geometric.data", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"to_pyg needs torch_geometric.data.*pip install 'headrace\[pyg\]'"):
        plan().to_pyg().loader()


def test_without_dgl(monkeypatch):
    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(ModuleNotFoundError, match=r"to_dgl needs dgl.*pip install 'headrace\[dgl\]'"):
        plan().to_dgl().loader()


def test_dgl_is_told_about_plans_it_cannot_have():
    pairs, triples = torch.arange(60).reshape(30, 2) % 37, torch.arange(60).reshape(20, 3) % 37
    with pytest.raises(hr.PlanError, match="to_dgl: expected seeds that are nodes or pairs, got 3 nodes that belong"):
        hr.ItemSampler(triples).sample_neighbor(graph(), [2]).to_dgl().loader()
    with pytest.raises(hr.PlanError, match="to_dgl: expected pairs with an edge type"):
        hr.ItemSampler(pairs).sample_neighbor(typed_graph(), [2]).to_dgl().loader()
    with pytest.raises(hr.PlanError, match="to_dgl: 2 hops share one block"):
        items().sample_neighbor(graph(), [2, 2], expand="new").to_dgl().loader()


@pytest.mark.parametrize("verb", ["to_pyg", "to_dgl"])
def test_batches_that_ranks_make_together_are_refused(verb):
    comms = hr.testing.LocalGroup(2).comms
    failures = []

    def play(rank):
        try:
            getattr(plan(), verb)().loader(comm=comms[rank], cooperative=True)
        except hr.PlanError as error:
            failures.append(str(error))

    threads = [threading.Thread(target=play, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(failures) == 2
    assert all(f"{verb}: ranks make the batches together" in failure for failure in failures)


def test_an_error_names_the_stage_and_the_batch():
    labelled = hr.ItemSampler((torch.tensor([3, 4, 3]), torch.tensor([0, 1, 2])), batch_size=3)
    loader = labelled.sample_neighbor(graph(), [2]).to_pyg().loader()
    with pytest.raises(hr.InputError, match="seed 3 comes twice with different labels") as caught:
        next(iter(loader))
    assert caught.value.__notes__ == ["headrace: in stage to_pyg, batch 0 of epoch 0"]


def test_names_in_a_plan():
    assert plan().to_pyg().names[-1] == "to_pyg"
    assert plan().to_pyg() == plan().to_pyg() != plan().to_dgl()
