"""Steps that a GPU repeats, on the model of its graphs: the training is the one without, in every bit."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import headrace as hr
from headrace.cuda import streams
from headrace.cuda.backend import stand_in
from headrace.ops.gpu import capture

from cuda_host.stand_in import StandIn

NUM_NODES, EPOCHS = 300, 2


@pytest.fixture(autouse=True)
def gpu():
    backend = StandIn()
    with stand_in(backend):
        yield backend


def loader():
    """Batches of 40 seeds, and a last one of 30, whose sizes are those of all epochs."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NUM_NODES, (2, 1_500), generator=generator)
    src[:100] = dst[:100]
    graph = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES)
    x = torch.randn(NUM_NODES, 6, generator=generator)
    store = hr.FeatureStore(node={"x": x, "y": torch.randint(4, (NUM_NODES,), generator=generator)})
    items = hr.ItemSampler(150, batch_size=40, shuffle=True, seed=0)
    sampled = items.sample_neighbor(graph, [3, 3]).fetch_feature(store, node=["x"], labels="y")
    return sampled.pad(epochs=EPOCHS).copy_to("cuda").loader(machine=hr.Machine(cores=2, gpus=1))


class Model(nn.Module):
    def __init__(self, make=hr.nn.SAGEConv):
        super().__init__()
        self.convs = nn.ModuleList([make(6, 8), make(8, 4)])
        self.norm = hr.nn.BatchNorm(8)

    def forward(self, batch):
        first, second = batch.blocks
        h = self.norm(self.convs[0](batch.x, first), first).relu()
        return self.convs[1](h, second)[batch.seed_index]


def training(make, wrap):
    """Parameters and statistics behind some epochs, the losses, and addresses of the batches that the step has seen."""
    torch.manual_seed(0)
    model, losses, seen = Model(make), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)

    def step(batch):
        seen.append((batch.seeds.shape, [tensor.data_ptr() for tensor in batch.tensors()]))
        optimizer.zero_grad()
        loss = cross_entropy(model(batch), batch.y)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "seeds": batch.seed_mask.sum(), "nodes": batch.node_mask.sum()}

    run, real = wrap(step), []
    batches = loader()
    for _ in batches.epochs(EPOCHS):
        for batch in batches:
            found = run(batch)
            losses.append({name: one.clone() for name, one in found.items()})
            real.append((batch.num_seeds, sum(batch.num_sampled_nodes)))
    assert [(one["seeds"].item(), one["nodes"].item()) for one in losses] == real
    return [*model.state_dict().values(), *(one["loss"] for one in losses)], seen


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [hr.nn.SAGEConv, lambda *columns: hr.nn.GATConv(*columns, heads=2, concat=False)], ids=["sage", "gat"]
)
def test_training_is_the_one_without_in_every_bit(make):
    expected, all_seen = training(make, lambda step: step)
    found, seen = training(make, lambda step: hr.nn.CapturedStep(step, warm_up=1))
    assert all(map(torch.equal, found, expected))
    assert len(all_seen) == 4 * EPOCHS
    shapes = [shape for shape, _ in seen]
    assert len(set(shapes)) == 2
    assert all(shapes.count(one) == 2 for one in shapes), "one step each to warm up, and one that is captured"
    addresses = dict(seen)
    assert all(addresses[shape] == one for shape, one in seen), "a shape has its addresses"


def test_an_optimiser_outside_of_the_step_gets_its_gradients():
    """It sets gradients to None before each step, where a launch writes to the tensors of the graph."""
    found = []
    for wrap in (lambda step: step, lambda step: hr.nn.CapturedStep(step, warm_up=1)):
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = wrap(lambda batch, model=model: cross_entropy(model(batch), batch.y).backward())
        for batch in list(loader()) * 2:
            optimizer.zero_grad()
            run(batch)
            optimizer.step()
        found.append([*model.state_dict().values()])
    assert all(map(torch.equal, *found))


def test_gradients_and_autocast_are_captured_apart():
    model, given = Model(), list(loader())[:3]
    step = hr.nn.CapturedStep(lambda batch: model.convs[0](batch.x, batch.blocks[0]), warm_up=1)
    for batch in given:
        assert step(batch).requires_grad
    with torch.no_grad():
        assert not step(given[0]).requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(step(given[0]), model.convs[0](given[0].x, given[0].blocks[0]))


@pytest.mark.parametrize("warm_up", [1, 2])
def test_the_step_is_called_to_warm_up_and_once_more(warm_up):
    calls = []
    step = hr.nn.CapturedStep(lambda batch: calls.append(batch) or batch.seeds.clone(), warm_up=warm_up)
    for batch in list(loader()) * 2:
        assert torch.equal(step(batch), batch.seeds)
    assert len([one for one in calls if len(one.seeds) == 41]) == warm_up + 1
    assert len({id(one) for one in calls}) == len(calls)


def test_what_a_step_returns_is_overwritten():
    step = hr.nn.CapturedStep(lambda batch: batch.x.sum(), warm_up=1)
    first, second, third, _ = loader()
    step(first)
    found = step(second)
    assert found == second.x.sum()
    assert step(third) is found
    assert found == third.x.sum()


@pytest.mark.parametrize(
    "read",
    [
        lambda batch: batch.x.sum().item(),
        lambda batch: batch.seeds.tolist(),
        lambda batch: batch.y[batch.seed_mask],
        lambda batch: batch.seeds.nonzero(),
        lambda batch: batch.blocks[0].indices.bincount(),
        lambda batch: hr.ops.transpose_csc(batch.blocks[0].indptr, batch.blocks[0].indices, batch.blocks[0].num_src),
    ],
    ids=["item", "tolist", "mask", "nonzero", "bincount", "check"],
)
def test_steps_for_which_the_host_waits_are_refused(read):
    step = hr.nn.CapturedStep(read, warm_up=1)
    first, second, *_ = loader()
    step(first)
    with pytest.raises(hr.HeadraceError, match=r"the host does not wait.*as an index.*the host waits"):
        step(second)


def test_a_capture_changes_nothing():
    weight = torch.ones(3)

    def step(batch):
        weight.add_(1)
        return weight * 2

    run = hr.nn.CapturedStep(step, warm_up=1)
    for number, batch in enumerate(batch for batch in loader() if batch.num_seeds == 40):
        assert run(batch).tolist() == [2 * (number + 2)] * 3
        assert weight.tolist() == [number + 2] * 3


def test_what_a_side_stream_returns_may_be_used_here(gpu):
    first, *_ = loader()
    found = hr.nn.CapturedStep(lambda batch: {"x": batch.x * 2})(first)["x"]
    gpu.streams.check([found], "the result")
    assert torch.equal(found, first.x * 2)


@pytest.mark.parametrize("num_calls", [1, 2, 3])
def test_results_are_waited_for(num_calls):
    """Of the last kernel, too, behind which torch does nothing."""

    def rows(batch):
        out = torch.full((5, 6), torch.nan)
        return hr.ops.gather_rows(batch.x, torch.arange(5), out=out, trusted=True)

    first, *_ = loader()
    step = hr.nn.CapturedStep(rows, warm_up=2)
    for _ in range(num_calls):
        found = step(first)
    assert torch.equal(found, first.x[:5])


def test_a_gpu_captures_on_the_stream_that_the_thread_has_warmed_up(monkeypatch):
    """And lets threads of the loader allocate meanwhile."""
    done = []

    class CUDAGraph:
        def replay(self):
            done.append("replay")

    @contextmanager
    def captured(graph, **options):
        done.append((type(graph), options))
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", CUDAGraph)
    monkeypatch.setattr(torch.cuda, "graph", captured)
    monkeypatch.setattr(streams, "_own_stream", lambda device: f"own stream on {device}")
    with stand_in(None):
        result, replay = capture(torch.device("cuda", 1), lambda: done.append("work") or 3)
    replay()
    options = {"stream": "own stream on cuda:1", "capture_error_mode": "thread_local"}
    assert (result, done) == (3, [(CUDAGraph, options), "work", "replay"])
