"""Modules between layers of cooperating ranks are those of one process for any number of ranks, or are refused."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

pyg = pytest.importorskip("torch_geometric.nn")

SIZES = [2, 3]
WIDTH = 8


class ByTotal(nn.Module):
    """A module of a user."""

    def forward(self, h: Tensor) -> Tensor:
        return F.normalize(h, dim=0)


class ByNumber(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return h / len(h)


class ByPosition(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return h + torch.arange(len(h), dtype=h.dtype)[:, None] / 100


class Summary(nn.Module):
    """One row for all nodes, as a virtual node has it."""

    def forward(self, h: Tensor) -> Tensor:
        return h.mean(0, keepdim=True)


def width() -> dict[str, object]:
    return {"d_model": WIDTH, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0}


#: What takes arguments other than none.
MADE = {
    nn.AdaptiveAvgPool1d: lambda: nn.AdaptiveAvgPool1d(4),
    nn.AdaptiveAvgPool2d: lambda: nn.AdaptiveAvgPool2d(4),
    nn.AdaptiveMaxPool1d: lambda: nn.AdaptiveMaxPool1d(4),
    nn.AvgPool1d: lambda: nn.AvgPool1d(3, 1, 1),
    nn.BatchNorm1d: lambda: nn.BatchNorm1d(WIDTH),
    nn.ChannelShuffle: lambda: nn.ChannelShuffle(2),
    nn.Conv1d: lambda: nn.Conv1d(WIDTH, WIDTH, 1),
    nn.ConvTranspose1d: lambda: nn.ConvTranspose1d(WIDTH, WIDTH, 1),
    nn.GroupNorm: lambda: nn.GroupNorm(2, WIDTH),
    nn.GRU: lambda: nn.GRU(WIDTH, WIDTH),
    nn.GRUCell: lambda: nn.GRUCell(WIDTH, WIDTH),
    nn.InstanceNorm1d: lambda: nn.InstanceNorm1d(WIDTH),
    nn.LPPool1d: lambda: nn.LPPool1d(2, 1),
    nn.LSTM: lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True),
    nn.LSTMCell: lambda: nn.LSTMCell(WIDTH, WIDTH),
    nn.LayerNorm: lambda: nn.LayerNorm(WIDTH),
    nn.Linear: lambda: nn.Linear(WIDTH, WIDTH),
    nn.LocalResponseNorm: lambda: nn.LocalResponseNorm(2),
    nn.MaxPool1d: lambda: nn.MaxPool1d(3, 1, 1),
    nn.PixelShuffle: lambda: nn.PixelShuffle(1),
    nn.RNN: lambda: nn.RNN(WIDTH, WIDTH),
    nn.RNNCell: lambda: nn.RNNCell(WIDTH, WIDTH),
    nn.Threshold: lambda: nn.Threshold(0.1, 0.0),
    nn.TransformerEncoderLayer: lambda: nn.TransformerEncoderLayer(**width()),
    nn.TransformerEncoder: lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**width()), 1),
    nn.Upsample: lambda: nn.Upsample(scale_factor=1.0),
    pyg.AttentionalAggregation: lambda: pyg.AttentionalAggregation(nn.Linear(WIDTH, 1)),
    pyg.DiffGroupNorm: lambda: pyg.DiffGroupNorm(WIDTH, 2),
    pyg.GraphSizeNorm: pyg.GraphSizeNorm,
    pyg.JumpingKnowledge: lambda: pyg.JumpingKnowledge("max"),
    pyg.MLP: lambda: pyg.MLP([WIDTH, 16, WIDTH]),
    pyg.PairNorm: pyg.PairNorm,
    pyg.Set2Set: lambda: pyg.Set2Set(WIDTH, 1),
    pyg.SoftmaxAggregation: pyg.SoftmaxAggregation,
    pyg.QuantileAggregation: lambda: pyg.QuantileAggregation(0.5),
    pyg.PowerMeanAggregation: pyg.PowerMeanAggregation,
}
MORE = {
    "RReLU": nn.RReLU,
    "LayerNorm of graphs": lambda: pyg.LayerNorm(WIDTH),
    "LayerNorm of nodes": lambda: pyg.LayerNorm(WIDTH, mode="node"),
    "Softmax over rows": lambda: nn.Softmax(dim=0),
    "Softmax over columns": lambda: nn.Softmax(dim=-1),
    "LogSoftmax over rows": lambda: nn.LogSoftmax(dim=0),
    "Softmin over rows": lambda: nn.Softmin(dim=0),
    "MLP of users": lambda: nn.Sequential(nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, WIDTH)),
    "attention with draws": lambda: nn.MultiheadAttention(WIDTH, 2, dropout=0.5),
    "GRU with draws": lambda: nn.GRU(WIDTH, WIDTH, 2, dropout=0.5),
    "Transformer by batches": lambda: nn.TransformerEncoderLayer(**width(), batch_first=True),
    "normalised over rows": ByTotal,
    "divided by the number of rows": ByNumber,
    "a row by its position": ByPosition,
    "one row": Summary,
}


def kinds() -> dict[str, object]:
    """What each class of torch's and PyG's norms, aggregations and attentions makes, as far as it can be called."""
    found = {name: getattr(nn, name) for name in dir(nn)}
    for module in (pyg.norm, pyg.aggr, pyg.attention):
        found.update({f"pyg.{name}": getattr(module, name) for name in dir(module)})
    found.update({"pyg.MLP": pyg.MLP, "pyg.JumpingKnowledge": pyg.JumpingKnowledge})
    classes = {name: one for name, one in found.items() if isinstance(one, type) and issubclass(one, nn.Module)}
    # Lazy modules have parameters of their own on each rank, which are compared with the next batch.
    kept = {name: one for name, one in classes.items() if not name.startswith("Lazy") and not name.endswith("Loss")}
    makers = {name: MADE.get(one, one) for name, one in kept.items()}
    return {name: make for name, make in {**makers, **MORE}.items() if made(make) is not None}


def made(make) -> nn.Module | None:
    """Return a module, None if it takes other arguments than those that are tried here."""
    for arguments in ((), (WIDTH,), (WIDTH, 2)):
        with suppress(Exception):
            return make(*arguments)
    return None


KINDS = kinds()


def rows_of(out: object) -> Tensor:
    """Return the rows that a module returns first."""
    return out[0] if isinstance(out, tuple) else out


#: How a model may call a module for its rows.
FORMS = {
    "rows": lambda module, h: module(h),
    "sequence": lambda module, h: rows_of(module(h.unsqueeze(1))).squeeze(1),
    "one item": lambda module, h: rows_of(module(h.unsqueeze(0))).squeeze(0),
    "channels": lambda module, h: module(h.unsqueeze(2)).squeeze(2),
    "transposed": lambda module, h: module(h.t()).t(),
    "itself": lambda module, h: module(h, h, h),
    "layers": lambda module, h: module([h, 2 * h]),
    "by group": lambda module, h: module(h, torch.zeros(len(h), dtype=torch.int64)),
}


class Net(nn.Module):
    def __init__(self, make, form) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([pyg.SAGEConv(WIDTH, WIDTH), pyg.SAGEConv(WIDTH, WIDTH)])
        self.between = made(make)
        self.form = form

    def forward(self, h: Tensor, blocks) -> Tensor:
        for conv, block in zip(self.layers, blocks, strict=True):
            h = conv((h, h[: block.num_dst]), block.edge_index)
            out = rows_of(self.form(self.between, h))
            h = h + out.reshape(*out.shape[:1], -1).mean(1, keepdim=True)  # of any width, and of one row
        return h


def run(size: int, model: Net) -> list[float]:
    """Return loss and gradient of the first layer over so many ranks."""
    generator = torch.Generator().manual_seed(1)
    graph = hr.Graph.from_coo(*torch.randint(0, 300, (2, 2_000), generator=generator), num_nodes=300)
    store = hr.FeatureStore(node={"x": torch.randn(300, WIDTH, dtype=torch.float64, generator=generator)})
    plan = hr.ItemSampler(60, batch_size=60, seed=1).sample_neighbor(graph, [4, 4]).fetch_feature(store, node=["x"])

    def rank(comm: hr.Comm) -> list[float]:
        net = copy.deepcopy(model)
        net = hr.cooperative(net, layers=list(net.layers))
        with plan.loader(cooperative=True, comm=comm) as loader:
            [batch] = loader
            loss = net(batch, batch.x, batch.blocks).sin().sum()
            loss.backward()
            hr.sum_gradients(net, comm)
            [first, *_] = net.parameters()
            return [float(comm.all_reduce_sum(loss.detach()[None])), *first.grad.flatten().tolist()]

    return run_ranks(size, rank, timeout=20.0)[0]


@pytest.mark.combinations(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_modules_are_exact_or_refused(name):
    """Whatever a class does, in each form of call that it takes."""
    for form in FORMS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Net(KINDS[name], form).double()
            whole: list[float] = []
            with suppress(Exception):  # no form in which it can be called, or refused on one process as well
                whole = run(1, model)
            for size in SIZES if whole else ():
                with suppress(hr.InputError):
                    assert run(size, model) == pytest.approx(whole, rel=1e-6, abs=1e-9, nan_ok=True)


@pytest.mark.slow
@pytest.mark.combinations(8)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("TransformerEncoderLayer", "rows"),
        ("TransformerEncoderLayer", "sequence"),
        ("Transformer by batches", "one item"),
        ("MultiheadAttention", "itself"),
        ("GRU", "rows"),
        ("LSTM", "rows"),
        ("Softmax over rows", "rows"),
        ("normalised over rows", "rows"),
        ("divided by the number of rows", "rows"),
        ("a row by its position", "rows"),
        ("one row", "rows"),
        ("pyg.MeanAggregation", "by group"),
    ],
)
def test_modules_that_mix_rows_are_refused(name, form, size):
    with pytest.raises(hr.InputError, match=r"expected modules between layers to work row by row.*normalise by nn"):
        run(size, Net(KINDS[name], FORMS[form]).double())


@pytest.mark.parametrize("name", ["RReLU", "attention with draws", "GRU with draws", "FractionalMaxPool2d"])
def test_modules_that_draw_are_refused_on_one_process_as_well(name):
    with pytest.raises(hr.InputError, match="would draw on each rank for itself"):
        hr.cooperative(Net(KINDS.get(name, lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5)), FORMS["rows"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Transformer by batches", "sequence"),
        ("GRUCell", "rows"),
        ("LSTM", "sequence"),
        ("pyg.JumpingKnowledge", "layers"),
        ("pyg.MLP", "rows"),
        ("MLP of users", "rows"),
        ("BatchNorm1d", "rows"),
        ("Dropout", "rows"),
        ("pyg.DiffGroupNorm", "rows"),
        ("Softmax over columns", "rows"),
        ("LayerNorm of nodes", "rows"),
    ],
)
def test_modules_that_work_row_by_row_are_taken(name, form):
    model = Net(KINDS[name], FORMS[form]).double()
    assert run(2, model) == pytest.approx(run(1, model), rel=1e-6, abs=1e-9)


def test_dropout_of_other_than_rows_is_refused():
    """Masks would be those of the first nodes of each rank."""
    with pytest.raises(hr.InputError, match=r"expected dropout of the rows of .* nodes, got 1 rows"):
        run(2, Net(nn.Dropout, FORMS["one item"]).double())


def trained(model: nn.Module, **options) -> list[list[list[float]]]:
    """Return the outputs of two ranks, of two batches in each of three epochs."""
    graph = hr.Graph.from_coo(torch.arange(100), (torch.arange(100) + 1) % 100, num_nodes=100)
    x = torch.arange(100 * WIDTH, dtype=torch.float64).view(100, WIDTH).sin()
    plan = hr.ItemSampler(80, batch_size=40, seed=1).sample_neighbor(graph, [1, 1])
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])

    def rank(comm: hr.Comm) -> list[list[float]]:
        copied = copy.deepcopy(model)
        vouched = {name: [getattr(copied, one) for one in names] for name, names in options.items()}
        net = hr.cooperative(copied, **vouched)
        outs = []
        with plan.loader(cooperative=True, comm=comm) as loader:
            for mode in (True, True, False):
                net.train(mode)
                outs += [net(batch, batch.x, batch.blocks).flatten().tolist() for batch in loader]
        assert options or not any("forward" in vars(one) for one in copied.modules() if not hasattr(one, "_orig_mod"))
        return outs

    return run_ranks(2, rank)


def test_modules_are_called_once_and_left_as_they_were():
    calls = []

    class Noting(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            calls.append(self.training)
            return h

    trained(Net(Noting, FORMS["rows"]).double())
    assert len(calls) == 2 * 3 * 2 * 2  # three epochs of two batches and layers


class Users(nn.Module):
    """A module of a user, which computes a function of rows."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.lin = function, nn.Linear(WIDTH, WIDTH)
        self.register_buffer("table", torch.randn(1_000, WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        return self.function(self, h)


def filled(h: Tensor) -> Tensor:
    out = h.new_zeros(len(h), 2 * WIDTH)
    out[:, :WIDTH] = h
    out[:, WIDTH:].copy_(h.relu())
    out[out < -0.5] = 0.0
    return out


def centred(h: Tensor) -> Tensor:
    h = h.clone()
    h -= h.mean(0)
    return h


def first_scaled(h: Tensor) -> Tensor:
    h = h.clone()
    h[0] *= 2
    return h


def logged(module: Users, h: Tensor) -> Tensor:
    module.seen = h.detach().mean(0)
    return h


ROW_BY_ROW = {
    "MLP": lambda m, h: m.lin(F.relu(F.layer_norm(m.lin(h), [WIDTH])) + h).sigmoid() * h.norm(dim=1, keepdim=True),
    "merged with heads": lambda m, h: F.relu(h.view(-1, 2) @ h.new_ones(2, 2)).reshape(len(h), WIDTH),
    "heads": lambda m, h: torch.einsum("nhi,nhj->nij", h.view(-1, 2, 4), h.view(-1, 2, 4)).flatten(1),
    "in another dimension": lambda m, h: (h.t() * 2).softmax(0).unsqueeze(0).transpose(1, 2).squeeze(0),
    "new tensors": lambda m, h: torch.cat([h, h.new_ones(h.shape[0], 1), torch.zeros(len(h), 2)], dim=1),
    "filled": lambda m, h: filled(h),
    "sorted": lambda m, h: h.topk(3, dim=1).values.cumsum(1) + h.argmax(1, keepdim=True),
    "steps": lambda m, h: torch.stack([h, m.lin(h)], dim=1).max(dim=1).values.unbind(1)[0][:, None],
    "attention": lambda m, h: F.scaled_dot_product_attention(*[h.view(-1, 4, 2)] * 3).mean((1, 2))[:, None],
    "table": lambda m, h: m.table[(h[:, 0] > 0).long()] + F.embedding((h[:, 1] > 0).long(), m.table),
    "log": logged,
}
MIXED = {
    "in place": lambda m, h: centred(h),
    "first row": lambda m, h: first_scaled(h),
    "transposed": lambda m, h: h.t().softmax(-1).t(),
    "product": lambda m, h: h @ (h.t() @ h),
    "rows with rows": lambda m, h: (h[:, None] * h[None]).sum(-1)[:, :1],
    "by a number": lambda m, h: h / h.max().item(),
    "by their number": lambda m, h: h / h.size(0) ** 0.5,
    "by the root of their number": lambda m, h: h / len(h) ** 0.5,
    "by a tensor of their number": lambda m, h: h / torch.tensor(float(len(h))),
    "by what counts them": lambda m, h: h / h.new_ones(len(h)).sum(),
    "by a table": lambda m, h: h + m.table[: len(h)],
    "by positions": lambda m, h: h + F.one_hot(torch.arange(h.shape[0]) % WIDTH, WIDTH),
    "shuffled": lambda m, h: h[torch.randperm(len(h))],
    "rolled": lambda m, h: h.roll(1, 0),
    "in order": lambda m, h: h.cumsum(0),
    "flat": lambda m, h: h.flatten().softmax(0).view_as(h),
    "parts": lambda m, h: torch.cat([h[1:], h[:1]]),
    "for each": lambda m, h: torch.stack([row + number for number, row in enumerate(h)]),
}


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_a_module_of_a_user_that_works_row_by_row_passes_without_a_word(name):
    model = Net(lambda: Users(ROW_BY_ROW[name]), FORMS["rows"]).double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(2, model) == pytest.approx(run(1, model), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", MIXED)
def test_a_module_of_a_user_that_mixes_rows_is_refused_with_its_line(name):
    with pytest.raises(
        hr.InputError, match=r"got .*test_row_watch\.Users, which .* \(test_row_watch\.py:\d+: .*row_local="
    ):
        run(2, Net(lambda: Users(MIXED[name]), FORMS["rows"]).double())


@pytest.mark.parametrize("form", ["rows", "one item", "transposed"])
def test_as_many_rows_as_columns(form):
    """A rank has 20 rows of 20 columns: the dimension of rows is known by their place in memory."""
    across = {"rows": (0, 1), "one item": (1, 2), "transposed": (1, 0)}[form]

    class Square(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.layers = nn.ModuleList([pyg.SAGEConv(WIDTH, 20), pyg.SAGEConv(20, 20)])
            self.between = nn.Softmax(dim=dim)

        def forward(self, h: Tensor, blocks) -> Tensor:
            h = self.layers[0]((h, h[: blocks[0].num_dst]), blocks[0].edge_index)
            h = FORMS[form](self.between, h)
            return self.layers[1]((h, h[: blocks[1].num_dst]), blocks[1].edge_index)

    graph = hr.Graph.from_coo(torch.arange(40), torch.arange(40), num_nodes=40)
    plan = hr.ItemSampler(40, batch_size=40).sample_neighbor(graph, [1, 1])
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": torch.randn(40, WIDTH)}), node=["x"])
    owners = hr.Partition.of(torch.arange(40) % 2)

    models = [Square(dim) for dim in across]

    def rank(comm: hr.Comm, model: nn.Module) -> list[int]:
        net = hr.cooperative(copy.deepcopy(model))
        with plan.loader(cooperative=True, comm=comm, partition=owners) as loader:
            [batch] = loader
            assert batch.blocks[0].num_dst == 20
            return list(net(batch, batch.x, batch.blocks).shape)

    with pytest.raises(hr.InputError, match="looks at several rows at once, in softmax"):
        run_ranks(2, lambda comm: rank(comm, models[0]))
    assert run_ranks(2, lambda comm: rank(comm, models[1])) == [[20, 20]] * 2


def test_modules_that_cannot_be_seen_are_declared():
    model = Net(lambda: torch.jit.script(nn.Linear(WIDTH, WIDTH)), FORMS["rows"]).double()
    with pytest.raises(hr.InputError, match=r"cannot be seen .*cooperative\(\.\.\., row_local=\[model\.module\]\)"):
        trained(model)
    plain = copy.deepcopy(model)
    plain.between = nn.Linear(WIDTH, WIDTH).double()
    plain.between.load_state_dict(model.between.state_dict())
    assert trained(model, row_local=["between"])[0] == [pytest.approx(one) for one in trained(plain)[0]]


def test_modules_inside_of_others_are_declared():
    """What they compute is not looked at, and is of rows for the module around them."""
    model = Net(lambda: nn.Sequential(ByTotal(), nn.Linear(WIDTH, WIDTH)), FORMS["rows"]).double()
    model.inner = model.between[0]
    with pytest.raises(hr.InputError, match=r"test_row_watch\.ByTotal"):
        trained(model)
    assert len(trained(model, row_local=["inner"])) == 2


@pytest.mark.parametrize("value", [[3], [nn.Linear(2, 2)]])
def test_row_local_names_modules_of_the_model(value):
    with pytest.raises(hr.InputError, match=r"expected modules of the model in row_local, got (int|Linear)"):
        hr.cooperative(Net(ByTotal, FORMS["rows"]), row_local=value)


@pytest.mark.parametrize("compiled", ["module", "in place"])
def test_the_original_of_a_compiled_module_is_watched(compiled):
    def of(make) -> nn.Module:
        model = Net(make, FORMS["rows"]).double()
        if compiled == "module":
            model.between = torch.compile(model.between, backend="eager")
        else:
            model.between.compile(backend="eager")
        return model

    plain = Net(lambda: Users(ROW_BY_ROW["MLP"]), FORMS["rows"]).double()
    assert trained(of(lambda: Users(ROW_BY_ROW["MLP"])))[0] == [pytest.approx(one) for one in trained(plain)[0]]
    with pytest.raises(hr.InputError, match=r"test_row_watch\.ByTotal, which looks at several rows at once"):
        trained(of(ByTotal))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_modules_may_be_recomputed(use_reentrant):
    def form(module: nn.Module, h: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(module, h, use_reentrant=use_reentrant)

    model = Net(lambda: Users(ROW_BY_ROW["MLP"]), form).double()
    assert run(2, model) == pytest.approx(run(1, model), rel=1e-6, abs=1e-9)
    with pytest.raises(hr.InputError, match=r"test_row_watch\.ByTotal"):
        run(2, Net(ByTotal, form).double())
