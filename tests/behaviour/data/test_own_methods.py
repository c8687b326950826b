"""Methods of users that do not take what they are called with are refused by name, before work starts."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import graph, items

X = torch.arange(600.0).reshape(-1, 2)


def own(kind, **members):
    return type("Own", (kind,), {"name": "own", **members})


class Source(hr.FeatureSource):
    dtype, shape = X.dtype, tuple(X.shape)

    def read(self, ids, *, num_threads=1, to=None):
        return hr.Rows(X[ids])

    def content_digest(self):
        return "own"


class Drawing(hr.ext.BatchSource):
    num_batches = 1

    def seek(self, epoch, state):
        self.epoch, self.drawn = epoch, 0 if state is None else state["batch"]

    def draw(self):
        if self.drawn:
            raise StopIteration
        self.drawn += 1
        return hr.MiniBatch.of_seeds(torch.tensor([1, 2]), epoch=self.epoch, index=0)


def load(plan):
    return list(plan.loader())


def fetch(over=lambda source: source, **members):
    store = hr.FeatureStore(node={"x": over(type("Own", (Source,), members)())})
    return load(hr.ItemSampler(20, batch_size=8).fetch_feature(store, node=["x"]))


def draw(**members):
    source = own(hr.ext.SourceStage, seed=7, source=lambda self, settings: type("Own", (Drawing,), members)())
    return load(source())


def sample(**members):
    return load(items().then(own(hr.ext.HopSampler, **members)(graph(), [2])))


def run(**members):
    return load(items().then(own(hr.ext.MapStage, **members)()))


def cached(source):
    return hr.CachedFeature(source, rows=10)


CALLS = {
    "read without num_threads": (lambda: fetch(read=lambda self, ids: None), r"Own\.read to take \(ids, \*, num_thr"),
    "read below a cache": (lambda: fetch(cached, read=lambda self, ids: None), r"Own\.read to take \(ids"),
    "read of nothing": (lambda: fetch(read=lambda self: None), r"Own\.read to take"),
    "read is no function": (lambda: fetch(read=7), r"Own\.read to be a method, got int"),
    "expect is None": (
        lambda: fetch(foresight=4, expect=None),
        r"Own\.expect to be a method, got NoneType",
    ),
    "version_reader returns a number": (lambda: fetch(version_reader=lambda self: 5), r"Own\.version_reader to return"),
    "rule of nothing": (lambda: sample(rule=lambda self: None), r"Own\.rule to take \(fanout\)"),
    "rule is a number": (lambda: sample(rule=7), r"Own\.rule to be a method, got int"),
    "no name": (lambda: sample(name=None, rule=lambda self, fanout: None), r"Own\.name to be the name of the stage"),
    "runner of nothing": (lambda: run(runner=lambda self: None), r"Own\.runner to take \(settings\)"),
    "runner returns a function of nothing": (
        lambda: run(runner=lambda self, settings: lambda: None),
        r"what Own\.runner returns to take \(batch\)",
    ),
    "check of nothing": (
        lambda: run(runner=lambda self, settings: lambda batch: (batch, {}), check=lambda self: None),
        r"Own\.check to take \(before\)",
    ),
    "seek without a state": (lambda: draw(seek=lambda self, epoch: None), r"Own\.seek to take \(epoch, state\)"),
    "count of nothing": (lambda: draw(count=lambda self: 1), r"Own\.count to take \(epoch\)"),
    "transform of two": (lambda: load(items().transform(lambda a, b: a)), r"function to take \(batch\).*'b'"),
    "transform of a class": (lambda: load(items().transform(dict)), "got the class dict"),
}


@pytest.mark.parametrize("call", CALLS)
def test_refuses_what_cannot_be_called(call):
    work, message = CALLS[call]
    with pytest.raises(hr.HeadraceError, match=message):
        work()


def test_other_names_and_further_parameters_are_taken():
    fetch(read=lambda self, nodes, *, num_threads, to=None, more=1: hr.Rows(X[nodes]))
    fetch(read=lambda self, *args, **options: hr.Rows(X[args[0]]))
    sample(rule=staticmethod(lambda number, more=0: hr.ext.NeighborRule(number)))
    run(runner=lambda self, *args: lambda *args: (args[0], {}))
    draw(seek=lambda self, number, at=None: Drawing.seek(self, number, at))
    load(items().transform(torch.nn.Identity()))


def test_an_attribute_error_in_a_member_is_seen():
    def num_rows(self):
        return self.nothing

    with pytest.raises(AttributeError, match="nothing"):
        fetch(num_rows=property(num_rows))
