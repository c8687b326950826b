"""Ratings of movies by users, with their times: read from movielens_small.npz, or generated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import headrace as hr

RATES, RATED_BY = ("user", "rates", "movie"), ("movie", "rated by", "user")


@dataclass(frozen=True)
class Ratings:
    """Who rated which movie when (in seconds), earliest first; genres of movies, float32[num_movies, num_genres]."""

    user: Tensor
    movie: Tensor
    time: Tensor
    genres: Tensor
    num_users: int

    def graph(self) -> hr.Graph:
        """Return the graph in which messages go both ways, from the time of the rating on."""
        there = torch.stack([self.user, self.movie + self.num_users])
        return hr.Graph.from_coo(
            *torch.cat([there, there.flip(0)], 1),
            num_nodes=self.num_users + len(self.genres),
            node_types={"user": self.num_users, "movie": len(self.genres)},
            edge_types={RATES: len(self.user), RATED_BY: len(self.user)},
            edge_attrs={"time": self.time.repeat(2)},
        )

    def popularity(self, movie: Tensor, time: Tensor) -> Tensor:
        """Return how many ratings each movie had at its time, int64[n]."""
        span = int(max(self.time.max(), time.max())) + 1
        keys = (self.movie * span + self.time).sort().values
        return torch.searchsorted(keys, movie * span + time, right=True) - torch.searchsorted(keys, movie * span)


def load(path: str | None) -> Ratings:
    """Return the ratings in a file, or generated ones."""
    if path is None:
        return generated()
    if Path(path).is_dir():
        return of_dataset(hr.open_dataset(path))
    with np.load(Path(path)) as file:
        user, movie = torch.from_numpy(file["edge_index"]).long()
        time, genres = torch.from_numpy(file["edge_time"]), torch.from_numpy(file["movie_x"]).float()
        return Ratings(user, movie, time, genres, int(file["num_nodes"][0]))


def of_dataset(data: hr.Dataset) -> Ratings:
    """Return the ratings of a data set that `headrace convert` made, whose edges are in the order of their times."""
    graph, types = data.graph, data.graph.node_types
    assert types is not None  # users and movies
    order = graph.edge_ids.long().argsort()
    movie = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())[order] - types.id_range("movie").start
    genres = data.store.node["movie", "genres"].read(torch.arange(len(types.id_range("movie")))).rows
    return Ratings(
        graph.indices.long()[order], movie, graph.edge_attrs["time"], genres.float(), len(types.id_range("user"))
    )


def generated(num_users: int = 200, num_movies: int = 400, num_ratings: int = 8_000) -> Ratings:
    """Return ratings by users who mostly watch one genre; some movies are popular, and nothing lasts: tastes change."""
    random = torch.Generator().manual_seed(0)
    genre = torch.randint(4, (num_movies,), generator=random)
    taste = torch.randint(4, (num_users, 2), generator=random)
    user = torch.randint(num_users, (num_ratings,), generator=random)
    time = torch.arange(num_ratings) * 60
    now = taste[user, 2 * torch.arange(num_ratings) // num_ratings]
    # Of six movies that come to mind, the popular ones often, the first of the genre.
    movies = (torch.rand((6, num_ratings), generator=random) ** 1.5 * num_movies).long()
    alike = genre[movies] == now
    movie = movies.gather(0, alike.int().argmax(0)[None]).squeeze(0)
    return Ratings(user, movie, time, torch.eye(4)[genre], num_users)
