"""What a user rates next is told by what was there before, better than by how popular movies are."""

from __future__ import annotations

import pytest
import torch

from launched import run_example

pytestmark = pytest.mark.slow


def aucs(*arguments: object) -> tuple[float, float]:
    """Return the AUC of the model and that of popularity."""
    *_, last = run_example("temporal_links.py", *arguments)
    model, popularity = last.removeprefix("test AUC ").split(", of popularity ")
    return float(model), float(popularity)


@pytest.mark.thorough
def test_beats_popularity_on_generated_ratings():
    model, popularity = aucs("--epochs", "3", "--batch-size", "256")
    assert 0.55 < popularity < 0.62  # more where ratings of the very time count
    assert popularity + 0.1 < model < 0.84  # likewise


@pytest.mark.thorough
def test_beats_popularity_on_real_ratings(shared_data):
    """A quarter of the ratings and two epochs will do; all it is given takes it to 0.82."""
    model, popularity = aucs("--data", shared_data / "movielens_small.npz", "--train", "10000", "--epochs", "2")
    assert popularity == pytest.approx(0.7394, abs=1e-4)
    assert model > popularity + 0.01


@pytest.fixture
def ratings(examples):
    import ratings

    return ratings


def test_popularity_counts_ratings_up_to_the_time(ratings):
    data = ratings.generated(20, 10, 200)
    movie, time = torch.arange(10).repeat(30), torch.arange(300) * 45 - 60
    time = time.clamp(min=0)
    expected = [
        int(((data.movie == one) & (data.time <= when)).sum())
        for one, when in zip(movie.tolist(), time.tolist(), strict=True)
    ]
    assert data.popularity(movie, time).tolist() == expected


def test_real_ratings(ratings, shared_data):
    data = ratings.load(str(shared_data / "movielens_small.npz"))
    graph = data.graph()
    assert (data.num_users, *data.genres.shape, len(data.time)) == (610, 9_742, 19, 100_836)
    assert graph.num_edges == 2 * 100_836
    assert bool((data.time.diff() >= 0).all())  # so a split by place is one by time
    assert int(data.popularity(data.movie, data.time.max().expand(len(data.movie))).max()) == 329
