"""In a clone, before any build, editors and type checkers find modules by the names that `.ide/` gives them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: What a reader asks for, and how a type checker describes it.
NAMES = {
    "hr.Graph": "type[Graph]",
    "hr.Graph.from_coo": "(",
    "hr.ItemSampler(3).sample_neighbor": "(graph: ",
    "hr.ItemSampler(3).prefetch().loader()": "Loader[",
    "hr.MiniBatch": "type[MiniBatch]",
    "hr.FeatureStore": "type[FeatureStore]",
    "hr.CachedFeature": "type[CachedFeature]",
    "hr.open_dataset": "(",
    "hr.cooperative": "(model: ",
    "hr.PlanError": "type[PlanError]",
    "hr.keep_freed_memory": "() -> bool",
    "hr.nn.SAGEConv": "type[SAGEConv]",
    "hr.scores.out_degree": "(",
    "hr.sar.ShardedGraph": "type[ShardedGraph]",
    "hr.ext.MapStage": "type[MapStage]",
    "hr.ext.NeighborRule": "type[NeighborRule]",
    "hr.testing.LocalGroup": "type[LocalGroup]",
    "gather_rows": "(source: ",
    "lower": "(",
    "compiled": "(",
}
PROGRAM = """
import headrace as hr
from headrace.cuda.compile import compiled
from headrace.ops import gather_rows
from headrace.pipeline.run.lower import lower
"""


@pytest.mark.slow
def test_a_clone_resolves_names_without_a_build(tmp_path):
    """With a Python that has neither headrace nor torch."""
    pytest.importorskip("basedpyright")
    for folder in ("pipeline", "ops", "cuda", ".ide"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "look.py").write_text(PROGRAM + "".join(f"reveal_type({name})\n" for name in [*NAMES, "hr.nothing"]))
    bare = os.path.realpath(sys.executable)
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", bare, "look.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    found = json.loads(ran.stdout)["generalDiagnostics"]
    shown = {line: re.sub(r'^Type of ".*?" is "', "", text) for line, text in _of_kind(found, "information")}
    first = PROGRAM.count("\n")
    wrong = {name: shown.get(first + row) for row, name in enumerate(NAMES) if NAMES[name] not in shown[first + row]}
    assert len(NAMES) == 20
    assert not wrong
    errors = dict(_of_kind(found, "error"))
    assert list(errors) == [first + len(NAMES)], errors
    assert '"nothing" is not a known attribute of module' in errors[first + len(NAMES)]


def _of_kind(found, severity):
    return [(one["range"]["start"]["line"], one["message"]) for one in found if one["severity"] == severity]


def test_links_lead_to_the_files_that_are_installed():
    linked = {path.name: path.resolve().relative_to(ROOT).as_posix() for path in (ROOT / ".ide/headrace").iterdir()}
    roots = {path.stem.removeprefix("_"): path for path in (ROOT / "pipeline").glob("_*.py") if path.stem != "__init__"}
    names = {"package": "__init__.py", "main": "__main__.py"}
    expected = {names.get(name, f"{name}.py"): f"pipeline/{path.name}" for name, path in roots.items()}
    folders = {name: name for name in ("pipeline", "ops", "cuda")}
    assert linked == {**expected, **folders, "py.typed": "pipeline/py.typed"}
