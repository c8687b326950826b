"""Copies of the working tree, each with a Python of its own whose headrace is the copy's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
#: Where everything that this makes is.
OUTPUT = ROOT / "build/mutants"

_COPIED = ("CMakeLists.txt", "README.md", "bench", "cuda", "examples", "ops", "pipeline", "pyproject.toml", "tests")
_LEFT_OUT = {"__pycache__", ".hypothesis"}
_LEFT_OUT_FOLDERS = {Path("bench/cache"), Path("bench/results")}
#: The files and folders of the package, and where they are in the tree.
PACKAGE = {"__init__.py": "pipeline/_package.py", "__main__.py": "pipeline/_main.py", "py.typed": "pipeline/py.typed"}
PACKAGE |= {
    f"{name}.py": f"pipeline/_{name}.py" for name in ("ext", "lightning", "nn", "pyg", "sar", "scores", "testing")
}
PACKAGE |= {name: name for name in ("cuda", "ops", "pipeline")}


def copy_tree(target: Path) -> None:
    """Make `target` a copy of the working tree; what is equal already keeps its time, so that it is not built again."""
    wanted = {}
    for name in _COPIED:
        top = ROOT / name
        for path in [top] if top.is_file() else top.rglob("*"):
            relative = path.relative_to(ROOT)
            left_out = _LEFT_OUT & set(relative.parts) or _LEFT_OUT_FOLDERS & set(relative.parents)
            if path.is_file() and path.suffix != ".so" and not left_out:
                wanted[relative] = path
    if target.exists():
        for path in list(target.rglob("*")):
            if path.is_file() and path.relative_to(target) not in wanted:
                path.unlink()
    for relative, path in wanted.items():
        copy = target / relative
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


@contextmanager
def applied(mutant: Mutant, root: Path) -> Iterator[None]:
    """Put the fault into a copy of the tree for a while."""
    path = root / mutant.file
    before = path.read_text(encoding="utf-8")
    path.write_text(mutant.changed(before), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


class Copy:
    """A copy of the tree that tests can run in.

    Parameters
    ----------
    number
        Its own; two runs at a time need two copies.
    """

    def __init__(self, number: int) -> None:
        folder = OUTPUT / f"copy-{number}"
        self.root = folder / "tree"
        copy_tree(self.root)
        environment = folder / "environment"
        venv.create(environment, clear=True, symlinks=True)
        self._python = environment / "bin/python"
        site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
        # All libraries of this process, though not by its .pth files: the editable install's are among them.
        libraries = [path for path in sys.path if path.endswith("site-packages")]
        (site / "libraries.pth").write_text("".join(f"{path}\n" for path in libraries))
        for path in libraries:
            if (nvrtc := Path(path) / "nvidia").is_dir():  # which CUDA's own finder seeks in the environment itself
                (site / "nvidia").symlink_to(nvrtc)
                break
        (site / "headrace").mkdir()
        for name, source in PACKAGE.items():
            (site / "headrace" / name).symlink_to(self.root / source)

    def use(self, module: Path) -> None:
        """Let tests run on this compiled module."""
        # Another file: a process that has the old one loaded keeps it.
        place = self.root / "ops" / module.name
        place.unlink(missing_ok=True)
        shutil.copyfile(module, place)

    def run(self, tests: Sequence[str], limit: float, *options: str) -> tuple[int | None, str]:
        """Run tests; return pytest's exit code, None if they did not end in `limit` seconds, and its output."""
        command = [str(self._python), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["--hypothesis-profile=mutants", *options, *tests]
        settings = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "2"}
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the ranks and processes that the test has started
            output, _ = process.communicate()
            return None, output
        return process.returncode, output
