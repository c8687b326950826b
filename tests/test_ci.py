"""`.ci/run` makes its targets one after the other, and fails where one of them takes longer than its bar."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci/run"


@pytest.mark.parametrize(("slower", "late"), [("2", []), ("-1", ["test", "docs"])])
def test_targets_have_bars(tmp_path, slower, late):
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci/run")
    (tmp_path / "make").write_text('#!/bin/sh\necho "made $* with $SLOWER"\n')
    (tmp_path / "make").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLOWER": slower}
    result = subprocess.run([tmp_path / ".ci/run"], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == bool(late), result.stderr
    assert [line.split()[1] for line in result.stdout.splitlines() if line.startswith("make")] == late
    assert f"made bars with {slower}" in result.stdout
