"""Rows through a cache of lines: those of the graph under every schedule, and each line's hits and misses."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.cuda import fetch_rows as twin
from headrace.cuda.backend import stand_in
from headrace.ops import InputError, LineCache, fetch_rows, reference
from headrace.ops.cache.line_cache import LINE_EDGES
from headrace.ops.cache.set_index import SLOT_BYTES
from headrace.ops.features.pinned import Pinned
from headrace.ops.gpu import synchronize
from headrace.ops.reference.set_cache import SetCache

from cuda_host.stand_in import StandIn
from gpu.kinds import GPUS
from strategies import csc_graphs, nodes_of

#: Where the cache is: on what stands in for a GPU.
DEVICE = torch.device("cpu")

assert LINE_EDGES == twin.LINE_EDGES


@pytest.fixture(autouse=True, scope="module", params=GPUS)
def gpu(request):
    """Let what stands in for a GPU read rows, then a GPU, if there is one: out of pinned memory."""
    if request.param == "gpu":
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(request.module, "DEVICE", torch.device("cuda", torch.cuda.current_device()))
            patched.setattr(request.module, "fetch_rows", fetch_rows_pinned)
            yield None
        return
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    backend = StandIn()
    with stand_in(backend):
        yield backend
    torch.use_deterministic_algorithms(False)


def fetch_rows_pinned(indptr, indices, frontier, *, cache):
    """Fetch rows of a graph that a GPU reads where it is, and bring them back, which waits."""
    pinned = [Pinned(torch.as_tensor(array)) for array in (indptr, indices)]
    rows = ops.fetch_rows(indptr, indices, frontier.to(DEVICE), cache=cache)
    found = rows._replace(**{name: getattr(rows, name).cpu() for name in ("indptr", "indices", "starts")})
    del pinned
    return found


def slots_of(num_slots, indices):
    """A cache with so many slots, or with as many as there are lines."""
    return LineCache(indices, num_slots * (LINE_EDGES * indices.element_size() + SLOT_BYTES), DEVICE)


def counts_of(rows):
    """Hits and misses, for which the host waits."""
    synchronize(DEVICE)
    return rows.counts.read()


def lines_of(indptr, indices, frontier):
    """The lines of each row, as memory has them."""
    offset = indices.data_ptr() // indices.element_size() % LINE_EDGES
    for node in frontier.tolist():
        start, stop = int(indptr[node]), int(indptr[node + 1])
        if start < stop:
            yield from range((start + offset) // LINE_EDGES, (stop - 1 + offset) // LINE_EDGES + 1)


def assert_rows(rows, indptr, indices, frontier):
    expected = reference.fetch_rows(indptr.numpy(), indices.numpy(), frontier.numpy())
    for name, array in expected._asdict().items():
        assert torch.equal(getattr(rows, name), torch.from_numpy(array))


def rows_of_every_length(num_nodes=120, dtype=torch.int32):
    """Rows that share lines, reach over several, and are empty, in an array that begins in the midst of a line."""
    generator = torch.Generator().manual_seed(4)
    lengths = torch.randint(0, 70, (num_nodes,), generator=generator)
    lengths[::7] = 0
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    whole = torch.arange(int(indptr[-1]) + 5, dtype=dtype)
    return indptr, whole[5:]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("num_slots", [1, 33, 1 << 20], ids=["one", "two sets", "all"])
def test_rows_are_those_of_the_graph_under_every_schedule(num_slots, seed, gpu):
    indptr, indices = rows_of_every_length(dtype=torch.int32 if seed % 2 else torch.int64)
    cache = slots_of(num_slots, indices)
    generator = torch.Generator().manual_seed(seed)
    with stand_in(StandIn(seed)) if gpu is not None else nullcontext():
        for _ in range(4):
            frontier = torch.randint(0, 120, (25,), generator=generator)
            assert_rows(fetch_rows(indptr, indices, frontier, cache=cache), indptr, indices, frontier)


@given(csc_graphs(max_edges=600), st.integers(0, 12), st.data())
def test_rows_and_counts_equal_the_reference(graph, num_slots, data):
    """A cache of up to one set, of two, of none, and one with all lines."""
    num_lines = len(graph.indices) // LINE_EDGES + 2
    cache = slots_of(num_slots, graph.indices)
    oracle = SetCache(min(num_slots, num_lines), num_lines)
    assert cache.num_slots == oracle.num_slots
    for _ in range(3):
        frontier = data.draw(nodes_of(graph, unique=False))
        before = oracle.counts()
        rows = fetch_rows(graph.indptr, graph.indices, frontier, cache=cache)
        assert_rows(rows, graph.indptr, graph.indices, frontier)
        oracle.look_up(list(lines_of(graph.indptr, graph.indices, frontier)))
        expected = {name: oracle.counts()[name] - before[name] for name in ("hits", "misses")}
        assert counts_of(rows) == expected


def test_what_has_room_is_read_once():
    indptr, indices = rows_of_every_length()
    cache = slots_of(1 << 20, indices)
    every = torch.arange(120)
    first, second = (counts_of(fetch_rows(indptr, indices, every, cache=cache)) for _ in range(2))
    assert first["hits"] == 0
    assert second["misses"] == 0
    changed = indices.clone()
    indices.zero_()  # nobody looks there any more
    rows = fetch_rows(indptr, indices, every, cache=cache)
    assert_rows(rows, indptr, changed, every)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_nothing_is_read_beyond_the_ends(dtype):
    """What a line has in front of the array and behind it is not put into a slot: it may not be there."""
    whole = torch.arange(100, dtype=dtype)
    indices = whole[40:60]
    indptr = torch.tensor([0, 20])
    cache = slots_of(8, indices)
    cache._entries.fill_(-1)
    fetch_rows(indptr, indices, torch.tensor([0]), cache=cache)
    assert sorted(cache._entries[cache._entries >= 0].tolist()) == indices.tolist()


def test_a_fetch_that_fails_leaves_no_line_that_is_not_there(monkeypatch):
    indptr, indices = rows_of_every_length()
    cache, every = slots_of(1 << 20, indices), torch.arange(120)

    def fail(*arguments):
        raise torch.cuda.OutOfMemoryError("out of memory")

    with monkeypatch.context() as patched, pytest.raises(torch.cuda.OutOfMemoryError):
        patched.setattr("headrace.cuda.fetch_rows.copy_lines", fail)
        fetch_rows(indptr, indices, every, cache=cache)
    rows = fetch_rows(indptr, indices, every, cache=cache)
    assert_rows(rows, indptr, indices, every)
    assert counts_of(rows)["hits"] == 0


def test_threads_share_a_cache():
    indptr, indices = rows_of_every_length()
    cache, wrong = slots_of(20, indices), []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(10):
            frontier = torch.randint(0, 120, (20,), generator=generator)
            try:
                assert_rows(fetch_rows(indptr, indices, frontier, cache=cache), indptr, indices, frontier)
            except BaseException as error:  # noqa: BLE001 - shown below
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_streams_wait_for_each_other(gpu):
    """What one of them has launched may still read slots that another one fills."""
    if gpu is None:
        pytest.skip("the streams of a GPU run when they like")
    _, indices = rows_of_every_length()
    cache, lines, done = slots_of(4, indices), torch.arange(8), []
    with gpu.streams.side_stream(), cache.looked_up(lines):
        gpu.streams.queue.append(lambda: done.append("read"))
    assert not done
    with cache.looked_up(lines):
        assert done == ["read"]


def test_a_cache_is_for_one_array_on_one_device():
    indptr, indices = rows_of_every_length()
    cache, frontier = slots_of(4, indices), torch.tensor([1])
    for other in (indices.clone(), indices[:-1], indices.numpy()):
        with pytest.raises(InputError, match="expected the indices that the cache was made for"):
            fetch_rows(torch.tensor([0, *[len(other)] * 120]), other, frontier, cache=cache)
    cache._device = torch.device("cuda", 99)
    with pytest.raises(InputError, match=rf"expected a frontier on cuda:99, where the cache is, got one on {DEVICE}"):
        fetch_rows(indptr, indices, frontier, cache=cache)
