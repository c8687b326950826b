"""Folders that appear at once: complete and on the disk, or what was there before."""

from __future__ import annotations

import os

from part_files import data

import headrace as hr

from plans import graph


def test_files_are_on_the_disk_before_the_folder_appears(tmp_path, monkeypatch):
    """After a loss of power a folder that has its name must not hold empty files."""
    synced: dict[int, int] = {}
    fsync = os.fsync
    path = tmp_path / "parts"

    def record(descriptor):
        assert not path.exists()
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size
        fsync(descriptor)

    data()  # saved before
    monkeypatch.setattr(os, "fsync", record)
    data().partition(hr.Partition.hash(graph().num_nodes, 2), path, progress=False)
    files = [one for one in path.rglob("*") if one.is_file()]
    assert {"parts.json", "dataset.json", "graph.indices.npy"} <= {one.name for one in files}
    for file in files:
        status = file.stat()
        assert synced.get(status.st_ino) == status.st_size, f"{file.name} was synced before it was complete, or never"
