"""Norms are those of torch and PyG over the rows that are no padding."""

from __future__ import annotations

import copy
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


def test_an_average_of_all_batches_is_followed():
    own, theirs = hr.nn.BatchNorm(8, momentum=None), BatchNorm(8, momentum=None)
    for batch, padded in batches():
        own(padded.x, padded.blocks[0])
        theirs(batch.x)
    for one, other in zip(own.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_rows_of_no_layer_are_refused():
    _, padded = next(iter(batches()))
    for norm in (hr.nn.BatchNorm(8), hr.nn.GraphNorm(8)):
        with pytest.raises(hr.InputError, match="expected x with a row for each of"):
            norm(padded.x[:-1], padded.blocks[0])
        with pytest.raises(hr.InputError, match=r"expected x of \[rows, 8\]"):
            norm(padded.x[:, :3], padded.blocks[0])
        with pytest.raises(hr.InputError, match="in_channels"):
            type(norm)(0)
