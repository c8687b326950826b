"""The compiled module, built in a copy of the tree: what a mutant does not touch is compiled once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nanobind

from mutants.mutant import Mutant
from mutants.tree import OUTPUT, applied, copy_tree


class BuildError(Exception):
    """The module could not be built."""


class NativeBuild:
    """Builds the module with and without mutants. What an earlier run has compiled is taken if it is still right."""

    def __init__(self, jobs: int) -> None:
        self._source = OUTPUT / "native/tree"
        self._folder = OUTPUT / "native/build"
        self._jobs = jobs
        copy_tree(self._source)
        ccache = shutil.which("ccache")
        self._run(
            _program("cmake"),
            *("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_program('ninja')}", "-DCMAKE_BUILD_TYPE=Release"),
            # As scikit-build-core calls it.
            *("-DSKBUILD=2", f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind.cmake_dir()}"),
            *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if ccache else []),
            *("-S", str(self._source), "-B", str(self._folder)),
        )

    def build(self, mutant: Mutant | None, target: Path) -> Path:
        """Return the module, with the fault in it, in the folder `target`.

        Raises
        ------
        BuildError
            If it does not compile.
        """
        if mutant is None:
            self._make()
        else:
            # The next build compiles what is put back beside what is changed next.
            with applied(mutant, self._source):
                self._make()
        (module,) = self._folder.glob("_native*.so")
        target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(module, target / module.name))

    def _make(self) -> None:
        self._run(_program("ninja"), "-C", str(self._folder), "-j", str(self._jobs))

    @staticmethod
    def _run(*command: str) -> None:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode != 0:
            raise BuildError(result.stdout[-4000:])


def _program(name: str) -> str:
    """Return the path of cmake or ninja, which are installed beside the libraries and need not be on the path."""
    beside = [str(Path(path).parents[2] / "bin") for path in sys.path if path.endswith("site-packages")]
    found = shutil.which(name, path=os.pathsep.join([*beside, os.environ.get("PATH", os.defpath)]))
    if found is None:
        raise BuildError(f"{name} is missing: pip install -c constraints.txt {name}")
    return found
