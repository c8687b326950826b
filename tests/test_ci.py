"""`.ci/run` makes its targets one after the other, and fails where one of them takes longer than its bar."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUN = ROOT / ".ci/run"


@pytest.mark.parametrize(("slower", "late"), [("2", []), ("-1", ["test-all", "docs"])])
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


def test_all_name_the_same_systems():
    """What is not built and tested is not offered."""
    pyproject, wheels = (ROOT / "pyproject.toml").read_text(), (ROOT / ".github/workflows/wheels.yml").read_text()
    assert re.findall(r'"Operating System :: (.*)"', pyproject) == ["POSIX :: Linux"]
    assert re.findall(r"^\[tool\.cibuildwheel\.(\w+)\]", pyproject, re.MULTILINE) == ["linux"]
    (systems,) = re.findall(r"os: \[(.*)\]", wheels)
    assert all(one.startswith("ubuntu-") for one in systems.split(", "))
    for page in ("README.md", "docs/installing.md"):
        assert re.search(r"needs Linux\b", (ROOT / page).read_text())
    workflows = [f".github/workflows/{name}.yml" for name in ("ci", "wheels")]
    others = re.compile(r"\b(macos|darwin|windows-20\d\d)\b", re.IGNORECASE)
    assert not [
        name
        for name in ("pyproject.toml", "README.md", "docs/installing.md", *workflows)
        if others.search((ROOT / name).read_text())
    ]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not here")
def test_a_build_elsewhere_ends_with_what_it_needs(tmp_path):
    command = ["cmake", "-S", ROOT, "-B", tmp_path, "-DSKBUILD=ON", "-DCMAKE_SYSTEM_NAME=FreeBSD"]
    command += ["-DCMAKE_CXX_COMPILER_WORKS=ON"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "on Linux alone, expected that, got FreeBSD" in " ".join(ended.stderr.split())
