"""Numbers that depend on how many rows there are, and tensors of operations that cannot be seen, are refused."""

from __future__ import annotations

import copy
import math
import types

import numpy as np
import pytest
import torch
from between_layers import FORMS, WIDTH, Net, run
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

SCALE = 0.3
TABLE = torch.linspace(0.1, 1.0, WIDTH, dtype=torch.float64)
TABLES = [TABLE, TABLE + 1]
ELSEWHERE = nn.Linear(WIDTH, WIDTH).double()


class Users(nn.Module):
    """A module of a user, with options."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.dim, self.heads, self.eps = function, WIDTH, 2, 1e-6
        self.config = types.SimpleNamespace(scale=7.5)

    def forward(self, h: Tensor) -> Tensor:
        return self.function(self, h)


def by_a_local(module: Users, h: Tensor) -> Tensor:
    number = len(h)
    twice = 2 * number + 1
    return h.sum(1, keepdim=True) / twice


def by_a_closure(module: Users, h: Tensor) -> Tensor:
    number = len(h) + 5

    def shared(rows: Tensor) -> Tensor:
        return rows / number

    return shared(h)


def by_an_attribute(module: Users, h: Tensor) -> Tensor:
    module.number = len(h) + 5
    return h / module.number


COUNTED = {
    "a sum": lambda m, h: h / (len(h) + 5),
    "a fraction": lambda m, h: h * (0.5 * h.size(0)),
    "a local variable": by_a_local,
    "a closure": by_a_closure,
    "an attribute": by_an_attribute,
    "a whole number": lambda m, h: h / int(h.shape[0] * 1.5),
    "a float": lambda m, h: h / (float(h.shape[0]) + 0.25),
    "a logarithm": lambda m, h: h * math.log(len(h) + 3),
    "a tensor": lambda m, h: h / torch.tensor(3.0 * len(h)),
    "a number of NumPy": lambda m, h: h / np.int64(3 * len(h)),
    "filled in": lambda m, h: h + torch.full((1,), 3.3 * len(h), dtype=h.dtype),
    "of entries": lambda m, h: h / (0.1 * h.numel()),
    "counted one by one": lambda m, h: h / (7 * sum(1 for _ in h)),
    "of pieces": lambda m, h: h / (3 * len(h.split(1))),
    "an option": lambda m, h: torch.add(h, h, alpha=len(h) * 0.1),
    "a bound": lambda m, h: h.clamp(max=len(h) / 77),
    "an exponent": lambda m, h: h.abs() ** (len(h) / 100 + 0.01),
}


def guarded(module: Users, h: Tensor) -> Tensor:
    return h if len(h) == 0 else h / math.sqrt(module.dim // module.heads)


def of_heads(module: Users, h: Tensor) -> Tensor:
    width = module.dim // module.heads
    return (h.view(len(h), module.heads, width) / math.sqrt(width)).reshape(len(h), -1)


def gelu(module: Users, h: Tensor) -> Tensor:
    return (0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))).view(len(h), -1)


def with_default(module: Users, h: Tensor, scale: float = 0.77) -> Tensor:
    return h * scale if len(h) else h


def of_closure(table: Tensor):
    return lambda m, h: h * table


KNOWN = {
    "constants": lambda m, h: h if len(h) == 0 else h * 0.125 + 3,
    "attributes": lambda m, h: h.view(len(h), m.heads, -1).mul(m.eps).flatten(1),
    "a configuration": lambda m, h: h * m.config.scale if len(h) else h,
    "a constant of the file": lambda m, h: torch.cat([h, h.new_zeros(len(h), 3)], 1) * SCALE,
    "a width": lambda m, h: h / h.shape[-1] ** 0.5 if len(h) else h,
    "a guard": guarded,
    "heads": of_heads,
    "several constants": gelu,
    "a default": with_default,
    "what is left": lambda m, h: m.eps + h * (1 - SCALE) if len(h) else h,
    "a table": lambda m, h: h * TABLE,
    "a table in a list": lambda m, h: h * TABLES[1],
    "a table in a closure": of_closure(TABLE * 3),
    "another module": lambda m, h: ELSEWHERE(h),
}


@torch.jit.script
def centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(0)


def without_gradients(function):
    def call(module: Users, h: Tensor) -> Tensor:
        with torch.no_grad():
            unseen = function(h)
        return h + unseen * 2

    return call


@torch.jit.script
def mean(rows: Tensor) -> Tensor:
    return rows.mean()


UNSEEN = {
    "scripted": without_gradients(centred),
    "scripted, and then more": without_gradients(lambda h: (centred(h) > 0) * 0.5),
    "of a number": without_gradients(mean),
    "by another library": lambda m, h: h + torch.from_dlpack(h.detach()).mean(0),
}


def outcome(function) -> tuple[list[float], list[float]]:
    model = Net(lambda: Users(function), FORMS["rows"]).double()
    return run(2, model), run(1, model)


@pytest.mark.parametrize("name", COUNTED)
def test_a_number_that_depends_on_how_many_rows_there_are_is_refused(name):
    with pytest.raises(hr.InputError, match=r"Users, which computes with .*the number of rows, in .*row_local="):
        outcome(COUNTED[name])


@pytest.mark.parametrize("name", KNOWN)
def test_other_numbers_and_tensors_pass_where_the_number_of_rows_is_known(name):
    ranks, alone = outcome(KNOWN[name])
    assert ranks == pytest.approx(alone, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", UNSEEN)
def test_tensors_of_operations_that_cannot_be_seen_are_refused(name):
    with pytest.raises(hr.InputError, match=r"Users, which .*row_local="):
        outcome(UNSEEN[name])


def test_a_constant_that_is_a_root_of_the_number_of_rows_by_chance_passes():
    """A rank has 25 rows of a layer, and 0.2 is one over their root."""
    graph = hr.Graph.from_coo(torch.arange(50), torch.arange(50), num_nodes=50)
    plan = hr.ItemSampler(50, batch_size=50).sample_neighbor(graph, [1, 1])
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": torch.randn(50, WIDTH)}), node=["x"])
    owners = hr.Partition.of(torch.arange(50) % 2)
    models = [Net(lambda one=one: Users(one), FORMS["rows"]) for one in (sloped, by_root)]

    def rank(comm: hr.Comm, model: nn.Module) -> list[int]:
        net = copy.deepcopy(model)
        net = hr.cooperative(net, layers=list(net.layers))
        with plan.loader(cooperative=True, comm=comm, partition=owners) as loader:
            [batch] = loader
            assert batch.blocks[0].num_dst == 25
            return list(net(batch, batch.x, batch.blocks).shape)

    assert run_ranks(2, lambda comm: rank(comm, models[0])) == [[25, WIDTH]] * 2
    with pytest.raises(hr.InputError, match="the number of rows"):
        run_ranks(2, lambda comm: rank(comm, models[1]))


def sloped(module: Users, h: Tensor) -> Tensor:
    return (h if len(h) else h * 2) * 0.2


def by_root(module: Users, h: Tensor) -> Tensor:
    return h / len(h) ** 0.5
