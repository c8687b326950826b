"""What messages of any layer may do over shards: what is of one edge passes, all else is refused with its line."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import NUM_CLASSES, WIDTH, assert_equal_training, edge_index, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")


def run(model: nn.Module, x: Tensor, edge: Tensor | None, place: object) -> Tensor:
    return model(x, place)


class Mixing(pyg.MessagePassing):
    """A layer whose messages do what `how` says."""

    def __init__(self, how: Any) -> None:
        super().__init__(aggr="sum")
        self.how = how

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor, index: Tensor) -> Tensor:
        return self.how(x_j, index)


class AtEnds(pyg.MessagePassing):
    """A layer that looks at its edges by itself."""

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        row, _ = edge_index
        return x[row]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            lambda x, index: x - x.mean(0),
            r"edges at once, in mean: .*test_messages_of_layers.py:\d+: ",
        ),
        (lambda x, index: x.softmax(0), "several edges at once, in softmax"),
        (lambda x, index: x.cumsum(0), "several edges at once, in cumsum"),
        (lambda x, index: x.flip(0), "several edges at once, in flip"),
        (lambda x, index: x[torch.arange(len(x) - 1, -1, -1)], "several edges at once, in __getitem__"),
        (lambda x, index: x * index.view(-1, 1), "uses the destinations of edges in mul"),
        (lambda x, index: x * (x.T @ x).sum(), "several edges at once, in __get__"),
        (lambda x, index: torch.einsum("ec,fc->ef", x, x) @ x, "several edges at once, in einsum"),
        (lambda x, index: nn.functional.layer_norm(x, tuple(x.shape)), "several edges at once, in layer_norm"),
        (lambda x, index: x * torch.arange(len(x)).view(-1, 1), "counts the edges that are together, by arange"),
        (lambda x, index: x.cummax(0)[0], "several edges at once, in cummax"),
        (lambda x, index: nn.LSTM(WIDTH, WIDTH).double()(x)[0], "uses lstm, of which it is not known"),
        (
            lambda x, index: nn.functional.batch_norm(x, None, None, training=True),
            "several edges at once, in batch_norm",
        ),
        (lambda x, index: x[index.argsort()], "uses the destinations of edges in argsort"),
    ],
)
def test_messages_that_look_at_other_edges_are_refused(how, words):
    place = hr.sar.ShardedGraph(graph())
    layer = hr.sar.wrap(Mixing(how), place)
    with pytest.raises(hr.InputError, match=words):
        layer(features(NUM_NODES, WIDTH), place)


@pytest.mark.parametrize(
    "how",
    [
        lambda x, index: x.softmax(-1) * x.cumsum(1) + torch.max(x, x.flip(1)),
        lambda x, index: (
            torch.einsum("ec,cd->ed", x, torch.ones(WIDTH, WIDTH, dtype=x.dtype)) @ torch.eye(WIDTH).double()
        ),
        lambda x, index: nn.functional.layer_norm(x, (WIDTH,)) + nn.functional.gelu(x).clamp(min=-1.0),
        lambda x, index: torch.cat([x[:, :3], x.view(-1, 2, 3).transpose(1, 2).reshape(-1, WIDTH)[:, 3:]], 1),
        lambda x, index: torch.stack([x, -x], 1).amax(1) * ((x > 0) & ~(x > 1)).to(x.dtype),
        lambda x, index: torch.bmm(x.unsqueeze(1), x.unsqueeze(2)).squeeze(1) * nn.functional.normalize(x),
        lambda x, index: (x * 1).add_(x).relu_().masked_fill(x > 2, 0.5),
        lambda x, index: nn.functional.conv1d(x.unsqueeze(1), torch.ones(1, 1, 3).double(), padding=1).squeeze(1),
    ],
)
def test_messages_that_work_edge_by_edge_pass(how):
    layer = Mixing(how)
    expected = layer(features(NUM_NODES, WIDTH), edge_index())

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        out = hr.sar.wrap(Mixing(how), place)(place.rows(features(NUM_NODES, WIDTH)), place)
        torch.testing.assert_close(out, expected[place.owned])

    run_ranks(2, work)


def test_other_refusals():
    place = hr.sar.ShardedGraph(graph())
    x = features(NUM_NODES, WIDTH).float()
    for layer, words in [
        (AtEnds(), "expected a layer to look at edges by propagate"),
        (pyg.GATv2Conv(WIDTH, 2, edge_dim=3, fill_value="max"), "expected fill_value to be mean, add or numbers"),
    ]:
        model = hr.sar.wrap(layer, place)
        edge = (place.edge_rows(features(graph().num_edges, 3)).float(),) if isinstance(layer, pyg.GATv2Conv) else ()
        with pytest.raises(hr.InputError, match=words):
            model(x, place, *edge)
    with pytest.raises(hr.InputError, match="with flow='target_to_source' cannot be computed over shards"):
        hr.sar.wrap(pyg.GINConv(nn.Linear(2, 2), flow="target_to_source"), place)
    model = hr.sar.wrap(pyg.GATv2Conv(WIDTH, 2), place)
    with pytest.raises(hr.InputError, match="return_attention_weights"):
        model(x, place, return_attention_weights=True)
    with pytest.raises(hr.InputError, match=r"expected an hr\.sar\.ShardedGraph, got 0"):
        model(x, edge_index())


class Centred(pyg.MessagePassing):
    """Subtracts the mean over rows, of which a rank has some, before it passes messages."""

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.propagate(edge_index, x=x - x.mean(0))


class Behind(pyg.MessagePassing):
    """Does something with what messages were reduced to, in one of two methods."""

    def __init__(self, function: Any, where: str) -> None:
        super().__init__(node_dim=0)
        self.function, self.where = function, where

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.propagate(edge_index, x=x)

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        out = inputs.new_zeros(dim_size, inputs.shape[1]).index_add(0, index, inputs)
        return self.function(out, dim_size) if self.where == "aggregate" else out

    def update(self, out: Tensor, dim_size: int) -> Tensor:
        return self.function(out, dim_size) if self.where == "update" else out


def size_of_all(rows: Tensor, number: int) -> Tensor:
    return rows / number


def centred(rows: Tensor, number: int) -> Tensor:
    return rows - rows.mean(0)


def rescaled(rows: Tensor, number: int) -> Tensor:
    rows = rows * 2
    return rows / rows.norm()


def without_the_last(rows: Tensor, number: int) -> Tensor:
    return torch.cat([rows[:-1] * 2, rows[-1:]])


@pytest.mark.parametrize("function", [size_of_all, centred, rescaled, without_the_last])
@pytest.mark.parametrize("where", ["aggregate", "update"])
def test_rows_behind_reductions_are_watched(function, where):
    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", comm.world_size), comm)
        hr.sar.wrap(Behind(function, where), place)(place.rows(features(NUM_NODES, WIDTH)), place)

    with pytest.raises(hr.InputError, match=r"test_messages_of_layers\.py:\d+"):
        run_ranks(2, work)


def test_the_forward_of_a_users_layer_is_watched_on_several_ranks():
    def work(comm: hr.Comm, **options: Any) -> None:
        layer = Centred()
        place = hr.sar.ShardedGraph(graph(), owners("hash", comm.world_size), comm)
        hr.sar.wrap(layer, place, row_local=[layer] if options else [])(place.rows(features(NUM_NODES, WIDTH)), place)

    words = r"work row by row but for propagate.*Centred, which .*test_messages_of_layers\.py:\d+"
    with pytest.raises(hr.InputError, match=words):
        run_ranks(2, work)
    run_ranks(1, work)
    run_ranks(2, lambda comm: work(comm, vouches=True))


class Counting(pyg.MessagePassing):
    """A layer that changes with its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("factor", torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        self.calls += 1
        self.factor = self.factor * 2
        return self.propagate(edge_index, x=x) * self.calls

    def message(self, x_j: Tensor) -> Tensor:
        return (x_j * self.factor).sin()


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lin = Counting(), nn.Linear(WIDTH, NUM_CLASSES)

    def forward(self, x: Tensor, place: object) -> Tensor:
        return self.lin(self.layer(torch.tanh(self.layer(x, place)), place))


def test_what_calls_change_is_as_it_was_for_each_of_them():
    torch.manual_seed(5)
    assert_equal_training(Twice().double(), run, 2, kind="hash", steps=2, alone=edge_index())


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("aggr", ["max", "min", "sum"])
def test_numbers_that_are_none(value, aggr):
    layer = pyg.SimpleConv(aggr)
    x = features(NUM_NODES, WIDTH).where(features(NUM_NODES, WIDTH) < 1, value)
    expected = layer(x, edge_index())

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        out = hr.sar.wrap(copy.deepcopy(layer), place)(place.rows(x), place)
        torch.testing.assert_close(out, expected[place.owned], equal_nan=True)

    run_ranks(3, work)


class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return rows * weight

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        rows, weight = ctx.saved_tensors
        return gradient * weight, (gradient * rows).sum(0)


class Weighted(pyg.MessagePassing):
    """A layer with a weight that a message uses as `how` says."""

    def __init__(self, how: Any) -> None:
        super().__init__(aggr="sum")
        self.how, self.weight = how, nn.Parameter(torch.full((WIDTH,), 0.5, dtype=torch.float64))

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor) -> Tensor:
        return self.how(x_j, self.weight)


def under_gradients(x: Tensor, weight: Tensor) -> Tensor:
    with torch.enable_grad():
        return (x * weight).tanh()


def test_weights_have_gradients_or_are_refused():
    place, x = hr.sar.ShardedGraph(graph()), features(NUM_NODES, WIDTH)
    plain, layer = Weighted(under_gradients), hr.sar.wrap(Weighted(under_gradients), place)
    plain(x, edge_index()).sum().backward()
    layer(place.rows(x), place).sum().backward()
    torch.testing.assert_close(layer.weight.grad, plain.weight.grad)
    with pytest.raises(hr.InputError, match="its gradient would be lost"):
        on_two_ranks(Weighted(Hidden.apply))


def on_two_ranks(layer: nn.Module) -> None:
    """Call a layer, and ask for the gradients of its result."""

    def work(comm: hr.Comm) -> None:
        with hr.sar.ShardedGraph(graph(), owners("hash", 2), comm) as place:
            wrapped = hr.sar.wrap(copy.deepcopy(layer), place)
            wrapped(place.rows(features(NUM_NODES, WIDTH)).requires_grad_(), place).sum().backward()

    run_ranks(2, work)


class Reading(pyg.MessagePassing):
    """A layer that reads what its message has set."""

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        out = self.propagate(edge_index, x=x)
        return out + self.seen.mean()

    def message(self, x_j: Tensor) -> Tensor:
        self.seen = x_j
        return x_j


class BySize(pyg.MessagePassing):
    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor, size_i: int) -> Tensor:
        return x_j / size_i


class AtEndsInTurn(pyg.MessagePassing):
    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return x.index_add(0, edge_index.T[:, 1], x[edge_index.T[:, 0]])


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Reading(), "expected what a message sets on its layer to stay unread"),
        (BySize(), "computes with the number of destinations"),
        (AtEndsInTurn(), "by propagate.* got T of edge_index"),
        (Mixing(lambda x, index: x / len(x)), "where fewer edges are together"),
        (
            Mixing(lambda x, index: x * (x[:, :1] * x[:, 0]).sum(1, keepdim=True)),
            "others where fewer edges are together",
        ),
        (Mixing(lambda x, index: x * torch.ones(3 * NUM_NODES, 1)[index]), "looks destinations up in .*600"),
        (Mixing(lambda x, index: x * index.to(x.dtype).view(-1, 1)), "computes with the destinations of edges, by to"),
    ],
)
def test_what_would_be_wrong_without_a_word_is_refused(layer, words):
    with pytest.raises(hr.InputError, match=words):
        on_two_ranks(layer)
