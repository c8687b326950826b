"""Descriptions and tables that are damaged or made by hand: right, or an error by name; nothing of them is executed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import warnings

import pytest
import source_folders

import headrace as hr

#: Changed files of each format that are tried: together 10,000, and 400 where each change is checked.
FEW, MANY = 10, 40 if "CI" in os.environ else 1000
#: By format: what writes a folder, the file that is changed, and the source.
KINDS = {
    "toml": (source_folders.toml, "graph.toml", ""),
    "graphbolt": (source_folders.graphbolt_typed, "metadata.yaml", ""),
    "dgl": (source_folders.dgl_csv, "meta.yaml", ""),
    "gconstruct": (source_folders.gconstruct, "build.json", "build.json"),
    "nodes in csv": (source_folders.dgl_csv, "nodes.csv", ""),
    "edges in csv": (source_folders.graphbolt_typed, "edges/buys.csv", ""),
    "counts of ogb": (source_folders.ogb_typed, "raw/num-node-dict.csv.gz", ""),
    "binary": (source_folders.ogb_binary, "raw/data.npz", ""),
    "npy": (source_folders.arrays, "edge_index.npy", ""),
    "features": (source_folders.toml, "user_x.npy", ""),
}
#: What replaces a part of a file.
ODD = (
    b"", b"\0", b"-1", b"9" * 25, b"1e400", b"nan", b"null", b"../", b"/etc/passwd", b"x.pt", b"[", b"]", b"{", b"}",
    b":", b"- ", b"\n", b"\t", b'"', b"!!python/object/apply:os.system ['touch executed']", b"&a", b"*a", b"#", b",",
    b"True", b"|O", b"<f8", b"(3, 4)", b"\xff\xfe", b"files", b"src", b"=", b"42", b"99999999999",
)  # fmt: skip


def changed(content: bytes, state: random.Random) -> bytes:
    """Return a file with one to three parts removed, replaced or repeated."""
    made = bytearray(content)
    for _ in range(state.choice([1, 1, 2, 3])):
        at = state.randrange(len(made) + 1)
        length = state.choice([0, 1, 2, 5, 20])
        part = state.choice(ODD) if state.random() < 0.8 else bytes(made[at : at + length]) * 2
        made[at : at + length] = part
    return bytes(made)


@pytest.mark.combinations(9)
@pytest.mark.parametrize("runs", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_changed_files_are_right_or_refused(kind, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write, name, source = KINDS[kind]
    write(tmp_path / "source")
    file, state = tmp_path / "source" / name, random.Random(runs)
    original = file.read_bytes()
    before = sorted(tmp_path.iterdir())
    right = 0
    for _ in range(runs):
        file.write_bytes(changed(original, state))
        with contextlib.suppress(hr.HeadraceError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hr.convert(tmp_path / "source" / source, tmp_path / "out", memory="3GB", progress=False).verify()
            right += 1
        for left in ("out", ".out.converting"):
            shutil.rmtree(tmp_path / left, ignore_errors=True)
        assert sorted(tmp_path.iterdir()) == before, "nothing is left, and nothing was executed"
    assert right < runs
