"""Waits and kept memory at each place that needs one: left out, numbers of the stand-in are not there, or others'."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch
from ranks import run_ranks

import headrace as hr
from headrace import ops
from headrace.cuda import streams
from headrace.cuda.backend import stand_in
from headrace.cuda.kept import keep
from headrace.cuda.late import read_later
from headrace.ops.gpu import placed, record, side_stream, synchronize
from headrace.pipeline.storage.rows_on_gpu import ExpectedReads, RowsOnGpu
from headrace.pipeline.storage.whole_on_gpu import WholeOnGpu

from cuda_host.host_memory import host_copy
from cuda_host.stand_in import StandIn

CPU = torch.device("cpu")
CUDA = hr.Place("cuda")


@pytest.fixture(autouse=True)
def backend():
    """Let the CPU stand in for a GPU; memory that nobody has written holds no number."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    backend = StandIn()
    with stand_in(backend):
        yield backend
    torch.use_deterministic_algorithms(False)


def elsewhere(function):
    """Call a function in a thread of its own, on its side stream; return its result and the event behind its work."""
    result = []

    def run():
        with side_stream(CPU, behind_current=False):
            result.extend((function(), record(CPU)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result


def pinned(backend, tensor):
    """Return a copy that torch has pinned, so that nobody but tensors keeps its memory."""
    there = host_copy(tensor)
    backend.host.mark(there)
    backend.host.runtime.pinned[there.data_ptr()] = there.nbytes
    return there


@pytest.fixture(params=["whole", "some"])
def feature(request):
    """What a GPU keeps of 60 rows: all, as they are, or in slots."""
    kind = {"whole": lambda: WholeOnGpu(60, (3,), torch.float32, CPU)}
    kind["some"] = lambda: RowsOnGpu(60, (3,), torch.float32, 60, CPU)
    kept, _ = elsewhere(kind[request.param])
    return kept


def test_streams_wait_for_rows_that_another_one_fills_in(feature):
    x, ids = torch.rand(60, 3), torch.arange(50)
    elsewhere(lambda: feature.read(ids, [], x))
    rows, event = elsewhere(lambda: feature.read(ids, [], x).rows)
    event.wait()
    assert torch.equal(rows, x[ids])
    assert torch.equal(feature.read(ids, [], x).rows, x[ids])


def test_rows_are_not_rewritten_before_they_are_read(feature):
    x, changed, ids = torch.rand(60, 3), torch.rand(60, 3), torch.arange(50)
    feature.read(ids, [], x)
    before, event = elsewhere(lambda: feature.read(ids, [], x).rows)
    after, later = elsewhere(lambda: (feature.forget(), feature.read(ids, [], changed).rows)[1])
    later.wait()
    event.wait()
    assert torch.equal(before, x[ids])
    assert torch.equal(after, changed[ids])


def test_slots_are_not_filled_before_they_are_read():
    """Where rows of one read make room for those of the next one, on another stream."""
    x, found, others = torch.rand(60, 3), torch.arange(20), torch.arange(30, 60)
    kept, _ = elsewhere(lambda: RowsOnGpu(60, (3,), torch.float32, 20, CPU))
    kept.read(found, [], x)
    before, event = elsewhere(lambda: kept.read(found, [], x).rows)
    after, later = elsewhere(lambda: kept.read(others, [], x).rows)
    later.wait()
    event.wait()
    assert torch.equal(before, x[found])
    assert torch.equal(after, x[others])


def test_slots_are_emptied_before_others_look_there():
    x, changed, ids = torch.rand(60, 3), torch.rand(60, 3), torch.arange(20)
    kept, _ = elsewhere(lambda: RowsOnGpu(60, (3,), torch.float32, 20, CPU))
    kept.read(ids, [], x)
    elsewhere(kept.forget)
    rows, event = elsewhere(lambda: kept.read(ids, [], changed).rows)
    event.wait()
    assert torch.equal(rows, changed[ids])


def test_the_host_waits_for_reads(feature):
    x, ids = torch.rand(60, 3), torch.arange(50)
    rows, _ = elsewhere(lambda: feature.read(ids, [], x).rows)
    feature.wait()
    assert torch.equal(rows, x[ids])


def test_missing_ids_are_waited_for():
    """Their number, and the ids themselves: a source reads them at once."""
    x, asked = torch.rand(60, 3), []

    def source(ids):
        asked.append(ids.tolist())
        return x[ids], {}

    kept = RowsOnGpu(60, (3,), torch.float32, 20, CPU)
    assert torch.equal(kept.read(torch.arange(30), [], source).rows, x[:30])
    rows, event = elsewhere(lambda: kept.read(torch.arange(40), [], source).rows)
    event.wait()
    assert torch.equal(rows, x[:40])
    assert asked[0] == [*range(30)]
    assert set(asked[1]) >= set(range(30, 40))


@pytest.mark.parametrize("on", [lambda function: (function(), record(CPU)), elsewhere], ids=["main", "side"])
def test_the_host_does_not_see_numbers_for_which_it_has_not_waited(on):
    late, event = on(lambda: (torch.arange(5) + 1).to("cpu", non_blocking=True))
    assert late.tolist() == [-1] * 5
    event.wait()  # a stream waits, and not the host
    assert late.tolist() == [-1] * 5
    synchronize(CPU)
    assert late.tolist() == [1, 2, 3, 4, 5]
    known, event = on(lambda: read_later(torch.arange(5)))
    event.wait()
    assert known() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("on", [lambda function: (function(), None), elsewhere], ids=["main", "side"])
def test_faults_are_seen(on):
    """On any stream, whatever else it was given."""

    def refused():
        ids = torch.arange(30)
        ids[7] = 99
        with pytest.raises(hr.FeatureError, match=r"ids\[7\] = 99 has no row"):
            ops.gather_rows(torch.rand(50, 2), ids)
        return ops.gather_rows(torch.rand(50, 2), torch.arange(30))

    assert len(on(refused)[0]) == 30


def test_ranks_wait_for_what_others_are_about_to_make():
    def work(comm):
        with side_stream(CPU, behind_current=False):
            rows = ops.gather_rows(torch.arange(12.0).view(6, 2) + 100 * comm.rank, torch.arange(6), trusted=True)
            total = comm.all_reduce_sum(rows)
            event = record(CPU)
        event.wait()
        return total

    for total in run_ranks(2, work):
        assert torch.equal(total, 2 * torch.arange(12.0).view(6, 2) + 100)


def test_tables_of_types_are_kept_for_the_streams_that_read_them(backend):
    offsets = hr.TypeOffsets(("a", "b"), torch.tensor([0, 30, 60]))
    backend.host.mark(offsets.offsets)
    ids = torch.arange(60)
    expected = [0] * 30 + [1] * 30
    first, event = elsewhere(lambda: offsets.numbers_of(ids))
    event.wait()
    for _ in range(2):
        second, event = elsewhere(lambda: offsets.numbers_of(ids))
        event.wait()
        assert first.tolist() == second.tolist() == expected


def test_copies_of_a_graph_are_there_for_all_streams(backend):
    """Of the stream that has copied them nobody else knows, and they are kept."""
    arrays = [host_copy(torch.arange(0, 610, 10)), host_copy(torch.randint(60, (600,)))]
    backend.host.mark(*arrays)
    there, _ = elsewhere(lambda: placed(arrays, CPU))
    assert all(map(torch.equal, there, arrays))


def lent(x, ids):
    """Calls that read memory of the host for which nobody waits."""
    return {
        "rows": lambda: ops.gather_rows(x(4), ids, trusted=True),
        "a part of rows": lambda: ops.gather_rows(x(6)[:, :4], ids, trusted=True),
        "tables": lambda: ops.gather_tables([x(4)] * 2, (ids % 2).int(), ids, torch.zeros(30, 4), trusted=True),
        "rows of a cache": lambda: RowsOnGpu(60, (4,), torch.float32, 20, CPU).read(ids, [], x(4)).rows,
    }


@pytest.mark.parametrize("call", lent(None, None))
def test_pinned_memory_is_kept_until_it_is_read(call, backend):
    """Torch gives it to others when its tensors are gone, if nobody has told it of the stream."""
    rows = torch.arange(600.0)
    ids = torch.arange(0, 60, 2)
    expected = lent(lambda width: rows[: 60 * width].view(60, width).clone(), ids)[call]()
    found, event = elsewhere(lent(lambda width: pinned(backend, rows[: 60 * width].view(60, width)), ids)[call])
    event.wait()
    assert torch.equal(found, expected)


def test_pinned_arrays_of_a_graph_are_kept_until_they_are_read(backend):
    indptr, indices = torch.arange(0, 610, 10), torch.randint(60, (600,))
    there = lambda: (pinned(backend, indptr), pinned(backend, indices))  # noqa: E731
    rows, event = elsewhere(lambda: ops.fetch_rows(*there(), torch.arange(20)))
    event.wait()
    assert torch.equal(rows.indices, indices[:200])


def tell(tensor, device):
    """Keep memory for a GPU, where nothing stands in for one."""
    with stand_in(None):
        keep(tensor, device)


def test_torch_is_told_of_each_stream_once(monkeypatch):
    """By a copy of a byte; memory on a GPU that another one reads is recorded there."""
    told, current = [], [11]

    def copy(tensor, *args, **kwargs):
        told.append((tensor.data_ptr(), tensor.nbytes, args, kwargs))
        return tensor

    def current_stream(device):
        return SimpleNamespace(cuda_stream=current[0], device=device)

    monkeypatch.setattr(torch.cuda, "current_stream", current_stream)
    monkeypatch.setattr(torch.Tensor, "to", copy)
    gpus = [torch.device("cuda", number) for number in range(2)]
    memory = torch.zeros(10, 4)
    tell(memory[3:], gpus[0])
    tell(memory[:2, 1:], gpus[0])
    assert told == [(memory.data_ptr(), 1, (gpus[0],), {"non_blocking": True})]
    tell(memory, gpus[1])
    current[0] = 12
    tell(memory, gpus[0])
    assert len(told) == 3
    memory.set_(torch.zeros(10, 4))  # others' memory now
    tell(memory, gpus[0])
    tell(memory[:0], gpus[0])
    assert len(told) == 4
    recorded = []
    there = SimpleNamespace(device=gpus[1], is_cuda=True, nbytes=4, record_stream=recorded.append)
    tell(there, gpus[0])
    tell(there, gpus[1])
    assert [(one.device, one.cuda_stream) for one in recorded] == [(gpus[0], 12)]  # of the GPU that reads


def test_memory_that_is_gone_is_forgotten(monkeypatch):
    from headrace.cuda import kept

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=1))
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *args, **kwargs: tensor)
    monkeypatch.setattr(kept, "_MOST_KNOWN", 4)
    monkeypatch.setattr(kept, "_known", {})
    for _ in range(40):
        tell(torch.zeros(3), torch.device("cuda", 0))
    assert len(kept._known) <= 4


def test_events_and_waits_are_of_the_current_stream(monkeypatch):
    """Not of the one that a thread begins with."""
    done = []

    class Stream:
        def __init__(self, name):
            self.name = name

        def record_event(self):
            done.append(("record", self.name))
            return SimpleNamespace(query=lambda: True)

        def wait_event(self, event):
            done.append(("wait", self.name))

        def synchronize(self):
            done.append(("synchronize", self.name))

    current = ["loader"]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(f"{current[0]} on {device}"))
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: Stream("default"))
    gpu = torch.device("cuda", 1)
    with stand_in(None):
        event = streams.record(gpu)
        assert event.is_done()
        current[0] = "training"
        event.wait()
        streams.synchronize(gpu)
    expected = ["record", "wait", "synchronize"]
    assert done == list(zip(expected, ["loader on cuda:1", *["training on cuda:1"] * 2], strict=True))


def test_tiers_are_pinned_anew_where_torch_has_moved_them(backend):
    x = host_copy(torch.arange(240.0).view(60, 4))
    backend.host.mark(x)
    tiers = hr.TieredFeature(x, torch.arange(60), hr.TierSizes(10, 0, 0, num_devices=1), devices=[hr.Place("cuda", 0)])
    tiers.prepare(hr.Place("cuda", 0))
    ids = torch.arange(60)
    assert torch.equal(tiers.read(ids, to=hr.Place("cuda", 0)).rows, x)
    x.share_memory_()
    x.numpy()[:] += 0.5  # so that rows that are read where they were are others
    rows = tiers.read(ids, to=hr.Place("cuda", 0)).rows
    assert torch.equal(rows[10:], x[10:])
    assert backend.host.is_pinned(x)


def test_caches_read_rows_where_torch_has_moved_them(backend):
    x = host_copy(torch.arange(240.0).view(60, 4))
    backend.host.mark(x)
    cache = hr.CachedFeature(x, rows=10, place="cuda")
    ids = torch.arange(40)
    for _ in range(2):
        assert torch.equal(cache.read(ids, to=CUDA).rows, x[ids])
        x.share_memory_()
    assert torch.equal(cache.read(ids, to=CUDA).rows, x[ids])
    assert backend.host.is_pinned(x)


@pytest.mark.parametrize("seed", range(5))
def test_no_line_is_read_and_filled_at_once(seed):
    """A slot that has a line of the read is not given to another one: both are copied by one kernel."""
    generator = torch.Generator().manual_seed(seed)
    indices = torch.arange(32 * 200)
    cache = ops.LineCache(indices, 40 * (32 * 8 + 32), CPU)
    num_found = 0
    for _ in range(12):
        lines = torch.randperm(200, generator=generator)[:60]
        with cache.looked_up(lines) as (places, _):
            slots, fills = (set(one[one >= 0].tolist()) for one in (places.slots, places.fills))
        assert not slots & fills
        num_found += len(slots)
    assert num_found


def test_slots_of_a_read_are_kept_where_others_are_wanted_more():
    """Ids that are missing and expected soon take the slots of others, but not of those that are found."""
    index = ops.SetIndex(32, CPU)
    index.look_up(torch.arange(32))
    ids = torch.cat([torch.arange(20), torch.arange(100, 130)])
    lookup = index.look_up(ids, [torch.arange(100, 130)])
    slots, fills = (set(one[one >= 0].tolist()) for one in (lookup.slots, lookup.fills))
    assert len(slots) == 20
    assert len(fills) == 12
    assert not slots & fills


def test_reads_to_come_are_waited_for(backend):
    """Their ids are copied on a stream of their own, and used on others."""
    ids = host_copy(torch.arange(20))
    backend.host.mark(ids)
    expected = ExpectedReads()
    expected.add(ids, CPU)
    for use in (expected.on, lambda device: elsewhere(lambda: expected.on(device))[0]):
        (there,) = use(CPU)
        ops.gather_rows(torch.rand(30, 2), there, trusted=True)
