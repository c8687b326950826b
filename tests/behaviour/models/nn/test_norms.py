"""Norms are those of torch and PyG over the rows that are no padding."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
from torch_geometric.nn import BatchNorm, GraphNorm

import headrace as hr

from plans import graph, items, store

NORMS = {"batch": (hr.nn.BatchNorm, BatchNorm), "graph": (hr.nn.GraphNorm, GraphNorm)}


def batches():
    plan = items(batch_size=17).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
    return zip(plan.loader(), plan.pad().loader(), strict=True)


def both(name):
    """Our norm, and that of PyG with the same parameters."""
    own, theirs = (norm(8) for norm in NORMS[name])
    for parameter in theirs.parameters():
        parameter.data = torch.rand(8, generator=torch.Generator().manual_seed(0)) + 0.5
    own.load_state_dict(copy.deepcopy(theirs.state_dict()))
    return own, theirs


def stepped(norm, x, *block, real=slice(None)):
    """Real rows of the output, and gradients of the parameters and of these rows."""
    x = x.clone().requires_grad_()
    out = norm(x, *block)[real]
    gradients = torch.autograd.grad(out.square().sum() + out.sum(), [x, *norm.parameters()])
    return [out.detach(), gradients[0][real], *gradients[1:]]


@pytest.mark.parametrize("of", ["sources", "destinations"])
@pytest.mark.parametrize("name", NORMS)
def test_they_are_those_of_pyg_without_padding(name, of):
    own, theirs = both(name)
    for batch, padded in batches():
        block, number = padded.blocks[0], batch.blocks[0].num_src if of == "sources" else batch.blocks[0].num_dst
        mask = block.src_mask if of == "sources" else block.dst_mask
        x = torch.where(padded.node_mask[:, None], padded.x, math.nan)[: len(mask)]
        expected = stepped(theirs, batch.x[:number])
        for found in (
            stepped(copy.deepcopy(own), batch.x[:number], batch.blocks[0]),
            stepped(own, x, block, real=mask),
        ):
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        for one, other in zip(own.state_dict().values(), theirs.state_dict().values(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert not own(x, block)[~mask].any()
        own.load_state_dict(copy.deepcopy(theirs.state_dict()))
    own, theirs = own.eval(), theirs.eval()
    torch.testing.assert_close(own(x, block)[mask], theirs(batch.x[:number]), rtol=1e-5, atol=1e-5)


def test_frozen_norms_keep_their_statistics():
    norm = hr.nn.BatchNorm(8)
    norm.module.running_mean.fill_(0.5)
    norm.module.eval()  # the norm itself trains
    for batch, padded in batches():
        found = norm(padded.x, padded.blocks[0])[padded.node_mask]
        torch.testing.assert_close(found, norm(batch.x, batch.blocks[0]))
    assert norm.module.num_batches_tracked == 0
    assert torch.equal(norm.module.running_mean, torch.full((8,), 0.5))


@pytest.mark.parametrize("options", [{"affine": False}, {"track_running_stats": False}])
def test_modules_of_other_parameters(options):
    norm = hr.nn.BatchNorm(8)
    norm.module = torch.nn.BatchNorm1d(8, **options)
    for training in (True, False):
        norm.train(training)
        for batch, padded in batches():
            expected = copy.deepcopy(norm)(batch.x, batch.blocks[0])
            found = norm(padded.x, padded.blocks[0])[padded.node_mask]
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_module_that_would_count_padding_is_refused():
    norm = hr.nn.BatchNorm(8)
    norm.module = torch.nn.SyncBatchNorm(8)
    _, padded = next(batches())
    with pytest.raises(hr.InputError, match=r"expected module to be a torch\.nn\.BatchNorm1d .* got a SyncBatchNorm"):
        norm(padded.x, padded.blocks[0])


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_single_real_row_changes_no_statistics(momentum):
    norm = hr.nn.BatchNorm(8, momentum=momentum)
    plan = items(batch_size=2).sample_neighbor(graph(), [1]).fetch_feature(store(), node=["x"]).pad()
    padded = next(iter(plan.loader()))
    block = padded.blocks[0]
    alone = dataclasses.replace(block, src_mask=torch.arange(block.num_src) == 0)
    before = copy.deepcopy(norm.state_dict())
    out = norm(padded.x, alone)
    assert torch.equal(out, torch.zeros_like(out))
    out.sum().backward()
    assert bool(norm.module.weight.grad.isfinite().all())
    for name, one in norm.state_dict().items():
        assert torch.equal(one, before[name]), name


@pytest.mark.parametrize("name", NORMS)
def test_rows_of_another_block_are_refused(name):
    batch, padded = next(batches())
    with pytest.raises(hr.InputError, match="with a row for each of"):
        NORMS[name][0](8)(padded.x[:-1], padded.blocks[0])
    assert NORMS[name][0](8)(batch.x[:-1], batch.blocks[0]).shape == batch.x[:-1].shape  # between layers of ranks


def test_other_modules_are_called_as_they_are():
    norm = hr.nn.BatchNorm(8)
    norm.module = torch.nn.LayerNorm(8)
    batch, padded = next(batches())
    for training in (True, False):
        norm.train(training)
        torch.testing.assert_close(norm(padded.x, padded.blocks[0])[padded.node_mask], norm.module(batch.x))


def test_modules_of_one_process_under_cooperative():
    own, theirs = hr.nn.BatchNorm(8), BatchNorm(8)
    layer = hr.nn.SAGEConv(8, 2)
    hr.cooperative(torch.nn.Sequential(own, layer), layers=[layer])
    assert type(own.module) is not torch.nn.BatchNorm1d
    batch, padded = next(batches())
    found = own(padded.x, padded.blocks[0])[padded.node_mask]
    torch.testing.assert_close(found, theirs(batch.x), rtol=1e-4, atol=1e-4)


def test_an_average_of_all_batches_is_followed():
    own, theirs = hr.nn.BatchNorm(8, momentum=None), BatchNorm(8, momentum=None)
    for batch, padded in batches():
        own(padded.x, padded.blocks[0])
        theirs(batch.x)
    for one, other in zip(own.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
