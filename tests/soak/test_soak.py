"""A short soak passes, and one whose batches differ does not."""

from __future__ import annotations

import json

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


@pytest.mark.parametrize(("per_hour", "is_found"), [(0, False), (120, True)])
def test_a_leak_is_told_from_memory_that_comes_and_goes(tmp_path, per_hour, is_found):
    one = Soak(tmp_path, 0)
    sizes = [400 + 35 * (second // 90 % 2) + per_hour * second / 3600 for second in range(3600)]
    lines = [json.dumps({"seconds": second, "mb": size}) for second, size in enumerate(sizes)]
    (tmp_path / "faulty.log").write_text("\n".join(lines))
    if is_found:
        with pytest.raises(AssertionError, match=r"by 60\.0 MB"):
            one.check_memory()
    else:
        assert "by 0.0 MB" in one.check_memory()
