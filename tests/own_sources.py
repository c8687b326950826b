"""Feature sources as users write them."""

from __future__ import annotations

import torch

import headrace as hr

from plans import NUM_NODES, store

CPU, DISK = hr.Place("cpu"), hr.Place("disk")

X = store().node["x"].read(torch.arange(NUM_NODES)).rows


class Table(hr.FeatureSource):
    """A subclass with the least that it needs."""

    def __init__(self, place: hr.Place = CPU) -> None:
        self.rows_in_place, self.place = X.clone(), place


class Duck:
    """A class of its own."""

    num_rows, row_bytes, dtype, shape = NUM_NODES, X[:1].nbytes, X.dtype, tuple(X.shape)

    def read(self, ids, *, num_threads=1):
        return hr.Rows(X[ids.long()], {"duck_rows": len(ids)})

    def content_digest(self):
        return "duck"


class OnDisk(hr.FeatureSource):
    place, dtype, shape = DISK, X.dtype, tuple(X.shape)

    def read(self, ids, *, num_threads=1, to=CPU):
        return hr.Rows(X[ids.long()], {"own_rows": len(ids)})

    def content_digest(self):
        return "on disk"
