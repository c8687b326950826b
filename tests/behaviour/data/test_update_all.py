"""Messages of a function of one's own over a block: sources, destinations and edges, with gradients to all of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from edge_rows import edge_rows


def block_of(rows):
    return hr.Block(rows.indptr, rows.indices, max(rows.num_src, rows.num_dst), rows.num_dst)


def drawn(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def message(source, destination, edge):
    return source * destination.tanh() + edge


@given(st.builds(block_of, edge_rows()), st.sampled_from(["sum", "mean", "max", "min"]), st.sampled_from([(), (2,)]))
def test_messages_of_a_function_are_those_of_torch(block, reduce, width):
    sizes = block.num_src, block.num_dst, block.num_edges
    inputs = [drawn(size, *width).requires_grad_() for size in sizes]
    out = block.update_all(message, inputs[0], reduce=reduce, destination=inputs[1], edge=inputs[2])
    source, destination = block.edge_index
    messages = message(inputs[0][source], inputs[1][destination], inputs[2])
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    places = destination.view(-1, *(1 for _ in width)).expand_as(messages)
    expected = torch.zeros_like(out).scatter_reduce(0, places, messages, kind, include_self=False)
    ours, theirs = (torch.autograd.grad((one * drawn(*out.shape)).sum(), inputs) for one in (out, expected))
    assert torch.allclose(out, expected)
    assert all(torch.allclose(*pair) for pair in zip(ours, theirs, strict=True))


BLOCK, ROWS = hr.Block(torch.tensor([0, 1]), torch.tensor([1]), 2, 1), torch.ones(2, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BLOCK.update_all(lambda source, *_: source[:0], ROWS), r"messages of \[1, ...\], one for each"),
        (lambda: BLOCK.update_all(lambda *_: None, ROWS), "one for each edge, got NoneType"),
        (lambda: BLOCK.update_all(lambda source, *_: source, ROWS[:1]), "expected x of 2 rows, got"),
        (lambda: BLOCK.update_all(lambda source, *_: source, ROWS, edge=ROWS), "expected edge of 1 rows, got"),
        (lambda: BLOCK.update_all(lambda source, *_: source, ROWS, reduce="median"), "expected reduce to be"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(hr.InputError, match=words):
        call()
