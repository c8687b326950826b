"""The code in README.md and CONTRIBUTING.md runs as it stands, top to bottom, and the paths named there exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace as hr
from headrace.pipeline.plan.plan import Chain

ROOT = Path(__file__).parent.parent
#: What CONTRIBUTING.md calls places kept free.
FREE = {"pipeline/compat", "ops/cache", "ops/aggregate", "cuda/kernels", "tests/cuda_host", "tests/gpu"}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_code_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a block may write files
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, object] = {"__name__": "readme"}
    try:
        for block in blocks:
            exec(compile(block, name, "exec", dont_inherit=True), names)  # noqa: S102 - our own text
    finally:
        if "keep_labelled" in hr.verbs():
            del Chain.keep_labelled


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_paths_exist(name):
    text = (ROOT / name).read_text()
    paths = {path.rstrip("/") for path in re.findall(r"`((?:pipeline|ops|cuda|tests|bench|examples)/[\w/.]*)`", text)}
    assert paths
    assert not {path for path in paths - FREE if not (ROOT / path).exists()}


def test_readme_fits_on_four_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
