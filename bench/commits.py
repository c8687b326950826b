"""Builds of commits for benchmarks that compare two of them, each in an environment of its own in build/commits.

A build is that of a commit, never of a working tree: nobody can repeat a measurement of changes that have no commit.
It borrows the libraries of the environment that runs the benchmark, so that only headrace is compiled.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ROOT / "build/commits"
#: Commits with a name: 0.1.0 is the last one before the issue on faults.
NAMED = {"0.1.0": "c192d152"}


@dataclass(frozen=True)
class Build:
    """A Python that imports one build of headrace.

    Parameters
    ----------
    label
        Its name in tables: the short hash of its commit, with its name in `NAMED`, or the folder of a Python's
        environment, without the folders above it, which are the machine's.
    python
        The Python.
    commit
        The hash of the commit; None for a Python that was given.
    """

    label: str
    python: Path
    commit: str | None = None


def commit_of(name: str) -> str:
    """Return the hash of a commit, from a name in `NAMED` or one that git knows.

    Raises
    ------
    ValueError
        If there is no such commit here.
    """
    known = NAMED.get(name, name)
    found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{known}^{{commit}}", check=False)
    if not found:
        raise ValueError(
            f"expected a commit of this repository, one of {', '.join(NAMED)}, or the path of a Python that has "
            f"headrace, got {name!r}; a shallow clone lacks old commits: git fetch --unshallow"
        )
    return found


def label_of(commit: str) -> str:
    """Return the name of a commit in tables."""
    short = commit[:8]
    return next((f"{name} ({short})" for name, named in NAMED.items() if commit.startswith(named)), short)


def build_of(name: str) -> Build:
    """Return the build of a commit, which is made where it is missing, or that of a Python.

    Parameters
    ----------
    name
        A name in `NAMED`, a commit, or the path of a Python executable.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    given = Path(name)
    if given.is_file() and os.access(given, os.X_OK):
        python = given.absolute()  # not resolved: the link is what belongs to an environment
        return Build(python.parent.parent.name, python)
    commit = commit_of(name)
    if name == "HEAD" and _git("status", "--porcelain", "--untracked-files=no"):
        print(f"HEAD is {label_of(commit)}: changes that are not committed are not measured", file=sys.stderr)
    return Build(label_of(commit), installed(commit), commit)


def installed(commit: str) -> Path:
    """Return the Python of the environment of a commit; it is made if it is not there, in a minute or two."""
    folder, libraries = BUILDS / commit, "\n".join(site.getsitepackages())
    python, complete = folder / "bin/python", folder / ".installed"
    if complete.exists() and complete.read_text() == libraries:
        return python
    print(f"building {label_of(commit)} in {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
    _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder))
    # What a .pth entry names is importable; the .pth files in there, an editable install's among them, are not read.
    own = _run(str(python), "-c", "import site; print(site.getsitepackages()[0])")
    (Path(own) / "libraries.pth").write_text(libraries + "\n")
    archive, source = folder / "source.tar", folder / "source"
    _git("archive", f"--output={archive}", f"--prefix={source.name}/", commit)
    _run("tar", "-xf", str(archive), "-C", str(folder))
    pip = sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"
    _run(*pip, "--no-deps", "--no-build-isolation", str(source))
    shutil.rmtree(source)
    archive.unlink()
    complete.write_text(libraries)
    return python


def _run(*command: str, check: bool = True) -> str:
    """Run a command and return its output."""
    # A folder cuda/ in the working directory hides NVIDIA's package of that name.
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=check, env=environment).stdout.strip()


def _git(*words: str, check: bool = True) -> str:
    return _run("git", "-C", str(ROOT), *words, check=check)
