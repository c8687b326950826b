"""Whatever iterates gives a thread a whole epoch, or refuses it: never a part without a word."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager

import pytest
import torch
from torch_geometric.data import Data

import headrace as hr
import headrace.pyg

NUM_BATCHES = 60


def plan(workers=0):
    ends = torch.arange(NUM_BATCHES)
    graph = hr.Graph.from_coo(ends, (ends + 1) % NUM_BATCHES, num_nodes=NUM_BATCHES)
    return hr.ItemSampler(NUM_BATCHES, batch_size=1, seed=0).sample_neighbor(graph, [1]).prefetch(workers=workers)


@contextmanager
def frequent_switches():
    """Let threads take turns after a few operations, so that what one does in two steps is seen in between."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def outcomes(*functions):
    """Run functions in threads that begin together; return what each returned or raised."""
    together = threading.Barrier(len(functions))
    results = [None] * len(functions)

    def run(number, function):
        together.wait()
        try:
            results[number] = function()
        except Exception as error:  # noqa: BLE001 - compared by the test
            results[number] = error

    threads = [threading.Thread(target=run, args=pair, name=f"reader-{pair[0]}") for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def in_another_thread(function):
    return outcomes(function)[0]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_two_threads_get_whole_epochs_or_an_error(workers):
    with frequent_switches():
        for _ in range(10):
            loader = plan(workers).loader()
            results = outcomes(*[lambda loader=loader: sum(1 for _ in loader)] * 2)
            assert NUM_BATCHES in results
            assert all(result == NUM_BATCHES or isinstance(result, hr.HeadraceError) for result in results), results


def test_another_thread_is_refused_by_name_and_the_first_one_goes_on():
    loader = plan().loader()
    iteration = iter(loader)
    next(iteration)
    state = loader.state_dict()
    for action in (lambda: iter(loader), lambda: loader.set_epoch(0), lambda: loader.load_state_dict(state)):
        error = in_another_thread(action)
        assert isinstance(error, hr.HeadraceError)
        assert "'reader-0'" in str(error)
        assert "'MainThread'" in str(error)
        assert "plan.loader()" in str(error)
    assert len(list(iteration)) == NUM_BATCHES - 1
    assert in_another_thread(lambda: len(list(loader))) == NUM_BATCHES


def test_an_iteration_of_a_thread_that_has_ended_is_nobodys():
    loader = plan().loader()
    iteration = in_another_thread(lambda: iter(loader))
    in_another_thread(lambda: next(iteration))
    assert next(iteration).index == 1  # an iterator is passed on by a thread that ends
    in_another_thread(lambda: next(iter(loader)))
    assert len(list(loader)) == NUM_BATCHES


def test_an_iterator_that_is_shared_serves_the_first_thread_alone():
    with frequent_switches():
        for workers in (0, 1):
            iteration = iter(plan(workers).loader())
            seen = []
            results = outcomes(*[lambda seen=seen, it=iteration: [seen.append(b.index) for b in it]] * 3)
            assert sorted(seen) == list(range(NUM_BATCHES))
            served = [len(result) for result in results if not isinstance(result, hr.HeadraceError)]
            # Each of the others is refused while the first iterates, or comes after the end and is at the end.
            assert sorted(served) == [0] * (len(served) - 1) + [NUM_BATCHES]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_thread_whose_iteration_another_one_closes_is_told(workers):
    loader = plan(workers).loader()
    begun, closed = threading.Event(), threading.Event()

    def train():
        for batch in loader:
            if batch.index == 3:
                begun.set()
                closed.wait()

    def close():
        begun.wait()
        loader.close()
        closed.set()

    trained, _ = outcomes(train, close)
    assert isinstance(trained, hr.HeadraceError)
    assert "ended by" in str(trained)
    assert len(list(loader)) == NUM_BATCHES


def test_closing_while_a_batch_is_made_is_no_end_of_the_epoch():
    making, closing = threading.Event(), threading.Event()

    def wait(batch):
        if batch.index == 2:
            making.set()
            closing.wait(10)
        return batch

    loader = plan().transform(wait).prefetch(workers=1, depth=1).loader()

    def close():
        making.wait()
        threading.Timer(0.1, closing.set).start()
        loader.close()

    trained, _ = outcomes(lambda: len(list(loader)), close)
    assert isinstance(trained, hr.HeadraceError), trained


def test_epochs_of_two_threads():
    loader = plan().loader()

    def train():
        return [len(list(loader)) for _ in loader.epochs(3)]

    results = outcomes(train, train)
    whole = [result for result in results if not isinstance(result, hr.HeadraceError)]
    assert whole
    assert all(count == NUM_BATCHES for result in whole for count in result)


def test_nodes_of_a_loader():
    node = plan().loader().node()
    results = outcomes(*[lambda: len(list(node))] * 2)
    assert NUM_BATCHES in results
    assert all(result in (0, NUM_BATCHES) or isinstance(result, hr.HeadraceError) for result in results)


def test_a_node_is_begun_anew_while_its_thread_lives():
    node = plan().loader().node()
    next(node)
    in_another_thread(node.reset)
    assert next(node).epoch == 1


def test_one_torchdata_node_in_two_loaders():
    nodes = pytest.importorskip("torchdata.nodes", reason="torchdata before 0.10 has no nodes")
    source = hr.ext.NodeSource(nodes.IterableWrapper([torch.tensor([number]) for number in range(6)]), seed=0)
    one, two = source.loader(prefetch=False), source.loader(prefetch=False)
    first = iter(one)
    next(first)
    assert [batch.seeds.tolist() for batch in two] == [[number] for number in range(6)]
    with pytest.raises(
        hr.HeadraceError, match=r"node_source: expected a torchdata node that one loader .* node of its"
    ):
        next(first)
    assert len(list(one)) == 6


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_with_the_names_of_pyg_give_each_thread_an_epoch(workers):
    data = Data(x=torch.randn(NUM_BATCHES, 4), edge_index=torch.randint(0, NUM_BATCHES, (2, 300)))
    with frequent_switches():
        for _ in range(5):
            loader = headrace.pyg.NeighborLoader(data, [2], batch_size=1, shuffle=True, seed=0, num_workers=workers)
            ids = outcomes(*[lambda one=loader: [int(batch.input_id) for batch in one]] * 3)
            assert all(sorted(one) == list(range(NUM_BATCHES)) for one in ids)
            assert len({tuple(one) for one in ids}) == 3  # epochs 0, 1 and 2


def test_a_checkpoint_of_another_thread_is_that_of_one_batch():
    loader = hr.ItemSampler(2, batch_size=1, seed=0).loader(prefetch=False)
    over = threading.Event()
    places = []

    def train():
        for _ in loader.epochs(1_000):
            list(loader)
        over.set()

    def save():
        while not over.is_set():
            state = loader.state_dict()
            places.append((state["epoch"], 0 if state["source"] is None else state["source"]["batch"]))
            loader.stats()

    with frequent_switches():
        errors = [result for result in outcomes(train, save) if result is not None]
    assert not errors
    assert places == sorted(places)
