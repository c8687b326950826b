"""Commands whose output goes nowhere, and sizes that nothing has room for: one line, and a status that says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from shell import main

import headrace as hr

from copies import run_program
from plans import graph

HEADRACE = str(Path(sys.executable).with_name("headrace"))
FULL = Path("/dev/full")
COMMAND = "import sys; from headrace.pipeline.cli.command_line import main; sys.exit(main())"

needs_script = pytest.mark.skipif(not Path(HEADRACE).exists(), reason="the command is not installed")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = command.replace("headrace", HEADRACE)
    return subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


@needs_script
@pytest.mark.skipif(not FULL.exists(), reason="there is no full device")
@pytest.mark.parametrize("arguments", ["--help", "--version", "generate --help"])
def test_what_cannot_be_printed_is_an_error(tmp_path, arguments):
    check_that_it_is_full(shell(f"headrace {arguments} > /dev/full", tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="there is no full device")
def test_what_cannot_be_printed_of_a_set_is_an_error(tmp_path):
    hr.save_dataset(tmp_path / "set", graph())
    full = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n"
    check_that_it_is_full(run_program(full + COMMAND, "info", tmp_path / "set"))


def check_that_it_is_full(ended):
    assert ended.returncode == 2
    assert ended.stderr.startswith("headrace: ")
    assert "No space left" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@needs_script
def test_closed_output_is_no_error(tmp_path):
    hr.save_dataset(tmp_path / "set", graph(), items={"train": [0, 1]})
    ended = shell("headrace info set >&-", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    closed = "import os, sys; os.close(1); sys.stdout = None  # as Python begins then\n"
    ended = run_program(closed + COMMAND, "explain", tmp_path / "set")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--features", "99999999999999"], "expected features * classes of at most"),
        (["--features", "99999999", "--classes", "99999999"], "expected features * classes of at most"),
    ],
)
def test_features_that_no_memory_holds(tmp_path, capsys, options, message):
    assert main(["generate", "rmat", str(tmp_path / "out"), "--nodes", "20", "--edges", "50", *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_no_memory_left(tmp_path, capsys):
    """Popularity takes a number for each node."""
    assert main(["generate", "chung-lu", str(tmp_path / "out"), "--nodes", str(1 << 47)]) == 2
    error = capsys.readouterr().err
    assert "memory" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["--edge-features", "--features", "--edges"])
def test_commas_alone_name_nothing(tmp_path, capsys, option):
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    with pytest.raises(SystemExit) as ended:
        main(["convert", str(tmp_path), str(tmp_path / "out"), "--edges", "e.csv", option, ",,"])
    assert ended.value.code == 2
    assert "expected names with commas between them, got ',,'" in capsys.readouterr().err
