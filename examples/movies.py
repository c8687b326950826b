"""A graph of movies, their directors and their actors: read from imdb_hetero.npz, or generated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import headrace as hr

COUNTS = {"movie": 4_278, "director": 2_081, "actor": 5_257}


def load(path: str | None) -> tuple[hr.Graph, Tensor, Tensor, dict[str, Tensor]]:
    """Return the graph, the movies' features and genres, and which movies to train, validate and test on."""
    if path is None:
        return generated()
    if Path(path).is_dir():
        return of_dataset(hr.open_dataset(path))
    with np.load(Path(path)) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if file[name].dtype.kind in "biuf"}
    rows = torch.arange(COUNTS["movie"]).repeat_interleave(arrays["movie_x_indptr"].diff())
    x = torch.zeros(COUNTS["movie"], int(arrays["movie_x_shape"][1]))
    x[rows, arrays["movie_x_indices"].long()] = arrays["movie_x_data"].float()
    parts = {part: arrays[f"movie_{part}_mask"].nonzero().squeeze(1) for part in ("train", "val", "test")}
    pairs = {end: arrays[f"edge_movie_to_{end}"].long() for end in ("director", "actor")}
    return joined(pairs), F.normalize(x), arrays["movie_y"].long(), parts


def of_dataset(data: hr.Dataset) -> tuple[hr.Graph, Tensor, Tensor, dict[str, Tensor]]:
    """Return the same of a data set that `headrace convert` made."""
    every = torch.arange(COUNTS["movie"])
    x, y = (data.store.node["movie", name].read(every).rows for name in ("x", "y"))
    return data.graph, F.normalize(x.float()), y, {part: data.items[part].ids["movie"] for part in data.items}


def generated() -> tuple[hr.Graph, Tensor, Tensor, dict[str, Tensor]]:
    """Return a graph in which people have a genre that most of their movies share, and features say little."""
    random = torch.Generator().manual_seed(0)
    genre = {kind: torch.randint(3, (size,), generator=random) for kind, size in COUNTS.items()}
    pairs = {}
    for end, each in (("director", 1), ("actor", 3)):
        movies = torch.arange(COUNTS["movie"]).repeat_interleave(each)
        people = torch.randint(COUNTS[end], (8, len(movies)), generator=random)
        alike = genre[end][people] == genre["movie"][movies]
        pairs[end] = torch.stack([movies, people.gather(0, alike.int().argmax(0)[None]).squeeze(0)])
    x = torch.randn(3, 32, generator=random)[genre["movie"]]
    x = x + 4 * torch.randn(x.shape, generator=random)
    order = torch.randperm(COUNTS["movie"], generator=random).split([2_000, 1_000, 1_278])
    return joined(pairs), x, genre["movie"], dict(zip(("train", "val", "test"), order, strict=True))


def joined(pairs: dict[str, Tensor]) -> hr.Graph:
    """Return the graph in which messages go both ways between movies and people."""
    starts = {"movie": 0, "director": COUNTS["movie"], "actor": COUNTS["movie"] + COUNTS["director"]}
    types: dict[tuple[str, str, str], int] = {}
    edges = []
    for end, (movies, people) in pairs.items():
        there = torch.stack([movies, people + starts[end]])
        types |= {("movie", "to", end): len(movies), (end, "to", "movie"): len(movies)}
        edges += [there, there.flip(0)]
    return hr.Graph.from_coo(*torch.cat(edges, 1), num_nodes=sum(COUNTS.values()), node_types=COUNTS, edge_types=types)
