"""Modules of users between layers are watched by their operations: row by row without a word, or refused by line."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from between_layers import FORMS, WIDTH, Net, run, trained
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

pyg = pytest.importorskip("torch_geometric.nn")


class ByTotal(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return F.normalize(h, dim=0)


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


def routed(module: Users, h: Tensor) -> Tensor:
    """As a mixture of experts."""
    expert, out = module.lin(h).argmax(1), torch.zeros_like(h)
    for number in range(WIDTH):
        chosen = expert == number
        out[chosen] = module.lin(h[chosen]) * number
    return out


def swapped(h: Tensor) -> Tensor:
    chosen, others = h[:, 0] > -100, h[:, 1] > -100
    h = h.clone()
    h[chosen] = h[others]
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
    "summed before": lambda m, h: (h.t().reshape(2, 4, -1) + 1).sum(0).t().mean(1, keepdim=True),
    "table": lambda m, h: m.table[(h[:, 0] > 0).long()] + F.embedding((h[:, 1] > 0).long(), m.table),
    "sizes": lambda m, h: h + torch.full((len(h), 1), 0.5) + h.new_full(h.shape, 0.5),
    "log": logged,
    "routed": routed,
    "highest": lambda m, h: torch.zeros_like(h).scatter(1, h.topk(3, dim=1).indices, 1.0),
}
MIXED = {
    "in place": lambda m, h: centred(h),
    "first row": lambda m, h: first_scaled(h),
    "chosen by two masks": lambda m, h: swapped(h),
    "mean of those chosen": lambda m, h: h - h[h[:, 0] > 0].mean(0),
    "transposed": lambda m, h: h.t().softmax(-1).t(),
    "product": lambda m, h: h @ (h.t() @ h),
    "similar rows": lambda m, h: (h @ h.t()).softmax(-1)[:, :1] * (h @ h.t()).sum(-1, keepdim=True),
    "distances": lambda m, h: torch.cdist(h, h).sum(1, keepdim=True),
    "batches by a table": lambda m, h: h[:, None].bmm(m.table[: len(h), :, None]).flatten(1),
    "in another order": lambda m, h: h[..., torch.as_tensor(range(len(h), 0, -1)) - 1, :],
    "of all": lambda m, h: h if torch.equal(h, h.flip(0)) else h * 2,
    "arguments by name": lambda m, h: torch.prelu(input=h.t(), weight=m.table[0, 0].expand(len(h))).t(),
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
        hr.InputError,
        match=r"got .*test_row_watch_of_users\.Users, which .* \(test_row_watch_of_users\.py:\d+: .*row_local=",
    ):
        run(2, Net(lambda: Users(MIXED[name]), FORMS["rows"]).double())


def test_a_module_that_returns_some_of_the_rows_is_refused():
    with pytest.raises(hr.InputError, match="Users, which returns some of the rows"):
        run(2, Net(lambda: Users(lambda m, h: h[h[:, 0] > -100]), FORMS["rows"]).double())


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
    with pytest.raises(hr.InputError, match=r"test_row_watch_of_users\.ByTotal"):
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
            model.between = torch.compile(model.between, backend="aot_eager", fullgraph=True)
        else:
            model.between.compile(backend="aot_eager")
        return model

    plain = Net(lambda: Users(ROW_BY_ROW["MLP"]), FORMS["rows"]).double()
    assert trained(of(lambda: Users(ROW_BY_ROW["MLP"])))[0] == [pytest.approx(one) for one in trained(plain)[0]]
    with pytest.raises(hr.InputError, match=r"test_row_watch_of_users\.ByTotal, which looks at several rows at once"):
        trained(of(ByTotal))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_modules_may_be_recomputed(use_reentrant):
    def form(module: nn.Module, h: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(module, h, use_reentrant=use_reentrant)

    model = Net(lambda: Users(ROW_BY_ROW["MLP"]), form).double()
    assert run(2, model) == pytest.approx(run(1, model), rel=1e-6, abs=1e-9)
    with pytest.raises(hr.InputError, match=r"test_row_watch_of_users\.ByTotal"):
        run(2, Net(ByTotal, form).double())


def test_a_refusal_reaches_ranks_that_do_not_refuse():
    models = [Net(make, FORMS["rows"]).double() for make in (ByTotal, nn.Identity)]
    graph = hr.Graph.from_coo(torch.arange(100), (torch.arange(100) + 1) % 100, num_nodes=100)
    store = hr.FeatureStore(node={"x": torch.randn(100, WIDTH, dtype=torch.float64)})
    plan = hr.ItemSampler(80, batch_size=40, seed=1).sample_neighbor(graph, [1, 1]).fetch_feature(store, node=["x"])

    def rank(comm: hr.Comm) -> str:
        net = hr.cooperative(models[comm.rank])
        loader = plan.loader(cooperative=True, comm=comm)
        try:
            for batch in loader:
                net(batch, batch.x, batch.blocks)
        except hr.HeadraceError as error:
            return str(error)
        return ""

    for told in run_ranks(2, rank, timeout=20.0):
        assert "test_row_watch_of_users.ByTotal, which looks at several rows at once, in normalize" in told
