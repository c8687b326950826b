"""Writers with `overwrite` delete what headrace wrote, and nothing else; a second writer of a place is told so."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from part_files import data
from shell import main

import headrace as hr

from copies import Process
from plans import graph, store

OWNERS = hr.Partition.hash(graph().num_nodes, 2)
TYPED = hr.Graph.from_coo({("a", "r", "b"): ([0, 1], [1, 0])}, num_nodes={"a": 2, "b": 2})


def saved(path: Path) -> None:
    hr.save_dataset(path, graph(), store(), overwrite=True, progress=False)


def parts(path: Path) -> None:
    data().partition(OWNERS, path, overwrite=True, progress=False)


def graph_alone(path: Path) -> None:
    graph().save(path, overwrite=True)


def generated(path: Path) -> None:
    if main(["generate", "rmat", str(path), "--nodes", "20", "--edges", "40", "--overwrite"]):
        raise hr.InputError("see above")


def converted(path: Path) -> None:
    table = path.with_name("table.csv")
    table.write_text("src,dst\n0,1\n1,0\n")
    if main(["convert", str(path.parent), str(path), "--edges", table.name, "--overwrite"]):
        raise hr.InputError("see above")


def reordered(path: Path) -> None:
    if not path.with_name("origin").exists():
        saved(path.with_name("origin"))
    if main(["reorder", str(path.with_name("origin")), str(path), "--overwrite"]):
        raise hr.InputError("see above")


def partitioned(path: Path) -> None:
    if not path.with_name("origin").exists():
        saved(path.with_name("origin"))
    if main(["partition", str(path.with_name("origin")), str(path), "--parts", "2", "--overwrite"]):
        raise hr.InputError("see above")


def inferred(path: Path) -> None:
    rows = hr.FeatureStore(node={("a", "x"): torch.ones(2, 3), ("b", "x"): torch.ones(2, 3)})
    layers = [lambda h, block: {name: one[: block.num_dst] for name, one in h.items()}]
    hr.inference(torch.nn.Identity(), TYPED, rows, layers=layers, out=path, overwrite=True)


WRITERS = [saved, parts, graph_alone, generated, converted, reordered, partitioned, inferred]


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("mine", ["thesis.txt", "deep/thesis.txt", "empty/", "graph.mine.npy", ".hidden"])
def test_files_of_others_are_named_and_stay(tmp_path, write, mine, capsys):
    path = tmp_path / "out"
    try:
        write(path)
    except (hr.HeadraceError, RuntimeError, TypeError) as error:  # pragma: no cover - a layer of the test is wrong
        pytest.fail(str(error))
    write(path)
    if mine.endswith("/"):
        (path / mine).mkdir()
    else:
        (path / mine).parent.mkdir(exist_ok=True)
        (path / mine).write_text("mine")
    before = sorted(one.relative_to(path) for one in path.rglob("*"))
    with pytest.raises(hr.InputError) as caught:
        write(path)
    assert mine.split("/")[0] in f"{caught.value}{capsys.readouterr().err}"
    assert sorted(one.relative_to(path) for one in path.rglob("*")) == before


def test_files_of_others_in_parts_of_a_data_set_stay(tmp_path, capsys):
    saved(tmp_path / "data")
    assert main(["partition", str(tmp_path / "data"), "--parts", "2"]) == 0
    mine = tmp_path / "data" / "parts" / "hash-2" / "part-0" / "node.mine.npy"
    np.save(mine, np.ones(2))
    with pytest.raises(hr.InputError, match=r"parts/hash-2/part-0/node\.mine\.npy, which headrace did not write"):
        saved(tmp_path / "data")
    mine.unlink()
    saved(tmp_path / "data")
    assert not (tmp_path / "data" / "parts").exists()


_TWICE = """
import sys, time, torch, headrace as hr
graph = hr.Graph.from_coo([0, 1], [1, 0])

class Slow(hr.FeatureSource):
    num_rows, row_bytes, dtype, shape = 2, 4, torch.float32, (2,)

    def read(self, ids, *, num_threads=1, to=None):
        print("reading", flush=True)
        time.sleep(60)

    def content_digest(self):
        return "none"

hr.save_dataset(sys.argv[1], graph, hr.FeatureStore(node={"x": Slow()}), progress=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_second_of_two_processes_is_told_so_when_it_begins(tmp_path, overwrite):
    path = tmp_path / "data"
    first = Process(_TWICE, path)
    while first.poll() is None and not first.printed():
        pass
    try:
        with pytest.raises(hr.InputError, match=r"nobody else to write .*data, but another run is writing it now"):
            hr.save_dataset(path, graph(), overwrite=overwrite, progress=False)
    finally:
        first.kill()
    with pytest.warns(UserWarning, match="removed 1 unfinished drafts"):
        hr.save_dataset(path, graph(), overwrite=overwrite, progress=False)
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_writers_that_begin_together_each_succeeds_or_is_told_why(tmp_path, overwrite):
    outcomes: list[object] = []
    barrier = threading.Barrier(4)

    def write() -> None:
        barrier.wait()
        try:
            hr.save_dataset(tmp_path / "d", graph(), store(), overwrite=overwrite, progress=False)
            outcomes.append(None)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            outcomes.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert None in outcomes
    assert all(one is None or isinstance(one, hr.HeadraceError) for one in outcomes), outcomes
    hr.open_dataset(tmp_path / "d").verify()
    assert [one.name for one in tmp_path.iterdir()] == ["d"]


def test_attributes_and_items_that_are_called_notes(tmp_path):
    """Notes of the writer may hold anything, and name no file; others of that name do."""
    one = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"notes": [1, 2]}, node_attrs={"notes": [3, 4]})
    for times in range(2):
        hr.save_dataset(
            tmp_path / "data",
            one,
            items={"notes": [0]},
            notes={"file": "mine.npy"},
            overwrite=times > 0,
            progress=False,
        )
    assert hr.open_dataset(tmp_path / "data").items["notes"].ids.tolist() == [0]
