"""Messages of a user's own function over edges that ranks share: rows and gradients are those of torch."""

from __future__ import annotations

import copy

import pytest
import torch
from hybrid import KINDS
from ranks import run_ranks
from sharded import edge_index, features
from torch import Tensor, nn

import headrace as hr

from plans import NUM_EDGES, NUM_NODES, graph

ROWS = {
    "x": features(NUM_NODES, 3),
    "destination": features(NUM_NODES, 2, seed=4),
    "edge": features(NUM_EDGES, 2, seed=5),
}
BY = features(NUM_NODES, 4, seed=6)
STEPS = hr.GlobalBatch(graph(), seed=1).sample_in_subgraph(graph())


def layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 4)).double()


def whole(reduce: str, module: nn.Module, *, rounded: bool) -> dict[str, Tensor]:
    rows = {name: one.clone().requires_grad_() for name, one in ROWS.items()}
    source, destination = edge_index()
    messages = module(torch.cat([rows["x"][source], rows["destination"][destination], rows["edge"]], 1))
    messages = messages.clamp(-0.1, 0.1) if rounded else messages
    places = destination[:, None].expand_as(messages)
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    out = messages.new_zeros(NUM_NODES, 4).scatter_reduce(0, places, messages, kind, include_self=False)
    (out * BY).sum().backward()
    gradients = {name: one.grad for name, one in (*rows.items(), *module.named_parameters())}
    return {"rows": out.detach(), **gradients}


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_rows_and_gradients_are_those_of_torch(reduce, kind, rounded):
    """Rounded messages are equal for many edges, which share the gradient of an extreme."""
    initial = layer()
    expected = whole(reduce, copy.deepcopy(initial), rounded=rounded)

    def work(comm: hr.Comm) -> dict[str, Tensor]:
        module = copy.deepcopy(initial)

        def message(*rows: Tensor) -> Tensor:
            messages = module(torch.cat(rows, 1))
            return messages.clamp(-0.1, 0.1) if rounded else messages

        with STEPS.loader(comm=comm, cooperative=True, partition=KINDS[kind](graph(), 3)) as loader:
            batch = next(iter(loader))
            block = batch.blocks[0]
            ids = {"x": batch.n_id, "destination": batch.n_id, "edge": block.edge_ids}
            rows = {name: one[ids[name]].requires_grad_() for name, one in ROWS.items()}
            before = block.comm.num_collectives
            out = block.update_all(message, reduce=reduce, **rows)
            (out * BY[batch.n_id]).sum().backward()
            assert block.comm.num_collectives - before == 4
        hr.sum_gradients(module, comm)
        tables = {name: torch.zeros_like(ROWS[name]).index_add(0, ids[name], one.grad) for name, one in rows.items()}
        of_nodes = torch.zeros(NUM_NODES, 4, dtype=out.dtype).index_add(0, batch.n_id, out.detach())
        return {"rows": of_nodes, **tables, **{name: one.grad for name, one in module.named_parameters()}}

    shares = run_ranks(3, work)
    for name, table in expected.items():
        value = sum(one[name] for one in shares) if name in ("rows", *ROWS) else shares[0][name]
        assert (value - table).norm() <= 1e-12 * table.norm(), name


def test_messages_that_look_at_other_edges_are_refused():
    def work(comm: hr.Comm) -> None:
        with STEPS.loader(comm=comm, cooperative=True, partition=KINDS["grid"](graph(), 2)) as loader:
            batch = next(iter(loader))
            batch.blocks[0].update_all(lambda rows, *_: rows - rows.mean(0), ROWS["x"][batch.n_id])

    with pytest.raises(hr.InputError, match=r"the message .* \(test_update_all_on_shared_edges.py:\d+"):
        run_ranks(2, work)


def test_masks_of_dropout_are_the_same_back():
    """The sum is linear in its rows, given the masks: with the same ones back, <A x, v> is <x, A' v>."""

    def work(comm: hr.Comm) -> tuple[Tensor, Tensor]:
        with STEPS.loader(comm=comm, cooperative=True, partition=KINDS["grid"](graph(), 2)) as loader:
            batch = next(iter(loader))
            x = ROWS["x"][batch.n_id].requires_grad_()
            dropped = batch.blocks[0].update_all(lambda rows, *_: nn.functional.dropout(rows, 0.5), x)
            forward = (dropped * BY[batch.n_id, :3]).sum()
            forward.backward()
            return forward.detach(), (x.detach() * x.grad).sum()

    sides = run_ranks(2, work)
    torch.testing.assert_close(sum(left for left, _ in sides), sum(right for _, right in sides), rtol=1e-12, atol=1e-12)
