"""Any torchdata node can be a source, and a loader can be a node."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import PLANS, graph, items


class Ids:
    """Yields the seeds of five batches; its state is one integer."""

    def __init__(self):
        self.next_batch = 0

    def reset(self, initial_state=None):
        self.next_batch = 0 if initial_state is None else initial_state["next"]

    def __next__(self):
        if self.next_batch == 5:
            raise StopIteration
        self.next_batch += 1
        return torch.arange(6) * self.next_batch

    def state_dict(self):
        return {"next": self.next_batch}


def node_plan(workers=1):
    return hr.ext.NodeSource(Ids(), seed=5).sample_neighbor(graph(), [3, 2]).prefetch(workers=workers)


def test_a_node_is_a_source():
    loader = node_plan().loader()
    batches = list(loader)
    assert [batch.seeds.tolist() for batch in batches] == [
        (torch.arange(6) * number).tolist() for number in range(1, 6)
    ]
    assert batches[1].item_index.tolist() == [6, 7, 8, 9, 10, 11]
    with pytest.raises(TypeError, match="number of batches"):
        len(loader)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_node_source_resumes_at_any_batch(workers):
    loader = node_plan(workers).loader()
    seen, states = [], [loader.state_dict()]
    for _ in loader.epochs(2):
        for batch in loader:
            seen.append(batch.digest())
            states.append(loader.state_dict())
    assert len(set(seen)) == 10
    for done, state in enumerate(states):
        resumed = node_plan().loader()
        resumed.load_state_dict(state)
        tail = []
        while len(tail) < len(seen) - done:
            tail += [batch.digest() for batch in resumed]
        assert tail == seen[done:]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_no_epoch_is_empty_after_resuming_behind_the_last_batch(workers):
    """The source does not know its length: what is left of an epoch shows when a batch is asked for."""
    loader = node_plan(workers).loader()
    for batch in loader:
        last, state = batch, loader.state_dict()
    assert (last.epoch, last.index) == (0, 4)
    expected = [batch.digest() for batch in loader]
    resumed = node_plan(workers).loader()
    resumed.load_state_dict(state)
    batches = list(resumed)
    assert [(batch.epoch, batch.index) for batch in batches] == [(1, index) for index in range(5)]
    assert [batch.digest() for batch in batches] == expected
    assert [batch.epoch for batch in resumed] == [2] * 5


def test_torchdata_batcher_is_a_source():
    nodes = pytest.importorskip("torchdata.nodes", reason="torchdata before 0.10 has no nodes")
    source = nodes.Batcher(nodes.IterableWrapper(range(10)), batch_size=4, drop_last=False)
    batches = list(hr.ext.NodeSource(source).sample_neighbor(graph(), [2]).loader())
    assert [batch.seeds.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_node_that_yields_nonsense():
    class Floats(Ids):
        def __next__(self):
            return torch.tensor([0.5])

    with pytest.raises(hr.InputError, match="integer"):
        list(hr.ext.NodeSource(Floats()).loader())


def test_a_loader_is_a_node_in_a_torchdata_graph():
    nodes = pytest.importorskip("torchdata.nodes", reason="torchdata before 0.10 has no nodes")

    def build():
        return nodes.Loader(nodes.Mapper(PLANS["neighbor"]().loader().node(), hr.MiniBatch.digest))

    expected = [batch.digest() for batch in PLANS["neighbor"]().loader()]
    outer = build()
    assert list(outer) == expected
    iterator = iter(build())
    taken = [next(iterator) for _ in range(2)]
    assert taken == expected[:2]


def test_a_loader_node_restores_its_state():
    node = PLANS["neighbor"]().loader().node()
    node.reset(None)
    next(node)
    next(node)
    state = node.state_dict()
    again = PLANS["neighbor"]().loader().node()
    again.reset(state)
    assert next(again).digest() == next(node).digest()


def test_a_loader_node_reset_early_stands_in_the_next_epoch():
    node = PLANS["neighbor"]().loader().node()
    node.reset(None)
    next(node)
    node.reset(None)
    state = node.state_dict()
    again = PLANS["neighbor"]().loader().node()
    again.reset(state)
    batch = next(node)
    assert (batch.epoch, batch.index) == (1, 0)
    assert next(again).digest() == batch.digest()


def test_items_of_a_loader_node_are_batches():
    assert isinstance(next(items().loader().node()), hr.MiniBatch)
