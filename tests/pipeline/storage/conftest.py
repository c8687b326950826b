"""A folder of shards of the graph and the features of most tests."""

from __future__ import annotations

import pytest
from part_files import write
from ranks import partition
from regular_parts import two_writes  # noqa: F401 - a fixture

from plans import graph, store


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "parts", graph(), partition("hash", 3), store())
