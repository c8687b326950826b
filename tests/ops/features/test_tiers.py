"""Rows in several tables: where they are, and a gather from all of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.cuda.backend import stand_in
from headrace.ops import InputError, _native, reference
from headrace.ops.features.tiers import GpuTables, TierSizes, gather_tables, locate_and_count, locate_rows

from cuda_host.stand_in import StandIn
from strategies import thread_counts

pytestmark = pytest.mark.twins


@st.composite
def tiers(draw: st.DrawFn) -> tuple[int, TierSizes]:
    """A number of rows, and how many of them lie where."""
    num_rows = draw(st.integers(1, 60))
    num_devices = draw(st.integers(0, 5))
    replicated = draw(st.integers(0, num_rows if num_devices else 0))
    interleaved = draw(st.integers(0, num_rows - replicated if num_devices else 0))
    host = draw(st.integers(0, num_rows - replicated - interleaved))
    return num_rows, TierSizes(replicated, interleaved, host, num_devices)


@given(
    tiers(),
    st.sampled_from([torch.int32, torch.int64]),
    st.sampled_from([torch.int32, torch.int64]),
    thread_counts,
    st.data(),
)
def test_rows_are_found_as_by_the_reference(placed, rank_dtype, id_dtype, num_threads, data):
    num_rows, sizes = placed
    rank = torch.tensor(data.draw(st.permutations(range(num_rows))), dtype=rank_dtype)
    ids = torch.tensor(data.draw(st.lists(st.integers(0, num_rows - 1), max_size=80)), dtype=id_dtype)
    here = data.draw(st.integers(0, max(sizes.num_devices - 1, 0)))
    table, row, counts = locate_and_count(rank, ids, sizes, here=here, num_threads=num_threads)
    again = locate_rows(rank, ids, sizes, here=here, num_threads=num_threads)
    assert torch.equal(table, again[0])
    assert torch.equal(row, again[1])
    assert counts == torch.bincount(table, minlength=sizes.num_devices + 2).tolist()
    expected = reference.locate_rows(
        rank.numpy(), ids.numpy(), sizes.replicated, sizes.interleaved, sizes.num_devices, sizes.host, here
    )
    assert (table.tolist(), row.tolist()) == expected
    assert (table.dtype, row.dtype) == (torch.int32, torch.int64)


def test_the_boundaries_between_tiers():
    sizes = TierSizes(replicated=2, interleaved=3, host=2, num_devices=2)
    table, row = locate_rows(torch.arange(9), torch.arange(9), sizes, here=1)
    assert table.tolist() == [1, 1, 0, 1, 0, 2, 2, 3, 3]
    assert row.tolist() == [0, 1, 2, 2, 3, 0, 1, 7, 8]
    assert [sizes.interleaved_at(device) for device in (0, 1)] == [2, 1]


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    st.sampled_from([(), (3,), (2, 5), (700,)]),
    st.sampled_from([torch.uint8, torch.float32, torch.bfloat16, torch.int64]),
    thread_counts,
    st.data(),
)
def test_one_gather_reads_all_tables(lengths, shape, dtype, num_threads, data):
    tables = [torch.randint(0, 100, (length, *shape)).to(dtype) for length in lengths]
    there = [(table, row) for table, length in enumerate(lengths) for row in range(length)]
    wanted = data.draw(st.lists(st.sampled_from(there), max_size=40)) if there else []
    table = torch.tensor([table for table, _ in wanted], dtype=torch.int32)
    row = torch.tensor([row for _, row in wanted], dtype=torch.int64)
    expected = torch.stack([tables[t][r] for t, r in wanted]) if wanted else torch.empty(0, *shape, dtype=dtype)
    out = gather_tables(tables, table, row, torch.empty(len(wanted), *shape, dtype=dtype), num_threads=num_threads)
    assert torch.equal(out, expected)
    trusted = gather_tables(
        tables, table, row, torch.empty(len(wanted), *shape, dtype=dtype), num_threads=num_threads, trusted=True
    )
    assert torch.equal(trusted, expected)
    places = torch.randperm(len(wanted) + 3)[: len(wanted)]
    spread = torch.zeros(len(wanted) + 3, *shape, dtype=dtype)
    gather_tables(tables, table, row, spread, places=places, num_threads=num_threads)
    assert torch.equal(spread[places], expected)
    others = torch.ones(len(spread), dtype=torch.bool)
    others[places] = False
    assert not spread[others].any()


@pytest.mark.parametrize(
    ("ids", "here", "text"),
    [([4], 0, "ids\\[0\\] = 4 has no row"), ([0, -1], 0, "= -1 has no row"), ([0], 2, "here to be")],
)
def test_ids_and_devices_that_there_are_not(ids, here, text):
    with pytest.raises(InputError, match=text):
        locate_rows(torch.arange(4), torch.tensor(ids), TierSizes(1, 1, 0, 2), here=here)


def test_devices_whose_numbers_do_not_fit():
    with pytest.raises(InputError, match="devices, expected at most"):
        TierSizes(0, 0, 0, 1 << 32)
    with pytest.raises(InputError, match="devices, expected at most"):
        _native.locate_rows(torch.arange(4).numpy(), torch.arange(4).numpy(), 0, 0, 1 << 32, 0, 0, 1)


@pytest.mark.parametrize(
    ("table", "row", "places", "text"),
    [
        ([2], [0], None, "no row 0 in table 2"),
        ([-1], [0], None, "no row 0 in table -1"),
        ([1], [2], None, "no row 2 in table 1"),
        ([0], [-1], None, "no row -1 in table 0"),
        ([0], [0], [1], "no row of out"),
        ([0, 1], [0], None, "row to have one entry"),
    ],
)
def test_rows_and_places_that_there_are_not(table, row, places, text):
    tables, out = [torch.zeros(3, 2), torch.zeros(2, 2)], torch.full((1, 2), 7.0)
    with pytest.raises(InputError, match=text):
        gather_tables(
            tables,
            torch.tensor(table, dtype=torch.int32),
            torch.tensor(row),
            out,
            places=None if places is None else torch.tensor(places),
        )
    assert out.tolist() == [[7.0, 7.0]]


def test_tables_of_other_rows_are_refused():
    table, row = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int64)
    for one in (torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, 4)):
        with pytest.raises(InputError, match=r"expected rows as of out, .*, got tables\[1\] torch.float"):
            gather_tables([torch.zeros(3, 2), one], table, row, torch.zeros(1, 2))
    with pytest.raises(InputError, match=r"contiguous .*, got tables\[0\] with strides \(1, 3\)"):
        gather_tables([torch.zeros(2, 3).t()], table, row, torch.zeros(1, 2))
    with pytest.raises(InputError, match=r"got tables\[0\] on meta"):
        gather_tables([torch.zeros(3, 2, device="meta")], table, row, torch.zeros(1, 2))
    with pytest.raises(InputError, match="a row of out for each"):
        gather_tables([torch.zeros(3, 2)], table, row, torch.zeros(2, 2))


def test_tables_that_are_made_ready_for_a_gpu():
    tables, cpu = [torch.zeros(3, 2), torch.ones(2, 2)], torch.device("cpu")
    table, row = torch.tensor([1, 0], dtype=torch.int32), torch.tensor([1, 2])
    with stand_in(StandIn()):
        ready = GpuTables(tables, cpu)
        for trusted in (False, True):
            out = torch.full((2, 2), 7.0)
            assert gather_tables(ready, table, row, out, trusted=trusted).tolist() == [[1, 1], [0, 0]]
        with pytest.raises(InputError, match="no row 9 in table 0 of 2"):
            gather_tables(ready, table, torch.tensor([1, 9]), torch.zeros(2, 2))
        with pytest.raises(InputError, match=r"expected rows as of out, .*, got tables\[0\]"):
            gather_tables(ready, table, row, torch.zeros(2, 3))
        with pytest.raises(InputError, match=r"contiguous .*, got tables\[0\] with strides"):
            GpuTables([torch.zeros(2, 3).t()], cpu)
        ready.device = torch.device("meta")
        with pytest.raises(InputError, match="expected out on meta, which the tables were made ready for, got cpu"):
            gather_tables(ready, table, row, torch.zeros(2, 2))


@pytest.mark.parametrize("sizes", [(-1, 0, 0, 1), (1, 0, 0, 0), (0, 2, 0, 0), (True, 0, 0, 1), (0.5, 0, 0, 1)])
def test_sizes_that_cannot_be(sizes):
    with pytest.raises(InputError, match="TierSizes"):
        TierSizes(*sizes)
