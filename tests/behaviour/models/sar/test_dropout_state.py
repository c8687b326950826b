"""Training over shards that goes on from a checkpoint has the masks of dropout that it would have had."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from ranks import run_ranks
from sharded import NUM_CLASSES, WIDTH, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")


class Network(nn.Module):
    """Dropout of all kinds: of rows, twice in a step, and of attention, of PyG's layer and of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.first = pyg.GATConv(WIDTH, 4, dropout=0.4, add_self_loops=False)
        self.second = hr.nn.GATConv(4, NUM_CLASSES, dropout=0.4, add_self_loops=False)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, place: object) -> Tensor:
        return self.dropout(self.second(self.dropout(self.first(x, place)), place))


def network() -> nn.Module:
    torch.manual_seed(3)
    return Network().double()


def steps(comm: hr.Comm, model: nn.Module, num_steps: int, state: str | None = None, seed: int = 5) -> tuple[list, str]:
    """Return the outputs of all nodes in each step, and the state behind."""
    place = hr.sar.ShardedGraph(graph(), owners("hash", comm.world_size), comm)
    model = hr.sar.wrap(copy.deepcopy(model), place, seed=seed)
    if state is not None:
        hr.sar.load_dropout_state(model, json.loads(state))
    x = place.rows(features(NUM_NODES, WIDTH))
    outputs = []
    for _ in range(num_steps):
        out = torch.zeros(NUM_NODES, NUM_CLASSES, dtype=torch.float64)
        out[place.owned] = model(x, place).detach()
        outputs.append(out)
    return outputs, json.dumps(hr.sar.dropout_state(model))


def run(world_size: int, num_steps: int, state: str | None = None, **options: int) -> tuple[list[Tensor], str]:
    model = network()
    shares = run_ranks(world_size, lambda comm: steps(comm, model, num_steps, state, **options))
    assert len({state for _, state in shares}) == 1
    return [sum(outputs) for outputs in zip(*(outputs for outputs, _ in shares), strict=True)], shares[0][1]


def test_masks_go_on_with_any_number_of_ranks():
    whole, _ = run(2, 4)
    first, state = run(2, 2)
    assert json.loads(state) == {"first": 2, "second": 2, "dropout": 4}
    for world_size in (1, 2, 3):
        rest, _ = run(world_size, 2, state)
        for one, other in zip(rest, whole[2:], strict=True):
            assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)
    again, _ = run(2, 2)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True)), "without it they begin anew"
    assert not torch.allclose(again[0], whole[2])


def test_states_of_models_stay_those_of_before():
    place = hr.sar.ShardedGraph(graph())
    model = network()
    names = list(model.state_dict())
    assert list(hr.sar.wrap(model, place).state_dict()) == names


@pytest.mark.parametrize(
    ("state", "match"),
    [
        ({}, r"modules \['dropout', 'first', 'second'\], got \[\]; wrap the model first"),
        ({"first": 1, "second": 1, "other": 1}, "got .*'other'"),
        ([1, 2], "got list"),
        ({"first": 1, "second": 1, "dropout": -1}, "dropout"),
        ({"first": 1, "second": 1.5, "dropout": 1}, "second"),
        ({"first": 1, "second": 1, "dropout": 2**63}, "dropout to be an integer from 0 to 9223372036854775807"),
    ],
)
def test_other_states_are_refused_and_change_nothing(state, match):
    model = hr.sar.wrap(network(), hr.sar.ShardedGraph(graph()))
    with pytest.raises(hr.InputError, match=match):
        hr.sar.load_dropout_state(model, state)
    assert set(hr.sar.dropout_state(model).values()) == {0}


def test_a_model_that_was_not_wrapped_has_no_state():
    model = network()
    assert hr.sar.dropout_state(model) == {}
    with pytest.raises(hr.InputError, match="wrap the model first"):
        hr.sar.load_dropout_state(model, {"first": 1, "second": 1, "dropout": 2})


def test_the_largest_state_goes_on():
    place = hr.sar.ShardedGraph(graph())
    model = hr.sar.wrap(nn.Sequential(nn.Linear(WIDTH, 2), nn.Dropout(0.5)), place)
    hr.sar.load_dropout_state(model, {"1": 2**63 - 1})
    assert model(torch.ones(NUM_NODES, WIDTH)).shape == (NUM_NODES, 2)
