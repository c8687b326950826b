"""Rows of files: both ways of reading give what indexing gives, in as few reads as they should."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ops import _native
from headrace.ops.errors import InputError
from headrace.ops.features.disk_rows import ENGINES, DiskRows

START = 128
NUM_ROWS = 300


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    if request.param == "io_uring" and not _native.has_io_uring():
        pytest.skip("this kernel has no io_uring for us")
    return request.param


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return by row size the rows of a file, and its path."""
    folder = tmp_path_factory.mktemp("tables")
    made = {}
    for width in (1, 3, 16, 512, 4096, 4097, 300_000):
        rows = np.random.default_rng(width).integers(0, 256, (NUM_ROWS if width < 9999 else 7, width), np.uint8)
        path = folder / f"{width}"
        path.write_bytes(b"h" * START + rows.tobytes())
        made[width] = torch.from_numpy(rows), path
    return made


def opened(path, shape, dtype=torch.uint8, **options):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return DiskRows(descriptor, name=str(path), start=START, shape=shape, dtype=dtype, **options)
    finally:
        os.close(descriptor)


@pytest.mark.slow
@pytest.mark.combinations(10)
@settings(max_examples=30)
@given(data=st.data())
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("width", [1, 3, 16, 512, 4096, 4097, 300_000])
def test_reading_equals_indexing(tables, engine, width, direct, data):
    rows, path = tables[width]
    ids = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=60))
    ids += data.draw(st.lists(st.sampled_from([0, len(rows) - 1]), max_size=3))
    source = opened(
        path,
        rows.shape,
        engine=engine,
        direct=direct,
        queue_depth=data.draw(st.sampled_from([1, 2, 64])),
        gap_bytes=data.draw(st.sampled_from([0, 1, 5000, 1 << 40])),
    )
    wanted = torch.tensor(ids, dtype=data.draw(st.sampled_from([torch.int32, torch.int64])))
    read = source.read(wanted)
    assert torch.equal(read.rows, rows[wanted.long()])
    assert read.num_reads <= len(set(ids))
    # To places: the other rows of the output stay.
    out = torch.full((len(ids) + 2, width), 7, dtype=torch.uint8)
    expected = out.clone()
    places = torch.randperm(len(ids) + 2)[: len(ids)]
    expected[places] = rows[wanted.long()]
    assert source.read(wanted, out=out, places=places).rows is out
    assert torch.equal(out, expected)


def test_near_and_repeated_rows_are_one_read(tables, engine):
    rows, path = tables[16]

    def reads_of(ids, gap_bytes):
        read = opened(path, rows.shape, engine=engine, gap_bytes=gap_bytes).read(torch.tensor(ids))
        assert torch.equal(read.rows, rows[ids])
        return read.num_reads, read.num_bytes

    assert reads_of([5, 5, 5], 0) == (1, 16)
    assert reads_of([6, 4, 5], 0) == (1, 48)
    assert reads_of([4, 6], 15) == (2, 32)
    assert reads_of([4, 6], 16) == (1, 48)
    assert reads_of([9, 0, 2], 16) == (2, 64)


def test_a_read_is_not_longer_than_a_quarter_of_a_megabyte(tables, engine):
    rows, path = tables[4096]
    read = opened(path, rows.shape, engine=engine).read(torch.arange(65))
    assert (read.num_reads, read.num_bytes) == (2, 65 * 4096)


def test_direct_reads_are_of_whole_blocks(tables, engine):
    rows, path = tables[16]
    source = opened(path, rows.shape, engine=engine, direct=True, gap_bytes=0)
    if not source.direct:
        pytest.skip("this file system reads through the page cache alone")
    assert source.read(torch.tensor([0])).num_bytes == 4096
    # The last block ends where the file does.
    assert source.read(torch.tensor([NUM_ROWS - 1])).num_bytes == START + NUM_ROWS * 16 - 4096


def test_rows_without_bytes(tables, engine):
    read = opened(tables[1][1], (5, 0), engine=engine).read(torch.tensor([4, 0]))
    assert read.rows.shape == (2, 0)
    assert read.num_reads == 0
    with pytest.raises(InputError, match="expected from 0 to below 5"):
        opened(tables[1][1], (5, 0), engine=engine).read(torch.tensor([5]))


@pytest.mark.parametrize("direct", [False, True])
def test_rows_beyond_four_gigabytes(tmp_path, engine, direct):
    """Of a file with a hole, which takes no room."""
    path = tmp_path / "sparse"
    width, num_rows = 4097, 3_000_000
    marked = [0, 1, (1 << 31) // width, (1 << 32) // width, num_rows - 1]
    with path.open("wb") as file:
        file.truncate(START + width * num_rows)
        for row in marked:
            file.seek(START + row * width)
            file.write(bytes([row % 251 + 1]) * width)
    rows = opened(path, (num_rows, width), engine=engine, direct=direct).read(torch.tensor([*marked, 2, 7])).rows
    expected = torch.tensor([*(row % 251 + 1 for row in marked), 0, 0], dtype=torch.uint8)
    assert torch.equal(rows, expected[:, None].expand(-1, width))


@pytest.mark.parametrize("direct", [False, True])
def test_a_truncated_file_is_an_error_that_names_the_first_row_that_is_gone(tmp_path, engine, direct):
    path = tmp_path / "rows"
    path.write_bytes(bytes(START + 100 * 1000))
    source = opened(path, (100, 1000), engine=engine, direct=direct, gap_bytes=0)
    os.truncate(path, START + 50 * 1000 + 1)
    for ids in ([99, 3, 70, 50], list(range(100)), [50], [*range(49, 90, 2), 50]):
        with pytest.raises(InputError, match=r"ends in row (50|51);") as caught:
            source.read(torch.tensor(ids))
        assert str(path) in str(caught.value)
        assert f"row {min(i for i in ids if i >= 50)};" in str(caught.value)
    # Rows that are there still: what was opened is no more.
    with pytest.raises(InputError, match="written to since"):
        source.read(torch.tensor([3]))


def test_a_file_that_was_written_to_is_refused(tmp_path, engine):
    path = tmp_path / "rows"
    path.write_bytes(bytes(START + 1000))
    source = opened(path, (1000,), engine=engine)
    assert source.read(torch.tensor([3])).rows.tolist() == [0]
    path.write_bytes(b"1" * (START + 1000))
    os.utime(path, ns=(0, 12345))  # clocks of file systems tick slowly
    with pytest.raises(InputError, match="has been written to since"):
        source.read(torch.tensor([3]))


def test_what_cannot_be_read_is_an_error_that_names_the_row(tmp_path, engine):
    """A folder opens, and is no file to read from."""
    source = opened(tmp_path, (1000, 8), engine=engine)
    with pytest.raises(InputError, match=r"cannot read all of rows 5 to 900 of .*: Is a directory"):
        source.read(torch.tensor([900, 5, 500]))


def test_several_threads_read_at_once(tables, engine):
    rows, path = tables[512]
    source = opened(path, rows.shape, engine=engine, queue_depth=4)
    wrong = []

    def read(seed):
        random = torch.Generator().manual_seed(seed)
        for _ in range(50):
            ids = torch.randint(len(rows), (40,), generator=random)
            if not torch.equal(source.read(ids).rows, rows[ids]):
                wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_process_reads_on(tables, engine):
    rows, path = tables[512]
    source = opened(path, rows.shape, engine=engine)
    ids = torch.arange(0, len(rows), 40)
    expected = rows[ids].numpy()
    source.read(ids)  # there is a ring, which the child must not use
    child = os.fork()
    if child == 0:  # no operation of torch here: its threads stayed behind
        equal = all(np.array_equal(source.read(ids).rows.numpy(), expected) for _ in range(3))
        os._exit(0 if equal else 1)
    for _ in range(200):
        assert torch.equal(source.read(ids).rows, rows[ids])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_descriptor_is_left(tables, engine):
    rows, path = tables[16]
    before = list(Path("/proc/self/fd").iterdir())
    for _ in range(5):
        source = opened(path, rows.shape, engine=engine)
        source.read(torch.tensor([1, 2]))
        with pytest.raises(InputError):
            source.read(torch.tensor([-1]))
        del source
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


@pytest.mark.parametrize("direct", [False, True])
def test_the_descriptor_of_the_caller_stays_as_it_is(tables, engine, direct):
    rows, path = tables[512]
    with path.open("rb") as file:
        for nonblocking in (False, True):
            os.set_blocking(file.fileno(), not nonblocking)
            file.seek(7)
            flags = fcntl.fcntl(file, fcntl.F_GETFL)
            shape = {"start": START, "shape": rows.shape, "dtype": torch.uint8}
            source = DiskRows(file.fileno(), name=str(path), engine=engine, direct=direct, **shape)
            assert torch.equal(source.read(torch.tensor([5, 2])).rows, rows[[5, 2]])
            assert fcntl.fcntl(file, fcntl.F_GETFL) == flags
            assert file.tell() == 7
            assert len(file.read(3)) == 3  # not of whole blocks, as O_DIRECT would have it


def test_a_file_that_has_no_name_any_more_is_read(tmp_path, engine):
    path = tmp_path / "rows"
    path.write_bytes(bytes(START) + bytes(range(200)))
    with path.open("rb") as file:
        path.unlink()
        rows = DiskRows(file.fileno(), name="rows", start=START, shape=(200, 1), dtype=torch.uint8, engine=engine)
    assert rows.read(torch.tensor([7, 199])).rows.tolist() == [[7], [199]]


def test_refusals(tables, engine):
    rows, path = tables[16]
    source = opened(path, rows.shape, engine=engine)
    out = torch.full((2, 16), 7, dtype=torch.uint8)
    for ids, places, message in (
        ([0, NUM_ROWS], None, rf"ids\[1\] = {NUM_ROWS} has no row: expected from 0 to below {NUM_ROWS}"),
        ([-1, 0], None, r"ids\[0\] = -1"),
        ([0, 1], [0, 2], r"places\[1\] = 2"),
        ([0, 1], [0], "a place for each of 2 ids, got 1"),
    ):
        with pytest.raises(InputError, match=message):
            source.read(torch.tensor(ids), out=out, places=None if places is None else torch.tensor(places))
    assert (out == 7).all()
    with pytest.raises(InputError, match="out to be a contiguous CPU tensor"):
        source.read(torch.tensor([0]), out=out)
    with pytest.raises(InputError, match="give out too"):
        source.read(torch.tensor([0]), places=torch.tensor([0]))
    for options, message in (
        ({"engine": "aio"}, "expected an engine, 'io_uring' or 'threads', or None, got 'aio'"),
        ({"queue_depth": 0}, "queue_depth to be an int of at least 1 and at most 1024, got 0"),
        ({"queue_depth": True}, "queue_depth"),
        ({"gap_bytes": -1}, "gap_bytes to be an int of at least 0"),
        ({"gap_bytes": 1 << 62}, "gap_bytes to be below"),
    ):
        with pytest.raises(InputError, match=message):
            opened(path, rows.shape, **{"engine": engine, **options})
    with pytest.raises(InputError, match="expected rows that fit in a file"):
        opened(path, (1 << 62, 16), engine=engine)
    with pytest.raises(InputError, match=r"cannot keep nothing open: Bad file descriptor"):
        DiskRows(-1, name="nothing", start=0, shape=(1,), dtype=torch.uint8, engine=engine)
