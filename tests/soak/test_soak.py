"""A short soak passes, and one whose batches differ does not."""

from __future__ import annotations

import pytest

from soak.__main__ import Soak, soak

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


def test_a_short_soak():
    assert "had the right bits" in soak(0.5, seed=3, seconds_of_run=8.0)


def test_other_bits_are_found(tmp_path):
    one = Soak(tmp_path, 0)
    (tmp_path / "training.log").write_text(
        '{"epoch": 0, "batch": 1, "digest": "other", "rank": 0, "world_size": 1, "mb": 3}\n'
    )
    with pytest.raises(AssertionError, match="is not"):
        one.check()
