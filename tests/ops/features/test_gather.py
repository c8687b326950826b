"""gather_rows against plain indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, gather_rows, reference

from strategies import thread_counts

pytestmark = pytest.mark.twins

DTYPES = ["bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


@given(
    st.integers(1, 40),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(DTYPES),
    st.sampled_from([torch.int32, torch.int64]),
    thread_counts,
    st.data(),
)
def test_equals_indexing(num_rows, shape, dtype, id_dtype, num_threads, data):
    source = torch.randint(0, 100, (num_rows, *shape)).to(getattr(torch, dtype))
    ids = torch.tensor(data.draw(st.lists(st.integers(0, num_rows - 1), max_size=60)), dtype=id_dtype)
    result = gather_rows(source, ids, num_threads=num_threads)
    assert result.dtype == source.dtype
    assert torch.equal(result, source[ids.long()])


@pytest.mark.parametrize("width", [1, 3, 16, 100, 5000])
def test_widths_around_cache_lines_and_pages(width):
    source = torch.arange(50 * width, dtype=torch.float32).reshape(50, width)
    ids = torch.randint(0, 50, (10_000 if width < 1000 else 100,))
    for num_threads in (1, 3):
        assert torch.equal(gather_rows(source, ids, num_threads=num_threads), source[ids])


@given(
    st.integers(1, 40),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(DTYPES),
    st.booleans(),
    thread_counts,
    st.data(),
)
def test_places_equal_reference(num_rows, shape, dtype, strided, num_threads, data):
    source = torch.randint(0, 100, (num_rows, *shape)).to(getattr(torch, dtype))
    if strided and shape:
        source = source.transpose(0, -1).contiguous().transpose(0, -1)
    places = data.draw(st.lists(st.integers(0, 70), unique=True, max_size=60))
    ids = data.draw(st.lists(st.integers(0, num_rows - 1), min_size=len(places), max_size=len(places)))
    out = torch.randint(0, 100, (71, *shape)).to(source.dtype)
    view = {torch.bfloat16: torch.int16}.get(source.dtype, source.dtype)  # NumPy has no bfloat16
    arrays = source.contiguous().view(view).numpy(), np.array(ids, np.int64), out.clone().view(view).numpy()
    expected = reference.gather_rows(*arrays, np.array(places, np.int64))
    result = gather_rows(
        source,
        torch.tensor(ids, dtype=torch.int64),
        out=out,
        places=torch.tensor(places, dtype=torch.int64),
        num_threads=num_threads,
    )
    assert result is out
    assert np.array_equal(result.view(view).numpy(), expected)


@pytest.mark.slow
def test_many_rows_go_to_their_places():
    source, ids, places = (
        torch.arange(5000.0).reshape(50, 100),
        torch.randint(0, 50, (100_000,)),
        torch.randperm(100_000),
    )
    for num_threads in (1, 3):
        out = gather_rows(source, ids, out=torch.empty(100_000, 100), places=places, num_threads=num_threads)
        assert torch.equal(out[places], source[ids])


def test_refuses_places_that_are_no_rows():
    source, ids, out = torch.zeros(3, 2), torch.tensor([0, 1]), torch.ones(4, 2)
    for table in (source, torch.zeros(2, 3).t()):
        for place in (-1, 4):
            with pytest.raises(InputError, match=rf"places\[1\] = {place} is no row of out: expected 0 <= place < 4"):
                gather_rows(table, ids, out=out, places=torch.tensor([0, place]))
        with pytest.raises(InputError, match="expected a place for each of 2 ids, got 1"):
            gather_rows(table, ids, out=out, places=torch.tensor([0]))
    with pytest.raises(InputError, match="give out too"):
        gather_rows(source, ids, places=torch.tensor([0, 1]))
    with pytest.raises(InputError, match="out to be"):
        gather_rows(source, ids, out=[1], places=torch.tensor([0, 1]))
    assert (out == 1).all()


@pytest.mark.slow
@pytest.mark.combinations(5)
@pytest.mark.cpu
@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("width", [4, 6, 100, 128])
def test_outputs_beyond_the_caches(width):
    """They are written in another way, where rows and their place allow it: at any place in a line, in any thread."""
    source = torch.arange(50 * width, dtype=torch.float32).reshape(50, width)
    ids = torch.randint(0, 50, ((34 << 20) // (4 * width),))
    expected, room = source[ids], torch.full((len(ids) * width + 40,), -1.0)
    for start in (0, 1, 4, 8, 12, 20):
        out = room[start : start + len(ids) * width].view(-1, width)
        for num_threads in (1, 3):
            room.fill_(-1.0)
            assert torch.equal(gather_rows(source, ids, out=out, num_threads=num_threads), expected)
            assert (room[:start] == -1.0).all()
            assert (room[start + len(ids) * width :] == -1.0).all()


SOURCES = {
    "columns": lambda table: table[:, 2:5],
    "every other row": lambda table: table[::2],
    "transposed": lambda table: table.t(),
    "expanded": lambda table: table[:1].expand(6, -1),
    "every other column": lambda table: table[:, ::2],
    "one column": lambda table: table[:, 3],
    "needs grad": lambda table: table.clone().requires_grad_(),
}


@pytest.mark.parametrize("view", SOURCES.values(), ids=SOURCES)
def test_views(view):
    source = view(torch.arange(80.0).reshape(10, 8))
    ids = torch.tensor([3, 0, 4, 3])
    result = gather_rows(source, ids)
    assert torch.equal(result, source.detach()[ids])
    assert not result.requires_grad
    with pytest.raises(InputError, match=r"ids\[0\] = -1 has no row"):
        gather_rows(source, torch.tensor([-1]))


def test_negative_strides_of_numpy():
    source = np.arange(24).reshape(6, 4)[::-1]
    assert gather_rows(source, np.array([0, 5])).tolist() == source[[0, 5]].tolist()
    flipped = source[:, ::-1]
    assert gather_rows(flipped, np.array([0, 5])).tolist() == flipped[[0, 5]].tolist()


def test_read_only_memory_map(tmp_path):
    table = np.random.default_rng(0).random((30, 7), dtype=np.float32)
    np.save(tmp_path / "x.npy", table)
    source = np.load(tmp_path / "x.npy", mmap_mode="r")
    ids = torch.tensor([29, 0, 29])
    assert gather_rows(source, ids).numpy().tolist() == table[ids.numpy()].tolist()
    columns = source[:, ::2]
    assert gather_rows(columns, ids).numpy().tolist() == table[ids.numpy(), ::2].tolist()


def test_writes_into_out():
    source, ids = torch.rand(10, 4), torch.tensor([1, 9])
    out = torch.empty(2, 4)
    assert gather_rows(source, ids, out=out) is out
    assert torch.equal(out, source[ids])


@pytest.mark.parametrize(
    "out",
    [
        torch.empty(3, 4),
        torch.empty(2, 4, dtype=torch.float64),
        torch.empty(4, 2).t(),
        torch.empty(2, 4, device="meta"),
    ],
    ids=["shape", "dtype", "strides", "device"],
)
def test_refuses_an_out_that_does_not_fit(out):
    with pytest.raises(InputError, match=r"out to be a contiguous CPU tensor torch.float32\[2, 4\]"):
        gather_rows(torch.rand(10, 4), torch.tensor([1, 9]), out=out)


@pytest.mark.parametrize("num_threads", [1, 4])
@pytest.mark.parametrize("bad", [-1, 10, 2**31 - 1])
def test_refuses_ids_without_a_row_and_writes_nothing(bad, num_threads):
    out = torch.full((3, 4), 7.0)
    with pytest.raises(InputError, match=rf"ids\[2\] = {bad} has no row: expected 0 <= id < num_rows = 10"):
        gather_rows(torch.rand(10, 4), torch.tensor([0, 1, bad]), out=out, num_threads=num_threads)
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("source", "ids", "message"),
    [
        (torch.tensor(1.0), torch.tensor([0]), "dimension of rows"),
        (torch.empty(3, device="meta"), torch.tensor([0]), "dense CPU tensor"),
        (torch.eye(3).to_sparse(), torch.tensor([0]), "dense CPU tensor, got torch.sparse_coo"),
        (np.array(["a"]), torch.tensor([0]), "a dtype that torch has, got <U1"),
        ([1.0], torch.tensor([0]), "got list"),
        (torch.rand(3), torch.tensor([0.0]), "ids to be .* got float32"),
        (torch.rand(3), torch.tensor([True]), "ids to be .* got bool"),
    ],
)
def test_refuses_bad_arguments(source, ids, message):
    with pytest.raises(InputError, match=message):
        gather_rows(source, ids)


def test_no_rows():
    assert gather_rows(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)).shape == (0, 3)
    with pytest.raises(InputError, match="num_rows = 0"):
        gather_rows(torch.empty(0, 3), torch.tensor([0]))


def test_lazy_views_are_read_for_what_they_stand_for():
    """A conjugated or negated view shares the memory of its base, which holds other numbers."""
    source = torch.tensor([[1 + 2j], [3 + 4j]]).conj()
    ids = torch.tensor([1, 0])
    assert torch.equal(gather_rows(source, ids), source[ids])
    assert torch.equal(gather_rows(source.imag, ids), source.imag[ids])


def test_one_id_of_a_reversed_array():
    """Of one element NumPy says that it is contiguous, whatever its stride; torch wants no negative one."""
    columns = torch.arange(12).reshape(2, 2, 3).transpose(1, 2)  # rows that are not packed
    assert torch.equal(gather_rows(columns, np.array([1])[::-1]), columns[[1]])


@pytest.mark.cpu  # a copy is no view
def test_refuses_an_output_that_is_a_lazy_view():
    """Of one element torch says that it is contiguous; what is written there would be read with the other sign."""
    out = torch.zeros(1, 1, dtype=torch.complex64).conj().imag
    with pytest.raises(InputError, match="no lazy view: False"):
        gather_rows(torch.ones(3, 1), torch.tensor([0]), out=out)


def test_refuses_threads_that_rows_of_strides_would_not_use():
    with pytest.raises(InputError, match="num_threads to be"):
        gather_rows(torch.zeros(2, 2, 3).transpose(1, 2), torch.tensor([0]), num_threads=-2)


@pytest.mark.cpu  # NumPy's arrays are
def test_refuses_an_output_that_is_no_tensor():
    out: Any = np.zeros((1, 2), np.float32)
    with pytest.raises(InputError, match=r"out to be a contiguous CPU tensor torch.float32\[1, 2\], got ndarray"):
        gather_rows(torch.zeros(3, 2), torch.tensor([0]), out=out)
