"""Cooperative training: outputs, gradients and steps are those of one process."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from ranks import run_ranks
from torch import nn
from training import NUM_CLASSES, WIDTH, assert_equal_training, store

import headrace as hr

from plans import NUM_NODES, graph, items

pytestmark = pytest.mark.slow


class Gcn(nn.Module):
    """A layer of graph convolution with edge weights, called with one h."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_in, num_out)

    def forward(self, block: hr.Block, h: torch.Tensor) -> torch.Tensor:
        sources, targets = block.edge_index
        weight = 1.0 if block.weight is None else block.weight[:, None]
        messages = self.linear(h)[sources] * weight
        return messages.new_zeros(block.num_dst, messages.shape[1]).index_add(0, targets, messages)


class Sage(nn.Module):
    """A layer of GraphSAGE, called with the rows of sources and those of destinations."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.own, self.neighbors = nn.Linear(num_in, num_out), nn.Linear(num_in, num_out)

    def forward(self, pair: tuple[torch.Tensor, torch.Tensor], block: hr.Block) -> torch.Tensor:
        sources, targets = block.edge_index
        total = pair[0].new_zeros(block.num_dst, pair[0].shape[1]).index_add(0, targets, pair[0][sources])
        return self.own(pair[1]) + self.neighbors(total / block.indptr.diff().clamp(min=1)[:, None])


class Gat(nn.Module):
    """A layer of attention, called with h by name."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.linear, self.left, self.right = (nn.Linear(num_in, size) for size in (num_out, 1, 1))

    def forward(self, block: hr.Block, *, h: torch.Tensor) -> torch.Tensor:
        sources, targets = block.edge_index
        scores = F.leaky_relu(self.left(h)[sources] + self.right(h)[targets]).exp()
        total = scores.new_zeros(block.num_dst, 1).index_add(0, targets, scores)
        messages = self.linear(h)[sources] * scores / total[targets]
        return self.linear(h[: block.num_dst]) + messages.new_zeros(block.num_dst, messages.shape[1]).index_add(
            0, targets, messages
        )


class Network(nn.Module):
    def __init__(self, kind: type[nn.Module], num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            kind(WIDTH, NUM_CLASSES if i == num_layers - 1 else WIDTH) for i in range(num_layers)
        )

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        h = x
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            if isinstance(layer, Sage):
                h = layer((h, h[: block.num_dst]), block)
            elif isinstance(layer, Gat):
                h = layer(block, h=h)
            else:
                h = layer(block, h)
            if i < len(self.layers) - 1:
                h = torch.tanh(h)
        return h


SAMPLERS = {
    "neighbor": lambda plan: plan.sample_neighbor(graph(), [4, 3]),
    "labor": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3]),
    "weighted": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3], weight="weight"),
    "full": lambda plan: plan.sample_neighbor(graph(), [-1, -1]),
    "labor_star": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3], importance="*"),
    "pladies": lambda plan: plan.sample_ladies(graph(), [20, 30], poisson=True),
}


def node_plan(sampler: str, dtype: torch.dtype) -> hr.Plan:
    return SAMPLERS[sampler](items(batch_size=40)).fetch_feature(store(dtype), node=["x"], labels="y")


def pair_plan(sampler: str, dtype: torch.dtype) -> hr.Plan:
    pairs = torch.arange(120).reshape(60, 2) * 7 % 101
    labelled = hr.ItemSampler((pairs, (torch.arange(60) % 2).to(dtype)), batch_size=23, shuffle=True, seed=4)
    return SAMPLERS[sampler](labelled).fetch_feature(store(dtype), node=["x"])


@pytest.mark.combinations(8)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("plan", [node_plan, pair_plan])
@pytest.mark.parametrize("kind", [Gcn, Sage, Gat])
def test_training_equals_one_process(kind, plan, world_size):
    torch.manual_seed(0)
    model = Network(kind, 2).double()
    assert_equal_training(plan("neighbor", torch.float64), model, world_size, 1e-10)


class PygNetwork(nn.Module):
    """Layers of PyG, called as its users do, or with what `block.to_pyg` returns."""

    def __init__(self, kind: str, *, converted: bool = False) -> None:
        super().__init__()
        self.converted = converted
        pyg = pytest.importorskip("torch_geometric.nn")
        # Attention over a node and its sampled in-neighbours; the others add the node by weights of their own.
        options = {"add_self_loops": False} if kind == "GATConv" else {}
        layer = getattr(pyg, kind)
        self.convs = nn.ModuleList([layer(WIDTH, WIDTH, **options), layer(WIDTH, NUM_CLASSES, **options)])

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        h = x
        for conv, block in zip(self.convs, blocks, strict=True):
            pair, edge_index, size = (h, h[: block.num_dst]), block.edge_index, (block.num_src, block.num_dst)
            if self.converted:
                pair, edge_index, size = block.to_pyg(h)
            h = conv(pair, edge_index, size=size).tanh()
        return h


@pytest.mark.parametrize("converted", [False, True])
@pytest.mark.parametrize("kind", ["SAGEConv", "GATConv", "GraphConv"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_layers_of_pyg(kind, world_size, converted):
    torch.manual_seed(7)
    model = PygNetwork(kind, converted=converted).double()
    assert_equal_training(node_plan("neighbor", torch.float64), model, world_size, 1e-10)


class Converting(Sage):
    """A layer that converts its block by itself, where its input has been exchanged."""

    def forward(self, pair: tuple[torch.Tensor, torch.Tensor], block: hr.Block) -> torch.Tensor:
        pair, edge_index, size = block.to_pyg(pair[0])
        assert size == (len(pair[0]), len(pair[1]))
        total = pair[0].new_zeros(size[1], pair[0].shape[1]).index_add(0, edge_index[1], pair[0][edge_index[0]])
        return self.own(pair[1]) + self.neighbors(total)


class Skipping(Network):
    """The blocks are converted between layers, the first one once more behind its layer, the second one twice."""

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        first, last = self.layers
        h = torch.tanh(first(blocks[0].to_pyg(x)[0], blocks[0])) + blocks[0].to_pyg(x)[0][1]
        own = blocks[1].to_pyg(h)[0][1]
        return last(blocks[1].to_pyg(h)[0], blocks[1]) + own[:, :NUM_CLASSES]


@pytest.mark.parametrize(("network", "layer"), [(Network, Converting), (Skipping, Sage), (Skipping, Converting)])
def test_blocks_convert_in_layers_and_between_them(network, layer):
    torch.manual_seed(8)
    assert_equal_training(node_plan("neighbor", torch.float64), network(layer, 2).double(), 3, 1e-10)


def test_blocks_convert_where_a_rank_sends_as_much_as_it_receives():
    """Rows of owned nodes are as many as those of sources then: their number does not tell them apart."""
    torch.manual_seed(9)
    # Each rank owns one node of a pair that needs the other, and both are seeds.
    pairs = hr.Graph.from_coo([0, 1], [1, 0], num_nodes=2)
    x = torch.randn(2, WIDTH, dtype=torch.float64)
    features = hr.FeatureStore(node={"x": x, "y": torch.tensor([0, 1])})
    plan = hr.ItemSampler(2, batch_size=2).sample_neighbor(pairs, [1, 1]).fetch_feature(features, node="x", labels="y")
    owners = hr.Partition.range(2, 2)
    assert_equal_training(plan, Skipping(Sage, 2).double(), 2, 1e-10, partition=owners)


def test_blocks_of_ranks_convert_only_with_exchanged_rows():
    def work(comm: hr.Comm) -> None:
        with node_plan("neighbor", torch.float32).loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            block = batch.blocks[1]
            owned = torch.zeros(len(batch.exchanges[1].owned), WIDTH)
            with pytest.raises(hr.InputError, match=r"or begin layer i with h = batch.exchange\(i, h\)"):
                block.to_pyg(owned)
            rows = batch.exchange(1, owned)
            assert block.to_pyg(rows)[0][0] is rows
            with pytest.raises(hr.InputError, match="expected a batch of one process"):
                batch.to_pyg()

    run_ranks(2, work)


@pytest.mark.combinations(5)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", ["hash", "range"])
def test_training_equals_one_process_with_every_sampler(sampler, kind):
    torch.manual_seed(1)
    owners = getattr(hr.Partition, kind)(NUM_NODES, 3)
    assert_equal_training(node_plan(sampler, torch.float64), Network(Sage, 2).double(), 3, 1e-10, partition=owners)


class Normalised(Network):
    """Batch normalisation behind each layer but the last."""

    def __init__(self, kind: type[nn.Module], num_layers: int) -> None:
        super().__init__(kind, num_layers)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        first, last = self.layers
        h = F.relu(self.norm(first(blocks[0], x)))
        return last(blocks[1], h)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_batch_normalisation_equals_one_process(world_size):
    torch.manual_seed(3)
    assert_equal_training(node_plan("neighbor", torch.float64), Normalised(Gcn, 2).double(), world_size, 1e-10)


class Dropping(Network):
    """Dropout on the input, inside the layers and between them."""

    def __init__(self, kind: type[nn.Module], num_layers: int) -> None:
        super().__init__(kind, num_layers)
        self.dropout = nn.Dropout(0.3)
        for layer in self.layers:
            layer.linear = nn.Sequential(nn.Dropout(0.2), layer.linear)

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        first, last = self.layers
        return self.dropout(last(blocks[1], self.dropout(torch.tanh(first(blocks[0], self.dropout(x))))))


@pytest.mark.parametrize("plan", [node_plan, pair_plan])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_dropout_equals_one_process(world_size, plan):
    torch.manual_seed(5)
    assert_equal_training(plan("neighbor", torch.float64), Dropping(Gcn, 2).double(), world_size, 1e-10)


def test_dropout_drops_and_has_seeds():
    torch.manual_seed(6)
    model, plan = Dropping(Gcn, 2).double(), node_plan("neighbor", torch.float64)
    batch = next(iter(plan.loader()))
    first, again, other = (
        hr.cooperative(copy.deepcopy(model), seed=seed)(batch, batch.x, batch.blocks) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    kept = hr.cooperative(copy.deepcopy(model)).eval()(batch, batch.x, batch.blocks)
    whole = kept != 0  # but for nodes without in-edges
    assert 0.15 < (first[whole] == 0).double().mean() < 0.45


def test_dropouts_of_one_model_have_masks_of_their_own():
    """Also if they drop the same rows, one behind the other."""
    batch = next(iter(items().sample_neighbor(graph(), [3]).loader()))

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Dropout(0.5), nn.Dropout(0.5)
            self.layers = nn.ModuleList([nn.Identity()])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.dropped = [self.first(x), self.second(x), self.first(x)]
            return self.layers[0](x)[: batch.blocks[0].num_dst]

    model = Twice()
    hr.cooperative(model)(batch, torch.ones(len(batch.n_id), 16))
    masks = [rows != 0 for rows in model.dropped]
    elements = masks[0].numel()
    for number, mask in enumerate(masks):
        for other in masks[:number]:
            # Half of the elements agree by chance; five standard deviations are 2.5 * sqrt(elements).
            assert abs(int((mask == other).sum()) - elements / 2) < 2.5 * elements**0.5


def test_running_estimates_are_those_of_one_process():
    torch.manual_seed(4)
    alone, plan = Normalised(Gcn, 2).double(), node_plan("neighbor", torch.float64)
    together = [copy.deepcopy(alone) for _ in range(3)]
    for batch in plan.loader():
        alone(batch.x, batch.blocks)

    def work(comm: hr.Comm) -> None:
        model = hr.cooperative(together[comm.rank])
        with plan.loader(comm=comm, cooperative=True) as loader:
            for batch in loader:
                model(batch, batch.x, batch.blocks)

    run_ranks(3, work)
    for model in together:
        for left, right in zip(model.norm.buffers(), alone.norm.buffers(), strict=True):
            torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_training_in_single_precision():
    torch.manual_seed(2)
    assert_equal_training(node_plan("labor", torch.float32), Network(Sage, 2), 4, 1e-5)


def test_batch_normalisation_of_inputs_is_refused():
    class First(Network):
        def __init__(self) -> None:
            super().__init__(Gcn, 2)
            self.norm = nn.BatchNorm1d(WIDTH)

        def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
            return super().forward(self.norm(x), blocks)

    first = First()

    def work(comm: hr.Comm) -> None:
        model = hr.cooperative(copy.deepcopy(first))
        with node_plan("neighbor", torch.float32).loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            with pytest.raises(hr.InputError, match="would count a node once for each"):
                model(batch, batch.x, batch.blocks)

    run_ranks(2, work)


def test_models_are_wrapped_once():
    model = Network(Gcn, 2)
    hr.cooperative(model)
    with pytest.raises(hr.InputError, match="exchanges rows already"):
        hr.cooperative(model)


def test_modules_that_stand_in_several_places_are_replaced_everywhere():
    dropout = nn.Dropout(0.5)
    model = hr.cooperative(nn.Sequential(dropout, nn.Linear(2, 2), dropout), layers=[]).model
    assert model[0] is model[2]
    assert type(model[0]) is not nn.Dropout


def test_parameters_without_gradient_keep_none():
    def work(comm: hr.Comm) -> tuple[object, object]:
        used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
        if comm.rank == 0:
            used.grad = torch.full((2,), 3.0)
        hr.sum_gradients([used, unused], comm)
        return used.grad, unused.grad

    for used, unused in run_ranks(2, work):
        assert used.tolist() == [3.0, 3.0]
        assert unused is None
