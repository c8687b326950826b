"""Shards on disk, as tests write them."""

from __future__ import annotations

from pathlib import Path

import headrace as hr


def write(path: Path, *arguments: object, **options: object) -> Path:
    hr.write_shards(path, *arguments, progress=False, **options)
    return path
