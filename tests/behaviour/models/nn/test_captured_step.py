"""Captured steps on a CPU: the step over buffers, and what a GPU could not repeat is refused here too."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cross_entropy

import headrace as hr

COUNTS = (
    "num_seeds",
    "num_sampled_nodes",
    "num_sampled_edges",
    "num_global_seeds",
    "num_positives",
    "num_real_seeds",
    "epoch",
    "index",
)


def plan():
    """Batches of 40 seeds, and one of 30."""
    generator = torch.Generator().manual_seed(0)
    graph = hr.Graph.from_coo(*torch.randint(300, (2, 1_500), generator=generator), num_nodes=300)
    x = torch.randn(300, 6, generator=generator)
    store = hr.FeatureStore(node={"x": x, "y": torch.randint(4, (300,), generator=generator)})
    items = hr.ItemSampler(150, batch_size=40, shuffle=True, seed=0)
    return items.sample_neighbor(graph, [3, 3]).fetch_feature(store, node=["x"], labels="y")


def batches():
    return list(plan().pad(epochs=2).loader())


def training(wrap):
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([hr.nn.SAGEConv(6, 8), hr.nn.SAGEConv(8, 4)])
    optimizer = torch.optim.Adam(layers.parameters())

    def step(batch):
        optimizer.zero_grad()
        h = layers[0](batch.x, batch.blocks[0]).relu()
        loss = cross_entropy(layers[1](h, batch.blocks[1])[batch.seed_index], batch.y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = wrap(step)
    losses = [run(batch) for _ in range(2) for batch in batches()]
    return [*layers.state_dict().values(), *losses]


def test_inference_mode_has_buffers_of_its_own():
    step = hr.nn.CapturedStep(lambda batch: batch.x.sum())
    one, *_ = batches()
    with torch.inference_mode():
        expected = step(one)
    with torch.no_grad():
        assert torch.equal(step(one), expected)


def test_training_is_the_one_without_in_every_bit():
    assert all(map(torch.equal, training(hr.nn.CapturedStep), training(lambda step: step)))


def test_batches_of_a_shape_have_the_same_addresses_and_values_of_their_own():
    seen = []

    def step(batch):
        named = dict(batch.blocks[0].named_tensors(), seeds=batch.seeds, mask=batch.seed_mask, nodes=batch.node_mask)
        seen.append((batch, {name: one.data_ptr() for name, one in named.items()}))
        return [
            batch.seed_mask.sum(),
            batch.node_mask.sum(),
            batch.blocks[0].transposed.indices.clone(),
        ]

    run = hr.nn.CapturedStep(step)
    for batch in batches():
        seeds, nodes, transposed = run(batch)
        assert (seeds, nodes) == (batch.num_seeds, sum(batch.num_sampled_nodes))
        assert torch.equal(transposed, batch.blocks[0].transposed.indices)
        assert all(map(torch.equal, batch.tensors(), seen[-1][0].tensors()))
    addresses = [one for _, one in seen]
    assert addresses[0] == addresses[1] == addresses[2] != addresses[3]
    assert len({id(batch.blocks[0]) for batch, _ in seen}) == 4


def test_batches_whose_fields_share_tensors_are_of_another_shape():
    batch = batches()[0]
    others = {"x": batch.x, "z": batch.x}, {"x": batch.x, "z": batch.x + 1}
    run = hr.nn.CapturedStep(lambda batch: [batch.node[name].data_ptr() for name in ("x", "z")])
    (first, second), (third, fourth) = (run(batch.replace(node=node)) for node in others)
    assert first == second
    assert len({first, third, fourth}) == 3


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_a_batch_are_refused(name):
    with pytest.raises(hr.PlanError, match=rf"MiniBatch.{name}: expected tensors.*batch.seed_mask.*batch.node_mask"):
        hr.nn.CapturedStep(lambda batch: getattr(batch, name))(batches()[0])


def by_layer(batch):
    return hr.nn.GATConv(6, 2, dropout=0.5)(batch.x, batch.blocks[0])


def by_block(batch):
    rows = batch.x[:, None]
    scores = rows[..., 0]
    return batch.blocks[0].attend(rows, scores, scores[: batch.blocks[0].num_dst], dropout=0.5, key=3)


@pytest.mark.parametrize("step", [by_layer, by_block])
def test_dropout_of_attention_is_refused(step):
    batch = batches()[0]
    with pytest.raises(hr.PlanError, match=r"dropout of attention: expected none in hr\.nn\.CapturedStep"):
        hr.nn.CapturedStep(step)(batch)
    step(batch)  # outside it stays


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="torch before 2.4 compiles no layers")
def test_dropout_of_attention_is_refused_where_it_is_compiled():
    torch._dynamo.reset()
    compiled = torch.compile(by_layer, backend="eager")
    batch = batches()[0]
    compiled(batch)
    with pytest.raises(hr.PlanError, match="dropout of attention"):
        hr.nn.CapturedStep(compiled)(batch)


def first(plan):
    return next(iter(plan.loader()))


def typed():
    graph = hr.Graph.from_coo({("a", "to", "a"): ([0, 1], [1, 2])}, num_nodes={"a": 3})
    return hr.ItemSampler({"a": 3}, batch_size=2).sample_neighbor(graph, [1]).pad()


def with_weights(batch):
    return batch.replace(blocks=[dataclasses.replace(one, weight=torch.ones(one.num_edges)) for one in batch.blocks])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: first(plan()), r"expected a batch with padding.*got MiniBatch; end the plan in \.pad\(\)"),
        (lambda: SimpleNamespace(x=1), r"got SimpleNamespace; .*without \.to_pyg\(\) or \.to_dgl\(\)"),
        (lambda: first(typed()), "graph without types, got one with types"),
        (lambda: with_weights(batches()[0]), "expected blocks as the loader has made them, got others"),
    ],
    ids=["no padding", "no batch", "types", "blocks"],
)
def test_batches_that_a_gpu_could_not_repeat_are_refused(make, message):
    with pytest.raises(hr.InputError, match=message):
        hr.nn.CapturedStep(lambda batch: None)(make())
