"""Features in .npy files: what the source says of itself, what it refuses, how it travels, and batches from it."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import headrace as hr

ROWS = np.arange(60, dtype=np.float32).reshape(20, 3)
#: Linked before the C library, this cuts reads short, interrupts them, and fails those from a given offset on.
SHIM = r"""
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t pread64(int descriptor, void *memory, size_t bytes, off_t offset) {
  static __thread int calls;
  const char *bad = getenv("BAD_FROM");
  if (bad && offset + (off_t)bytes > atoll(bad)) { errno = EIO; return -1; }
  if (++calls % 3 == 0) { errno = EINTR; return -1; }
  return syscall(SYS_pread64, descriptor, memory, bytes > 1000 ? 1000 : bytes, offset);
}
ssize_t pread(int descriptor, void *memory, size_t bytes, off_t offset) {
  return pread64(descriptor, memory, bytes, offset);
}
"""


def num_open():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    return tmp_path / "x.npy"


def test_what_it_says_of_itself(path):
    x = hr.DiskFeature(path, engine="threads")
    assert isinstance(x, hr.ext.PlacingSource)
    assert (x.num_rows, x.row_bytes, x.dtype, x.shape) == (20, 12, torch.float32, (20, 3))
    assert x.place == hr.Place("disk")
    assert repr(x) == "float32[20, 3] on disk (threads)"
    assert x.path == path
    assert x == hr.DiskFeature(str(path))
    assert hash(x) == hash(hr.DiskFeature(str(path)))
    assert x != hr.FeatureStore(node={"x": ROWS}).node["x"]
    assert hr.DiskFeature(path).engine in ("io_uring", "threads")


@pytest.mark.parametrize("shape", [(7,), (7, 3), (6000, 2, 100), (5000, 0), (0, 4)])
@pytest.mark.parametrize("dtype", ["u1", "i8", "f2", "?", "c8"])
def test_digests_are_those_of_arrays_in_memory(tmp_path, shape, dtype):
    rows = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    np.save(tmp_path / "x.npy", rows)
    x = hr.DiskFeature(tmp_path / "x.npy")
    ids = torch.arange(len(rows)).flip(0)
    assert torch.equal(x.read(ids).rows, torch.from_numpy(rows)[ids])
    in_memory = hr.FeatureStore(node={"x": rows}).node["x"]
    assert (x.shape, x.dtype, x.row_bytes) == (in_memory.shape, in_memory.dtype, in_memory.row_bytes)
    assert x.content_digest() == in_memory.content_digest()


def test_counts(path):
    x = hr.DiskFeature(path, gap_bytes=0)
    wanted = {"bytes_from_disk": 48, "disk_reads": 2, "disk_bytes": 36}
    assert x.read(torch.tensor([4, 9, 4, 5])).counts == wanted
    out = torch.zeros(5, 3)
    assert x.read_into(torch.tensor([4, 9, 4, 5]), out, places=torch.tensor([4, 0, 1, 2])) == wanted
    assert np.array_equal(out.numpy()[[4, 0, 1, 2, 3]], np.concatenate([ROWS[[4, 9, 4, 5]], np.zeros((1, 3))]))
    with pytest.raises(hr.InputError, match="expected to=cpu"):
        x.read(torch.tensor([0]), to=hr.Place("pinned"))


def test_batches_are_those_from_memory(tmp_path):
    x = torch.randn(500, 40)
    np.save(tmp_path / "x.npy", x.numpy())
    graph = hr.Graph.from_coo(torch.randint(500, (4000,)), torch.randint(500, (4000,)), num_nodes=500)

    def batches_from(feature):
        store = hr.FeatureStore(node={"x": feature})
        plan = hr.ItemSampler(500, batch_size=32, shuffle=True, seed=1).sample_neighbor(graph, [5, 5])
        plan = plan.fetch_feature(store, node=["x"]).prefetch(workers=2)
        loader = plan.loader(tiered_cache=False, lookahead=False)
        return [batch.digest() for batch in loader], loader

    expected, in_memory = batches_from(x)
    found, loader = batches_from(hr.DiskFeature(tmp_path / "x.npy"))
    assert found == expected
    stats = loader.stats()["fetch_feature"]
    assert stats["bytes_from_disk"] == stats["bytes"]
    assert 0 < stats["disk_reads"] < stats["rows"]
    loader.load_state_dict(in_memory.state_dict())  # same content, same plan


def refused(path, match, **options):
    with pytest.raises(hr.InputError, match=match) as caught:
        hr.DiskFeature(path, **options)
    assert isinstance(caught.value, hr.InputError)


def test_refuses_other_files(tmp_path, path):
    def saved(array):
        np.save(tmp_path / "other.npy", array)
        return tmp_path / "other.npy"

    refused(tmp_path / "none.npy", "there is no such file")
    refused(tmp_path, "expected a regular file at .*, got a folder")
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", "got a FIFO")
    refused(saved(np.asfortranarray(ROWS)), "got an array in Fortran order")
    refused(saved(np.float32(1)), "expected one row per id in .*, got a single number")
    refused(saved(np.array(["a"])), "map what it holds to numbers first")
    refused(saved(ROWS.astype(">f4")), "native byte order")
    refused(saved(np.array([{}])), "Python objects")
    (tmp_path / "text.npy").write_text("1 2 3")
    refused(tmp_path / "text.npy", "got text that begins with '1 2 3'; numpy.save")
    for size in (-1, 1):
        shutil.copy(path, tmp_path / "cut.npy")
        os.truncate(tmp_path / "cut.npy", path.stat().st_size + size)
        refused(tmp_path / "cut.npy", f"it has {path.stat().st_size + size} bytes, by its header ")
    refused(5, "expected the path of a .npy file, got int")
    refused(path, "expected an engine", engine="libaio")
    refused(path, "queue_depth to be", queue_depth=0)


def test_a_row_in_fortran_order_is_as_good(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(np.arange(5)))
    assert hr.DiskFeature(tmp_path / "x.npy").read(torch.tensor([3])).rows.tolist() == [3]


def test_closing(path):
    x = hr.DiskFeature(path)
    x.read(torch.tensor([1]))
    gc.collect()  # features of earlier tests, which tracebacks hold, would close their files meanwhile
    before = num_open()
    x.close()
    x.close()
    assert num_open() == before - (2 if x.engine == "io_uring" else 1)
    with pytest.raises(hr.InputError, match=r"x\.npy was closed; open it once more"):
        x.read(torch.tensor([1]))
    with pytest.raises(hr.InputError, match="was closed"):
        pickle.loads(pickle.dumps(x)).read(torch.tensor([1]))  # noqa: S301 - our own


def test_the_file_that_was_opened_is_read_on_when_another_takes_its_name(path, tmp_path):
    x = hr.DiskFeature(path)
    np.save(tmp_path / "new.npy", -ROWS)
    (tmp_path / "new.npy").replace(path)
    assert x.read(torch.tensor([1])).rows.tolist() == [[3, 4, 5]]
    assert x != hr.DiskFeature(path)
    with pytest.raises(hr.InputError, match="as it was when this was pickled"):
        pickle.loads(pickle.dumps(x))  # noqa: S301 - our own


def test_pickled_it_opens_the_file_anew(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    x = hr.DiskFeature("x.npy", queue_depth=3, gap_bytes=5, engine="threads")
    pickled = pickle.dumps(x)
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)  # noqa: S301 - our own
    assert again == x
    assert again.engine == "threads"
    assert again.read(torch.tensor([1])).rows.tolist() == [[3, 4, 5]]


READING = """
import os, sys
import numpy as np, torch, headrace as hr
path = sys.argv[1]
rows = np.load(path)
for bad_from in sys.argv[2:]:
    os.environ["BAD_FROM"] = bad_from
    for step in 1, 2:
        x = hr.DiskFeature(path, engine="threads", gap_bytes=0)
        ids = torch.arange(0, len(rows), step).flip(0)
        try:
            assert np.array_equal(x.read(ids).rows.numpy(), rows[ids.numpy()])
            print("equal")
        except hr.InputError as error:
            print(error)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "shim.so"), str(folder / "shim.c")]
    subprocess.run(command, check=True)
    return folder / "shim.so"


@pytest.mark.slow
@pytest.mark.uninstrumented
def test_short_interrupted_and_failing_reads(tmp_path, shim):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (100, 1500), np.uint8))
    command = [sys.executable, "-c", READING, str(tmp_path / "x.npy"), str(1 << 60), str(128 + 39 * 1500 + 1)]
    variables = {**os.environ, "LD_PRELOAD": str(shim)}
    result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    # Of several rows that are one read, none can be told from the others.
    refused = [
        f"cannot read {of} {tmp_path / 'x.npy'}: Input/output error" for of in ("all of rows 0 to 99 of", "row 40 of")
    ]
    assert result.stdout.splitlines() == ["equal", "equal", *refused]
