"""Calls that leave no trace in a module, whatever it keeps, counts and draws."""

from __future__ import annotations

import collections
import copy
import random

import numpy as np
import torch
from torch import nn

from headrace.pipeline.models.without_trace import Generators, call_without_trace


class Counter:
    def __init__(self) -> None:
        self.calls, self.seen = 0, []


class Keeping(nn.Module):
    """Whatever a layer of a user may do when it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("made_later", None)
        self.calls, self.log, self.by_name = 0, [], {"a": {"n": 0, "rows": []}}
        self.kinds, self.counted, self.recent = set(), collections.Counter(), collections.deque(maxlen=3)
        self.counter, self.array, self.shared = Counter(), np.zeros(2), None
        self.generator, self.of_python, self.of_numpy = torch.Generator(), random.Random(3), np.random.default_rng(3)
        self.generator.manual_seed(3)
        self.same = self.log

    def forward(self, h, *, fails=False):
        self.calls += 1
        self.total += h.detach().sum(0)
        self.made_later = h.detach()
        self.log.append(self.calls)
        assert self.same is self.log
        self.by_name["a"]["n"] += 1
        self.by_name["a"]["rows"].append(h)
        self.kinds.add(len(h))
        self.counted["h"] += 1
        self.recent.append(h)
        self.counter.calls += 1
        self.counter.seen.append(h)
        self.array += 1
        self.shared = self.norm[0].running_mean
        self.new = h
        drawn = torch.rand(1).item() + random.random() + np.random.rand()  # noqa: NPY002 - as users draw
        drawn += torch.rand(1, generator=self.generator).item() + self.of_python.random() + self.of_numpy.random()
        if fails:
            raise RuntimeError
        return self.norm(h) + drawn


def kept(layer):
    """All that a layer has, in words."""
    numbers = {name: one.tolist() for name, one in layer.state_dict().items()}
    plain = {name: one for name, one in vars(layer).items() if not name.startswith("_") and "of_" not in name}
    plain["counter"] = vars(layer.counter)
    plain["generator"] = layer.generator.get_state().tolist()
    plain["of_python"], plain["of_numpy"] = layer.of_python.getstate(), str(layer.of_numpy.bit_generator.state)
    return copy.deepcopy((numbers, str(plain), [one.training for one in layer.modules()], str(vars(layer))))


def drawn():
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state(legacy=False))  # noqa: NPY002


def test_a_module_is_what_it_was():
    layer, h = Keeping(), torch.randn(8, 3)
    passed = []
    layer.norm.register_forward_hook(lambda *args: passed.append(args))
    layer.norm[0].register_forward_pre_hook(lambda *args: passed.append(args))
    layer(h)
    passed.clear()
    before, seeds, held = kept(layer), drawn(), vars(layer)
    generators = Generators(torch.device("cpu"))
    outs = []
    for training in (True, True, False):
        generators.restore()
        outs.append(call_without_trace(layer, (h,), {}, training=training))
    assert generators.have_moved
    try:
        call_without_trace(layer, (h,), {"fails": True}, training=True)
    except RuntimeError:
        generators.restore()
    assert not generators.have_moved
    assert kept(layer) == before
    assert drawn() == seeds
    assert vars(layer) is held
    assert not passed
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    assert not any(one.requires_grad for one in outs)
    layer(h)
    assert len(passed) == 2


def test_what_cannot_be_copied_is_shared():
    class Closed:
        def __copy__(self):
            raise TypeError

    class OfHandles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.scaled = self.weight * 2
            self.closed, self.iterator, self.me = Closed(), iter([1, 2]), [self]

        def forward(self, h):
            assert self.me[0] is self
            return h * self.weight + self.scaled

    layer = OfHandles()
    held = dict(vars(layer))
    assert call_without_trace(layer, (torch.ones(2, 3),), {}, training=True).tolist() == [[3.0] * 3] * 2
    assert all(vars(layer)[name] is one for name, one in held.items())
    assert next(layer.iterator) == 1
