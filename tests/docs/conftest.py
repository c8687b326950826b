"""The scripts of the site are modules beside each other, as conf.py imports them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs/site"


@pytest.fixture(autouse=True)
def site(monkeypatch):
    """Put the scripts on the path, and forget them afterwards."""
    monkeypatch.syspath_prepend(str(SITE))
    yield
    for name in ("errors", "pages", "reference", "figures"):
        sys.modules.pop(name, None)
