"""A folder of shards of the graph and the features of most tests."""

from __future__ import annotations

import pytest
from ranks import partition
from regular_shards import two_writes  # noqa: F401 - a fixture

from plans import graph, store
from shard_files import write


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "shards", graph(), partition("hash", 3), store())
