"""Graphs in NumPy files, as the command `headrace partition` reads them."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from shell import run

import headrace as hr


class RefusedError(Exception):
    """The command has refused the files."""


@dataclass
class Files:
    """A graph in one part, and what was left out, by its name with the reason."""

    graph: hr.Graph
    store: hr.FeatureStore
    left_out: dict[str, str]


def read_files(path: Path, features: list[str] | None = None) -> Files:
    """Cut the files into one part, beside them, and load it."""
    out = path.parent / f".{path.name}.shards"
    chosen = [] if features is None else ["--features", ",".join(features)]
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as errors:
        status = run("partition", path, out, "--parts", 1, "--method", "range", *chosen)
    if status:
        raise RefusedError(errors.getvalue())
    data = hr.open_dataset(out, memory_map=False)
    shutil.rmtree(out)
    return Files(data.graph, data.store, dict(re.findall(r"^left out (.*?): (.*)$", printed.getvalue(), re.MULTILINE)))
