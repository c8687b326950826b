"""Real graphs from CSV files, by the command alone: they train to the accuracy that they have from their archives."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.pipeline.cli.command_line import main

from launched import run_example

MOVIES = """
[nodes.movie]
files = "movies.csv"
id = "movie"
features = "x*"
labels = { y = "genre" }
split = "split"
[nodes.director]
num_nodes = 2081
[nodes.actor]
num_nodes = 5257
[edges."movie,to,director"]
files = "directors.csv"
src = "movie"
dst = "director"
[edges."movie,to,actor"]
files = "actors.csv"
src = "movie"
dst = "actor"
[options]
reverse = true
"""

RATINGS = """
[nodes.user]
files = "users.csv"
id = "user"
[nodes.movie]
files = "movies.csv"
id = "movie"
features = { genres = "g*" }
[edges."user,rates,movie"]
files = "ratings.csv"
src = "user"
dst = "movie"
time = "when"
"""


def write(path: Path, header: list[str], *columns: object) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(zip(*(np.asarray(one).tolist() for one in columns), strict=True))


def write_movies(folder: Path, loaded: tuple) -> None:
    """Write movies under ids of their own, with the words of their plots, and their people by number."""
    graph, x, y, parts = loaded
    split = np.empty(len(y), object)
    for name, ids in parts.items():
        split[ids.numpy()] = name
    ids = 700 + 3 * np.arange(len(y))
    columns = [f"x{place}" for place in range(x.shape[1])]
    write(folder / "movies.csv", ["movie", "genre", "split", *columns], ids, y, split, *x.T.numpy())
    types = graph.edge_types
    src, order = graph.indices.long(), graph.edge_ids.long().argsort()
    dst = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    for end in ("director", "actor"):
        own = types.id_range(("movie", "to", end))
        places = order[own.start : own.stop]
        people = dst[places] - graph.node_types.id_range(end).start
        write(folder / f"{end}s.csv", ["movie", end], ids[src[places].numpy()], people)
    (folder / "movies.toml").write_text(MOVIES)


def write_ratings(folder: Path, data) -> None:
    users, movies = 11 + 2 * np.arange(data.num_users), 5 + 4 * np.arange(len(data.genres))
    write(folder / "users.csv", ["user"], users)
    genres = [f"g{place}" for place in range(data.genres.shape[1])]
    write(folder / "movies.csv", ["movie", *genres], movies, *data.genres.T.numpy())
    header = ["user", "movie", "when"]
    write(folder / "ratings.csv", header, users[data.user.numpy()], movies[data.movie.numpy()], data.time)
    (folder / "ratings.toml").write_text(RATINGS)


def converted(folder: Path) -> Path:
    (description,) = folder.glob("*.toml")
    assert main(["convert", str(description), str(folder / "set")]) == 0
    return folder / "set"


@pytest.fixture
def movies(examples):
    import movies

    return movies


@pytest.fixture
def ratings(examples):
    import ratings

    return ratings


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.slow
def test_movies(movies, real, tmp_path, request):
    """Bars are those of `test_heterogeneous.py`."""
    pytest.importorskip("torch_geometric")
    loaded = movies.load(str(request.getfixturevalue("shared_data") / "imdb_hetero.npz") if real else None)
    write_movies(tmp_path, loaded)
    folder = converted(tmp_path)
    _, x, y, parts = movies.load(str(folder))
    assert torch.equal(y, loaded[2])
    torch.testing.assert_close(x, torch.nn.functional.normalize(loaded[1]))
    assert {name: ids.tolist() for name, ids in parts.items()} == {
        name: sorted(ids.tolist()) for name, ids in loaded[3].items()
    }
    epochs, bar = ("7", 0.57) if real else ("4", 0.75)
    (line,) = run_example("heterogeneous.py", "--data", folder, "--epochs", epochs, imports=("torch_geometric",))
    assert float(line.removeprefix("test macro-F1 ").split(",")[0]) > bar


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.slow
def test_ratings(ratings, real, tmp_path, request):
    """The ratings of the data set are those of the archive, so that what is learnt is the same."""
    loaded = ratings.load(str(request.getfixturevalue("shared_data") / "movielens_small.npz") if real else None)
    write_ratings(tmp_path, loaded)
    folder = converted(tmp_path)
    found = ratings.load(str(folder))
    for name in ("user", "movie", "time", "genres"):
        assert torch.equal(getattr(found, name), getattr(loaded, name)), name
    arguments = ["--epochs", "1", "--train", "10000" if real else "6000"]
    lines = run_example("temporal_links.py", "--data", folder, *arguments)
    model, popularity = (float(one.split()[-1]) for one in lines[-1].split(","))
    archive = ["--data", request.getfixturevalue("shared_data") / "movielens_small.npz"] if real else []
    assert lines == run_example("temporal_links.py", *archive, *arguments)
    assert 0.5 < model < 1
    assert 0.5 < popularity < 1
