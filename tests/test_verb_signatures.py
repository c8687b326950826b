"""Verbs as type checkers and editors see them: the written file is up to date, and misuse is an error."""

from __future__ import annotations

import json
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest
import verb_signatures

import headrace as hr

PROGRAM = """
import torch
import headrace as hr

graph = hr.Graph.from_coo(torch.arange(9), torch.arange(9), num_nodes=9)
store = hr.FeatureStore(node={"x": torch.zeros(9, 2)})
plan = hr.ItemSampler(9, batch_size=3)
"""

RIGHT = """
plan.sample_neighbor(graph, [2, 2]).fetch_feature(store, node=["x"]).copy_to("cpu").prefetch().loader()
plan.sample_neighbor(graph, fanouts=(3, -1), replace=True).fetch_feature(store, node={"paper": ["x"]}, labels="x")
plan.exclude_seed_edges(reverse=True).sample_layer_neighbor(graph, [{("a", "b", "c"): 3}], importance="*")
plan.to_pyg().copy_to(torch.device("cpu")).prefetch(workers=2).loader()
"""

#: What type checkers refuse, each with a part of what they say.
WRONG = {
    "plan.sample_neighbour(graph, [2])": 'has no attribute "sample_neighbour"',
    'plan.sample_neighbor(graph, "10")': "incompatible type",
    "plan.exclude_seed_edges(True)": "positional argument",
    "plan.sample_neighbor(graph, [2], expand='both')": "incompatible type",
    "plan.to_pyg().sample_shadow(graph, '2', 3)": "incompatible type",
}


def test_the_file_is_that_of_the_stages():
    assert verb_signatures.FILE.read_text(encoding="utf-8") == verb_signatures.stub(), "run `make stubs`"


@pytest.mark.thorough
@pytest.mark.slow
def test_misuse_is_an_error_for_type_checkers(tmp_path):
    """On the package as it is installed, or in this tree as it would be."""
    package = tmp_path / "headrace"
    package.mkdir()
    root = Path(__file__).resolve().parents[1]
    for wing in ("pipeline", "ops", "cuda"):
        (package / wing).symlink_to(root / wing)
    (package / "__init__.py").symlink_to(root / "pipeline" / "_package.py")
    for name in ("nn", "sar", "scores"):
        (package / f"{name}.py").symlink_to(root / "pipeline" / f"_{name}.py")
    (package / "py.typed").touch()
    # Types of torch say nothing about verbs, and take half a minute.
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-torch.*,numpy.*]\nfollow_imports = skip\n")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + RIGHT + "\n".join(WRONG) + "\n")
    command = [
        sys.executable,
        "-P",
        "-m",
        "mypy",
        "--output",
        "json",
        "--cache-dir",
        str(tmp_path / "cache"),
        "program.py",
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    errors = {
        entry["line"]: entry["message"]
        for entry in map(json.loads, found.stdout.splitlines())
        if entry["file"] == "program.py"
    }
    first = len((PROGRAM + RIGHT).splitlines()) + 1
    assert sorted(errors) == list(range(first, first + len(WRONG))), found.stdout + found.stderr
    for line, text in enumerate(WRONG.values(), first):
        assert text in errors[line]


def test_help_shows_verbs_and_parameters_and_no_machinery():
    shown = {name for name in dir(hr.ItemSampler) if not name.startswith("_")}
    assert {"sample_neighbor", "fetch_feature", "loader", "batch_size", "shuffle", "stages"} <= shown
    assert not {"moves_to", "cooperates", "largest_id", "decisive", "collective", "settle_seed", "known_nodes"} & shown
    text = pydoc.render_doc(hr.ItemSampler)
    assert "sample_neighbor(" in text
    assert "keeps_rows" not in text


def test_a_stage_of_a_user_shows_all_of_its_members():
    class Mine(hr.ext.MapStage):
        def runner(self, settings):
            raise NotImplementedError

    assert "writes" in dir(Mine)
    assert "writes" in dir(hr.ext.Stage)


def test_packages_of_layers_show_their_layers():
    assert [name for name in dir(hr.nn) if not name.startswith("_")] == sorted(hr.nn.__all__)


def test_verbs_have_signatures_at_run_time():
    for name in ("sample_neighbor", "fetch_feature", "to_pyg"):
        assert getattr(hr.ItemSampler, name).__doc__
