"""Predict which movie a user rates next, from what was there before: links with times, and negatives of their times.

    python examples/temporal_links.py [--data movielens_small.npz]    (without a file ratings are generated)

Trees of pairs, and of negatives, have what is strictly before their rating, or links find themselves; leaving out the
link alone, `exclude_seed_edges(by="edge_id")`, keeps others of its time. The model is to beat popularity.
"""

from __future__ import annotations

import argparse

import ratings
import torch
import torch.nn.functional as F
from auc import auc
from torch import Tensor, nn

import headrace as hr


class Layer(nn.Module):
    """The mean over messages, which know of how long ago they are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.messages = nn.ModuleList(nn.Linear(width + 1, width) for _ in (ratings.RATES, ratings.RATED_BY))

    def forward(self, h: Tensor, block: hr.Block, age: Tensor) -> Tensor:
        source, destination = block.edge_index
        out, of_rating = self.own(h[: block.num_dst]), torch.cat([h[source], age[:, None]], 1)
        for number, message in enumerate(self.messages):
            places = (block.edge_types == number).nonzero().squeeze(1)
            messages, ends = message(of_rating[places]), destination[places]
            count = torch.bincount(ends, minlength=block.num_dst).clamp(min=1)
            out = out + torch.zeros_like(out).index_add(0, ends, messages) / count[:, None]
        return out


class Network(nn.Module):
    """Two layers, and the score of a pair: a product, and what the movie has. A user is what they rated lately."""

    def __init__(self, num_movies: int, num_genres: int, width: int) -> None:
        super().__init__()
        self.genres, self.movie = nn.Linear(num_genres, width), nn.Embedding(num_movies, width)
        self.layers = nn.ModuleList([Layer(width), Layer(width)])
        self.alone = nn.Linear(width, 1)

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        types, slot, now = batch.types, batch.slot, batch.seed_time
        assert types is not None  # the graph has some
        assert slot is not None  # by time every pair has a tree of its own
        assert now is not None
        movies = self.genres(batch.node["movie", "genres"]) + 0.1 * self.movie(types.within("movie"))
        h = movies.new_zeros(len(batch.n_id), movies.shape[1]).index_copy(0, types.places("movie"), movies)
        for layer, block, time in zip(self.layers, batch.blocks, batch.edge["time"], strict=True):
            days = (now[slot[block.edge_index[1]]] - time) / 86_400
            h = layer(h.relu(), block, days.log1p() / 4)
        user, movie = h[batch.seed_index].unbind(1)
        return (user * movie).sum(1) + self.alone(movie.relu()).squeeze(1)


def run(path: str | None, num_train: int, epochs: int, batch_size: int) -> tuple[float, float]:
    """Return the AUC of the model on the last ratings, and that of popularity on the same pairs."""
    data = ratings.load(path)
    graph = data.graph()
    store = hr.FeatureStore(node={"movie": {"genres": data.genres}}, edge={"time": data.time.repeat(2)})
    cut = len(data.time) * 9 // 10
    parts = {"train": slice(max(0, cut - num_train), cut), "test": slice(cut, None)}

    def make_loader(part: str) -> hr.Loader:
        of = parts[part]
        pairs = {ratings.RATES: torch.stack([data.user[of], data.movie[of]], 1)}
        items = hr.ItemSampler(pairs, time=data.time[of], batch_size=batch_size, shuffle=part == "train", seed=0)
        return (
            items.sample_uniform_negative(graph, 1)
            .sample_neighbor(graph, [10, 5], time="time", strategy="last", strictly_before=True)
            .fetch_feature(store, node={"movie": ["genres"]}, edge=["time"])
            .loader()
        )

    torch.manual_seed(0)
    model = Network(len(data.genres), data.genres.shape[1], 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    train = make_loader("train")
    for epoch in train.epochs(epochs):
        losses = []
        for batch in train:
            assert batch.y is not None  # negatives have some
            loss = F.binary_cross_entropy_with_logits(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}  loss {sum(losses) / len(losses):.4f}", flush=True)
    found = []
    with torch.no_grad():
        for batch in make_loader("test"):
            assert batch.seed_time is not None  # pairs have times
            popular = data.popularity(batch.seeds[:, 1] - data.num_users, batch.seed_time - 1)
            found.append((model(batch), popular, batch.y))
    scores, popular, y = map(torch.cat, zip(*found, strict=True))
    return auc(scores, y), auc(popular, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="movielens_small.npz (default: generated)")
    parser.add_argument("--train", type=int, default=40_000, help="ratings to learn from, the last before the test")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=512)
    options = parser.parse_args()
    model, popularity = run(options.data, options.train, options.epochs, options.batch_size)
    print(f"test AUC {model:.4f}, of popularity {popularity:.4f}")


if __name__ == "__main__":
    main()
