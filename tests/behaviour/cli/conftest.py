"""Data sets that commands are run on."""

from __future__ import annotations

import pytest
from small_datasets import saved


@pytest.fixture(params=["plain", "typed"])
def data(request, tmp_path):
    return saved(tmp_path / "set", request.param)[0]


@pytest.fixture
def plain(tmp_path):
    return saved(tmp_path / "set")[0]


@pytest.fixture
def typed(tmp_path):
    return saved(tmp_path / "set", "typed")[0]
