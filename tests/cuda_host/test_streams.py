"""Who waits for whom: streams of a GPU as the calls that torch gets, and as a model that runs as late as it may."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

import headrace as hr
from headrace import ops
from headrace.cuda import streams
from headrace.cuda.backend import stand_in
from headrace.cuda.late import read_later
from headrace.cuda.rows import check_ids, gather_rows
from headrace.cuda.streams import MadeOnce
from headrace.pipeline.interop.conversions import converted_tensors
from headrace.pipeline.lowered.gpu import on_stream
from headrace.pipeline.storage.rows_on_gpu import ExpectedReads, RowsOnGpu

from cuda_host.stand_in import StandIn

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")


@pytest.mark.parametrize("behind_current", [False, True])
def test_side_streams_wait_for_the_current_one_where_they_are_told(behind_current, monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: SimpleNamespace(wait_stream=waited.append))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the training loop's")
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(streams, "_streams", threading.local())
    with streams.side_stream(GPU, behind_current=behind_current):
        assert waited == ["the training loop's"] * behind_current


def test_copies_from_the_host_do_not_wait_for_the_training_loop(monkeypatch):
    """What lies there is there; what a GPU made may still be in the making."""
    asked = []

    def side_stream(device, *, behind_current):
        asked.append(behind_current)
        return nullcontext()

    monkeypatch.setattr(on_stream, "side_stream", side_stream)
    monkeypatch.setattr(on_stream, "record", lambda device: None)
    launch = on_stream.OnStream(hr.Place("meta")).launcher_of()
    batch = hr.MiniBatch(seeds=torch.arange(4))
    for one in (batch, batch.to("meta")):
        assert launch(one, lambda batch: batch.to("meta"))[0].seeds.is_meta
    assert asked == [False, True]


class Table:
    """A table that a kernel makes, and another one reads."""

    def __init__(self):
        self.rows, self.ids, self.num_made = torch.arange(40.0).reshape(10, 4), torch.arange(10), 0
        self.once = MadeOnce(torch.device("cpu"), self.make, lambda made: (made,))

    def make(self):
        self.num_made += 1
        made = torch.full((10, 4), torch.nan)
        gather_rows(self.rows, self.ids, made, None, trusted=True)
        return made

    def read(self):
        out = torch.full((10, 4), torch.nan)
        gather_rows(self.once.here(), self.ids, out, None, trusted=True)
        return out


def on_a_side_stream(function):
    """Call a function in a thread, on its side stream; return what it returned and the event behind its work."""

    def run():
        with streams.side_stream(CPU, behind_current=False):
            return function(), streams.record(CPU)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def test_streams_wait_for_a_table_that_another_one_makes():
    with stand_in(StandIn()):
        table = Table()
        made, _ = on_a_side_stream(table.once.here)
        assert bool(made.isnan().all())  # nobody has waited
        assert table.once.num_bytes == made.nbytes
        read, event = on_a_side_stream(table.read)
        assert bool(made.isnan().all())  # a stream has waited, and not the host
        event.wait()
        assert torch.equal(read, table.rows)
        assert torch.equal(table.read(), table.rows)
        assert table.num_made == 1


def test_the_main_stream_waits_for_a_table_that_another_one_makes():
    with stand_in(StandIn()):
        table = Table()
        on_a_side_stream(table.once.here)
        assert torch.equal(table.read(), table.rows)


def test_memory_of_a_table_is_kept_for_the_streams_that_read_it(monkeypatch):
    kept = []
    monkeypatch.setattr(streams, "use_here", kept.extend)
    with stand_in(StandIn()):
        table = Table()
        made = table.once.here()
        assert not kept  # its own stream knows
        table.once.here()
        assert [one.data_ptr() for one in kept] == [made.data_ptr()]


def test_memory_of_another_stream_is_recorded_or_refused():
    """When tensors are gone, an allocator keeps their memory for the streams that it was told of alone."""
    with stand_in(StandIn()):
        ids, event = on_a_side_stream(lambda: torch.arange(10))
        event.wait()
        with pytest.raises(AssertionError, match=r"check_rows.*nobody has called record_stream"):
            check_ids(ids, 10)
        streams.use_here([ids])
        check_ids(ids[3:], 10)
        with pytest.raises(AssertionError, match="memory of another stream"):
            on_a_side_stream(lambda: ids + 1)  # told of the main stream, and not of this one


@pytest.mark.parametrize("made", ["rows", "counts"])
def test_what_a_side_stream_keeps_is_recorded_where_others_use_it(made):
    """Each of its tensors, in all that a cache of rows and a cache of lines launch for a read."""
    source = torch.rand(60, 3)
    with stand_in(StandIn()):
        if made == "rows":
            cache, _ = on_a_side_stream(lambda: RowsOnGpu(60, (3,), torch.float32, 20, CPU))
            read = lambda: cache.read(torch.arange(30), [torch.arange(9)], source).rows  # noqa: E731
            expected = source[:30]
        else:
            indptr, indices = torch.arange(0, 601, 10), torch.randint(60, (600,))
            cache, _ = on_a_side_stream(lambda: ops.LineCache(indices, 1 << 14, CPU))
            read = lambda: ops.fetch_rows(indptr, indices, torch.arange(30), cache=cache).indices  # noqa: E731
            expected = indices[:300]
        for _ in range(2):
            assert torch.equal(read(), expected)
            found, event = on_a_side_stream(read)
            event.wait()
            assert torch.equal(found, expected)


def test_reads_to_come_are_recorded_where_they_are_used():
    """Their ids are made on a stream of their own."""
    with stand_in(StandIn()):
        expected = ExpectedReads()
        ids, event = on_a_side_stream(lambda: torch.arange(5))
        event.wait()
        expected.add(ids, CPU)
        (found,) = expected.on(CPU)
        check_ids(found, 10)


def of_pyg():
    return pytest.importorskip("torch_geometric.data").Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 4).long())


def of_pyg_with_types():
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    data["a"].x, data["b"].x = torch.ones(3, 2), torch.ones(4, 2)
    return data


def of_dgl():
    """Inputs, by type, and seeds; its blocks have no twin without DGL."""
    return {"a": torch.arange(3)}, torch.arange(2)


@pytest.mark.parametrize("make", [of_pyg, of_pyg_with_types, of_dgl])
def test_converted_batches_are_recorded_where_they_arrive(make):
    """The loop drops them before its own stream is done with them."""
    backend = StandIn()
    with stand_in(backend):
        converted, event = on_a_side_stream(make)
        arrived = on_stream.OnItsWay(converted, event).arrived()
        assert arrived is converted
        tensors = converted_tensors(arrived)
        assert len(tensors) == 2
        backend.streams.check(tensors, "the converted batch")


def test_memory_on_a_gpu_is_recorded_on_the_current_stream(monkeypatch):
    recorded = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"that of {device}")
    there = SimpleNamespace(is_cuda=True, device="a GPU", record_stream=recorded.append)
    streams.use_here([there, torch.arange(3)])
    assert recorded == ["that of a GPU"]


def test_numbers_are_not_read_before_they_are_there():
    """The copy to the host is put off with all that is before it."""
    with stand_in(StandIn()):

        def counted():
            counts = torch.zeros(3, dtype=torch.int64)
            return read_later(counts + 5)

        known, event = on_a_side_stream(counted)
        assert known() is None
        assert known() is None
        event.wait()
        assert known() == [5, 5, 5]
        assert read_later(torch.arange(3))() == [0, 1, 2]


def test_many_threads_make_a_table_once():
    with stand_in(StandIn()):
        table = Table()
        threads = [threading.Thread(target=table.once.here) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert table.num_made == 1
