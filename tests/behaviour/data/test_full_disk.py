"""What cannot be written is named, what was there stays, and nothing is left: by a limit of the size of files."""

from __future__ import annotations

import pytest

from copies import Process

_WRITERS = {
    "save_dataset": "hr.save_dataset(path, graph, store, overwrite=True, progress=False)",
    "parts": "data.partition(hr.Partition.hash(N, 2), path, overwrite=True, progress=False)",
    "inference.npy": "hr.inference(torch.nn.Identity(), graph, store, layers=[layer], out=path, overwrite=True)",
    "profile.json": "loader.profile(path)",
    "report.png": "hr.Partition.hash(N, 2).report(graph).plot(path)",
}

_PROGRAM = """
import os, resource, sys, torch, headrace as hr
from pathlib import Path

N = 3000
graph = hr.Graph.from_coo(torch.arange(N), torch.arange(N).roll(1))
store = hr.FeatureStore(node={{"x": torch.rand(N, 8)}})
hr.save_dataset(f"{{sys.argv[1]}}-data/data", graph, store, progress=False)
data = hr.open_dataset(f"{{sys.argv[1]}}-data/data")
layer = lambda h, block: h[: block.num_dst]
path = Path(sys.argv[1])
loader = hr.ItemSampler(N, batch_size=10).sample_neighbor(graph, [2]).loader()
list(loader)

def write():
    {write}

def contents():
    files = [path] if path.is_file() else sorted(path.rglob("*.*"))
    return [(one, one.read_bytes()) for one in files]

write()
before = contents()
assert before
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
try:
    write()
    raise SystemExit("expected an error")
except OSError as error:
    assert error.filename == str(path), error
    assert "raise that limit" in str(error), error
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert sorted(os.listdir(path.parent)) == sorted([path.name, f"{{path.name}}-data"]), os.listdir(path.parent)
assert contents() == before
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", _WRITERS)
def test_what_cannot_be_written_is_named_and_what_was_there_stays(tmp_path, name):
    if name.endswith(".png"):
        pytest.importorskip("matplotlib")
    process = Process(_PROGRAM.format(write=_WRITERS[name]), tmp_path / name)
    assert process.wait(120) == 0, process.communicate()
