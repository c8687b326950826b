"""What layers of hr.nn leave out: passes over large arrays. Nobody who looks at their modules sees a difference."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import headrace as hr

LAYERS = {
    "sage": lambda: hr.nn.SAGEConv(8, 8),
    "sage by maxima": lambda: hr.nn.SAGEConv(8, 8, aggr="max"),
    "gin": lambda: hr.nn.GINConv(nn.Linear(8, 8)),
    "cluster": lambda: hr.nn.ClusterGCNConv(8, 8),
    "gcn": lambda: hr.nn.GCNConv(8, 8),
}


def block() -> hr.Block:
    generator = torch.Generator().manual_seed(0)
    indptr = torch.arange(0, 41, 4)
    return hr.Block(indptr, torch.randint(60, (40,), generator=generator), 60, 10)


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_of_rows_is_written_once(name):
    layer, x = LAYERS[name](), torch.randn(60, 8, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as events:
        layer(x * 1, block()).sum().backward()
    ran = [(event.name, event.input_shapes) for event in events.events()]
    assert "aten::slice_backward" not in {name for name, _ in ran}
    assert ("aten::add", [[60, 8], [60, 8], []]) not in ran


def test_sage_writes_one_output():
    layer, x = hr.nn.SAGEConv(8, 8), torch.randn(60, 8)
    with profile(activities=[ProfilerActivity.CPU]) as events:
        layer(x, block())
    assert not {event.name for event in events.events()} & {"aten::add", "aten::add_"}


def separate(layer: hr.nn.SAGEConv, x: torch.Tensor) -> torch.Tensor:
    return layer.lin_l(block().aggregate(x, reduce="mean")) + layer.lin_r(x[:10])


def both(layer: hr.nn.SAGEConv) -> list[list[torch.Tensor]]:
    """The output and all gradients, by the layer and by what it stands for."""
    x = torch.randn(60, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    leaves = [x, *layer.parameters()]
    outs = [layer(x, block()), separate(layer, x)]
    return [[out, *torch.autograd.grad(out.square().sum(), leaves)] for out in outs]


def changed(how: str) -> hr.nn.SAGEConv:
    layer = hr.nn.SAGEConv(8, 8)
    if how == "another module":  # whose output autograd keeps
        layer.lin_l = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    elif how == "a bias":
        layer.lin_r = nn.Linear(8, 8)
    elif how == "parametrised":
        nn.utils.parametrizations.weight_norm(layer.lin_r)
    elif how == "a replaced forward":
        layer.lin_r.forward = lambda x: nn.functional.linear(x, layer.lin_r.weight).tanh()
    return layer


@pytest.mark.parametrize("how", ["plain", "another module", "a bias", "parametrised", "a replaced forward"])
def test_modules_of_a_layer_may_be_others(how):
    for ours, theirs in zip(*both(changed(how)), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("module", ["lin_l", "lin_r"])
def test_hooks_see_what_a_module_returns(module, everywhere):
    layer, x, seen = hr.nn.SAGEConv(8, 8), torch.randn(60, 8), {}
    keep = lambda one, _, out: seen.setdefault(one, out)  # noqa: E731
    register = (
        nn.modules.module.register_module_forward_hook if everywhere else getattr(layer, module).register_forward_hook
    )
    handle = register(keep)
    try:
        out = layer(x, block())
    finally:
        handle.remove()
    expected = {"lin_l": layer.lin_l(block().aggregate(x, reduce="mean")), "lin_r": layer.lin_r(x[:10])}
    torch.testing.assert_close(seen[getattr(layer, module)], expected[module])
    torch.testing.assert_close(out, sum(expected.values()))


@pytest.mark.parametrize("how", ["a replaced forward", "another module"])
def test_scores_of_attention_are_of_what_a_module_returns(how):
    torch.manual_seed(0)
    layer, expected = (hr.nn.GATConv(8, 4, heads=2, edge_dim=3, bias=False) for _ in range(2))
    expected.load_state_dict(layer.state_dict())
    for name in ("lin", "lin_edge"):
        linear = getattr(layer, name)
        if how == "another module":
            setattr(layer, name, nn.Sequential(linear))
        else:
            linear.forward = lambda x, weight=linear.weight: nn.functional.linear(x, 2 * weight)
            getattr(expected, name).weight.data *= 2
    x, edge = torch.randn(60, 8), torch.randn(40, 3)
    torch.testing.assert_close(layer(x, block(), edge), expected(x, block(), edge))


@pytest.mark.parametrize("name", [*LAYERS, "attention"])
def test_outputs_may_be_changed_in_place(name):
    torch.manual_seed(0)
    layer = hr.nn.GATConv(8, 4, heads=2, bias=False) if name == "attention" else LAYERS[name]()
    x = torch.randn(60, 8, requires_grad=True)
    outs = layer(x, block()).relu_(), layer(x, block()).relu()
    results = [[out, *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])] for out in outs]
    assert all(map(torch.equal, *results))
