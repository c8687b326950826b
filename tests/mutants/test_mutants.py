"""The list of mutants fits the tree. Whether they are killed is for `make mutants`, which takes minutes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from combinations import COLLECTED

from mutants.__main__ import Outcome, verdict
from mutants.mutant import Mutant
from mutants.table import MUTANTS
from mutants.tree import PACKAGE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_it_applies(mutant):
    assert not mutant.misfit(ROOT)


def test_each_test_is_there_with_its_parameters(request):
    """Of the files that this run has read as a whole."""
    if any("::" in argument for argument in request.config.args):
        pytest.skip("reads single tests of files")
    collected = request.config.stash[COLLECTED]
    functions = {name.partition("[")[0] for name in collected}
    files = {name.partition("::")[0] for name in collected}
    named = {mutant.test for mutant in MUTANTS if mutant.test.partition("::")[0] in files}
    assert named <= collected | functions


def test_there_are_no_two_alike():
    assert len({(mutant.file, mutant.this, mutant.that) for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.this != mutant.that for mutant in MUTANTS)


def test_copies_have_all_that_is_installed():
    text = Path(ROOT, "CMakeLists.txt").read_text()
    for modules, body in re.findall(r"foreach\(MODULE ([\w ]+)\)\n(.*?)endforeach\(\)", text, re.DOTALL):
        text += "".join(body.replace("${MODULE}", module) for module in modules.split())
    installed = re.findall(r"install\(FILES (pipeline/[\w./]+) DESTINATION headrace(?: RENAME (\S+))?\)", text)
    assert len(installed) > 3
    assert {(name or Path(source).name, source) for source, name in installed} <= PACKAGE.items()


@pytest.mark.parametrize(
    ("file", "this", "test", "message"),
    [
        ("code.py", "a + b", "test_code.py::test_sum", ""),
        ("code.py", "a + b", "test_code.py::test_sum[1-2]", ""),
        ("code.py", "a - b", "test_code.py::test_sum", "found it 0 times"),
        ("code.py", "a", "test_code.py::test_sum", "found it 2 times"),
        ("cod.py", "a + b", "test_code.py::test_sum", "does not exist"),
        ("code.py", "a + b", "test_code.py::test_product", "there is no test"),
        ("code.py", "a + b", "test_cod.py::test_sum", "there is no test"),
    ],
)
def test_what_does_not_apply_says_so(tmp_path, file, this, test, message):
    (tmp_path / "code.py").write_text("c = a + b\nd = a\n".replace("d = a", "d = c * a" if this == "a" else "d = c"))
    (tmp_path / "test_code.py").write_text("def test_sum():\n    pass\n")
    misfit = Mutant(file, this, "0", test).misfit(tmp_path)
    assert message in misfit if message else not misfit


@pytest.mark.parametrize(
    ("code", "hangs", "expected", "is_right"),
    [
        (0, False, "survived", False),
        (1, False, "killed", True),
        (1, True, "killed", True),
        (-11, False, "killed", True),
        (None, True, "killed", True),
        (None, False, "timed out", False),
        (4, False, "was not tested: pytest exited with 4", False),
    ],
)
def test_a_test_that_runs_out_of_time_kills_only_what_is_known_to_hang(code, hangs, expected, is_right):
    mutant = Mutant("code.py", "a", "b", "test_code.py::test_sum", hangs=hangs)
    assert verdict(mutant, code) == expected
    assert Outcome(mutant, expected, 1.0).is_right == is_right
