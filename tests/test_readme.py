"""The code in the README runs as it stands, top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import headrace as hr
from headrace.pipeline.plan.plan import Chain

README = Path(__file__).parent.parent / "README.md"


def test_code_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a block writes a file
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {"__name__": "readme"}
    try:
        for block in blocks:
            exec(compile(block, str(README), "exec", dont_inherit=True), names)  # noqa: S102 - our own text
    finally:
        if "keep_labelled" in hr.verbs():
            del Chain.keep_labelled
