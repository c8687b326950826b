"""What a user rates next is told by what was there before, better than by how popular movies are."""

from __future__ import annotations

import pytest
import torch

from launched import run_example

pytestmark = pytest.mark.slow


def test_beats_popularity_on_generated_ratings():
    *_, last = run_example("temporal_links.py", "--epochs", "3", "--batch-size", "256")
    model, popularity = last.removeprefix("test AUC ").split(", of popularity ")
    assert 0.55 < float(popularity) < 0.62  # more where ratings of the very time count
    assert float(popularity) + 0.1 < float(model) < 0.84  # likewise


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
