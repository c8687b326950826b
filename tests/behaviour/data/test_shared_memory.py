"""Memory of tensors that torch moves: what was made before reads it where it is; processes share one copy."""

import copy
from collections.abc import Mapping
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch

import headrace as hr

from copies import run_program
from plans import PLANS, graph, store


def tensors_in(value, seen):
    """All tensors that can be reached from a value, those of what it has made among them."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in list(value.values()):
            yield from tensors_in(one, seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in list(value):
            yield from tensors_in(one, seen)
    if type(value).__module__.startswith("headrace") and hasattr(value, "__dict__"):
        yield from tensors_in(vars(value), seen)


def move(value):
    """Move all memory, and let what was there before be used for something else."""
    sizes = []
    for tensor in list(tensors_in(value, {})):
        if tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_shared():
            sizes.append(tensor.untyped_storage().nbytes())
            tensor.share_memory_()
    assert sizes
    return [torch.full((size,), 0x7F, dtype=torch.uint8) for size in sizes for _ in range(3)]


def digests(loader):
    return [batch.digest() for batch in loader]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_batches_stay_where_memory_is_moved(name):
    plan = copy.deepcopy(PLANS[name]())
    with plan.loader() as loader:
        before = digests(loader)
        junk = move(plan)
        loader.set_epoch(0)
        after = digests(loader)
    with plan.loader() as loader:
        anew = digests(loader)
    del junk
    assert before == after == anew


MOVES = {
    "share_memory_": lambda tensor: tensor.share_memory_(),
    "set_": lambda tensor: tensor.set_(torch.zeros(3, dtype=tensor.dtype)),
    "data": lambda tensor: setattr(tensor, "data", torch.zeros(3, dtype=tensor.dtype)),
    "pickled": ForkingPickler.dumps,
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("weight", [None, "w"])
def test_what_is_done_to_the_tensors_of_a_graph_changes_no_batch(move, weight):
    indptr, indices = graph().indptr.clone(), graph().indices.clone()
    weights = torch.rand(len(indices), dtype=torch.float64)
    one = hr.Graph.from_csc(indptr, indices, edge_attrs={"w": weights})
    plan = hr.ItemSampler(100, batch_size=10, seed=1).sample_neighbor(one, [3, 3], weight=weight)
    before = digests(plan.loader())
    for tensor in (indptr, indices, weights):
        size = tensor.untyped_storage().nbytes()
        move(tensor)
        if move is MOVES["set_"] and tensor is weights and weight:
            with pytest.raises(hr.InputError, match="to stay as it was"):  # torch counts it as a write
                digests(plan.loader())
            return
        junk = [torch.full((size,), 0x7F, dtype=torch.uint8) for _ in range(3)]
        assert digests(plan.loader()) == before
        del junk


def test_weights_whose_memory_was_given_back_are_refused():
    weights = torch.rand(graph().num_edges)
    one = hr.Graph.from_csc(graph().indptr, graph().indices, edge_attrs={"w": weights})
    weights.untyped_storage().resize_(0)
    with pytest.raises(hr.InputError, match="expected edge attribute 'w' to have its memory of 6,000 bytes"):
        one.edge_weights("w")


@pytest.mark.parametrize("part", ["indptr", "indices"])
def test_torch_resizes_no_memory_that_a_graph_has_read(part):
    arrays = {"indptr": graph().indptr.clone(), "indices": graph().indices.clone()}
    hr.Graph.from_csc(**arrays)
    with pytest.raises(RuntimeError, match="not resizable"):
        arrays[part].resize_(10_000)


def test_rows_whose_memory_was_given_back_are_refused():
    x = torch.ones(10, 3)
    features = hr.FeatureStore(node={"x": x})
    x.untyped_storage().resize_(0)
    with pytest.raises(hr.InputError, match="expected source to have its memory of 120 bytes"):
        features.node["x"].read(torch.tensor([1]))
    with pytest.raises(hr.InputError, match="expected rows to have its memory of 120 bytes"):
        features.content_digest()


def shared_arrays(one):
    return [one.indptr, one.indices, one.edge_permutation, *one.edge_attrs_csc.values(), *one.node_attrs.values()]


def addresses(one):
    return [array.data_ptr() for array in shared_arrays(one)]


def test_a_graph_that_is_sent_twice_is_in_shared_memory_once():
    one = copy.deepcopy(graph())
    assert not any(array.is_shared() for array in shared_arrays(one))
    ForkingPickler.dumps(one)
    there = addresses(one)
    assert all(array.is_shared() for array in shared_arrays(one))
    ForkingPickler.dumps([one, one.untyped()])
    assert addresses(one) == there == addresses(one.share_memory())
    assert one == graph()


def test_tensors_that_a_graph_was_made_of_stay_where_they_are():
    indptr, indices = graph().indptr.clone(), graph().indices.clone()
    one = hr.Graph.from_csc(indptr, indices)
    assert one.indices.data_ptr() == indices.data_ptr()
    ForkingPickler.dumps(one)
    assert one.indices.is_shared()
    assert not indices.is_shared()


def test_copies_and_files_of_a_graph_are_as_they_were():
    one = copy.deepcopy(graph())
    hr.ItemSampler(10).sample_neighbor(one, [2]).loader()
    assert copy.deepcopy(one) == one
    assert not one.indices.is_shared()


def test_weights_that_were_changed_are_not_shared():
    one = copy.deepcopy(graph())
    one.edge_weights("weight")
    one.edge_attrs_csc["weight"][0] = 2.0
    with pytest.raises(hr.InputError, match="to stay as it was"):
        one.share_memory()


def test_the_order_of_times_has_its_arrays_in_common_still():
    one = hr.Graph.from_coo([0, 1, 2], [0, 0, 0], edge_attrs={"t": torch.arange(3)})
    assert one.by_time("t").indices is one.indices
    one.share_memory()
    assert one.by_time("t").indices is one.indices
    assert one.by_time("t").edge_times.is_shared()


def test_a_store_moves_the_tensors_that_it_was_given():
    x = torch.randn(20, 3)
    features = hr.FeatureStore(node={"x": x, "cached": hr.CachedFeature(x, rows=3)}, edge={"e": torch.ones(5)})
    ForkingPickler.dumps(features)
    assert x.is_shared()
    x[3] = 7.0
    for name in ("x", "cached"):
        assert (features.node[name].read(torch.tensor([3])).rows == 7.0).all()
    assert hr.FeatureStore(node={"x": torch.ones(3)}).share_memory().node["x"].rows_in_place.is_shared()


def test_files_that_are_mapped_are_mapped_again(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(60, dtype=np.float32).reshape(20, 3))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for array, row in ((mapped, 4), (mapped[5:], 4)):
        source = hr.FeatureStore(node={"x": array}).node["x"]
        again = ForkingPickler.loads(ForkingPickler.dumps(source))
        assert not source.rows_in_place.is_shared()
        assert torch.equal(again.read(torch.tensor([row])).rows, source.read(torch.tensor([row])).rows)
        assert (again.num_rows, again.place, again.content_digest()) == (
            len(array),
            source.place,
            source.content_digest(),
        )


def test_a_graph_is_sent_while_threads_sample_from_it():
    """Over and over: each time the graph has memory of its own again, which the other threads are reading."""
    found, expected = [], None
    for _ in range(10):
        one, features = copy.deepcopy(graph()), copy.deepcopy(store())
        plan = (
            hr.ItemSampler(190, batch_size=10, seed=3).sample_neighbor(one, [5, 5]).fetch_feature(features, node=["x"])
        )
        with plan.prefetch(workers=2, depth=4).loader() as loader:
            batches = iter(loader)
            found = [next(batches).digest()]
            ForkingPickler.dumps((one, features))
            found += [batch.digest() for batch in batches]
        expected = expected or found
        assert found == expected


PROGRAM = """
import multiprocessing, os, sys
import torch
import torch.multiprocessing as mp
import headrace as hr


def inodes(graph, store):
    arrays = (graph.indptr, graph.indices, graph.edge_attrs_csc["w"], store.node["x"].rows_in_place)
    return [os.fstat(array.untyped_storage()._share_fd_cpu_()[0]).st_ino for array in arrays]


def batches(graph, store):
    plan = hr.ItemSampler(500, batch_size=100, seed=1).sample_neighbor(graph, [4, 4], weight="w")
    return [batch.digest() for batch in plan.fetch_feature(store, node=["x"]).loader()]


def work(rank, graph, store, queue):
    store.node["x"].rows_in_place[0, rank] = 10.0 + rank
    queue.put((inodes(graph, store), batches(graph, store) if rank < 0 else None))


if __name__ == "__main__":
    src, dst = torch.randint(0, 500, (2, 3_000), generator=torch.Generator().manual_seed(0))
    graph = hr.Graph.from_coo(src, dst, num_nodes=500, edge_attrs={"w": torch.rand(3_000)})
    store = hr.FeatureStore(node={"x": torch.zeros(500, 4)})
    before = batches(graph, store)
    # Each is given what is pickled, as by mp.spawn(), but torch is imported for both at once.
    multiprocessing.set_forkserver_preload(["headrace.pipeline.public"])
    queue = mp.get_context("forkserver").SimpleQueue()
    mp.start_processes(work, (graph, store, queue), nprocs=2, start_method="forkserver")
    for _ in range(2):
        assert queue.get()[0] == inodes(graph, store)
    assert store.node["x"].rows_in_place[0].tolist() == [10.0, 11.0, 0.0, 0.0]
    store.node["x"].rows_in_place[0] = 0.0
    assert batches(graph, store) == before
    print("shared")
"""


@pytest.mark.slow
def test_processes_share_one_graph_and_one_store(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = run_program(program)
    assert (ended.returncode, ended.stdout) == (0, "shared\n"), ended.stderr
