"""Facts about the code that GPUs run, where their assembler is installed: registers, spills, and reads on their way."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from headrace.cuda import compile as compiling
from headrace.cuda.instances import FILES, instances_in
from headrace.cuda.source import flattened

pytest.importorskip("cupy", reason="CuPy is not installed, and with it no compiler")

#: Registers of a thread with which a multiprocessor has room for 768 threads: fewer would wait for memory.
MOST_REGISTERS = 85
#: Of LABOR's kernels, by `__launch_bounds__`: 1,024 threads.
MOST_REGISTERS_OF_LABOR = 64
#: Of the kernel that solves for the scales of rows, which goes on with several sums: 512 threads.
MOST_REGISTERS_OF_SCALES = 128
READS_AHEAD = 4


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; NVIDIA's toolkit has it")
    return found


@cache
def assembly(file: str) -> str:
    """PTX of all kernels of a file, for GPUs of compute capability 9.0."""
    *_, code = compiling.compiled(flattened(file), file, "compute_90", instances_in(file))
    return code.decode().rstrip("\0")


def assembled(file: str, made: Path) -> str:
    """Assemble the kernels of a file, and return the report."""
    text, source = assembly(file), made.with_suffix(".ptx")
    command = [tool("ptxas"), "-arch=sm_90", "-v", str(source), "-o", str(made)]
    for _ in range(2):
        source.write_text(text)
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        newest = re.search(r"Unsupported .version .*current version is '([\d.]+)'", found.stderr)
        if newest is None:
            break
        # An assembler that is older than the compiler: nothing here needs what is new in the language.
        text = re.sub(r"(?m)^\.version .*$", f".version {newest[1]}", text)
    assert found.returncode == 0, found.stderr
    return found.stderr


def kernels(text: str, name: str) -> dict[str, str]:
    """The bodies of a kernel's instances."""
    entries = re.findall(r"\.entry (\w+)\(.*?\n\{\n(.*?)\n\}", text, re.DOTALL)
    return {entry: body for entry, body in entries if re.search(rf"\d{name}I", entry)}


@pytest.mark.thorough
@pytest.mark.parametrize("file", FILES)
def test_registers_suffice(file, tmp_path):
    """None is spilled to memory, and few enough are used that threads hide what others wait for."""
    said = assembled(file, tmp_path / "kernels.cubin")
    names = re.findall(r"Compiling entry function '(\w+)'", said)
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", said)]
    assert len(names) == len(registers) == len(instances_in(file))
    assert set(spills) <= {("0", "0")}
    for name, number in zip(names, registers, strict=True):
        most = MOST_REGISTERS_OF_SCALES if "solve_rows" in name else MOST_REGISTERS
        assert number <= (MOST_REGISTERS_OF_LABOR if file == "pick_labor.cu" else most), name


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), [("gather.cu", "gather_rows"), ("gather_cached.cu", "gather_cached")])
def test_a_gather_has_several_reads_on_their_way(file, name):
    """Before the first word of a row is written, in the language that the assembler keeps the order of."""
    found = kernels(assembly(file), name)
    assert found
    for entry, body in found.items():
        words = re.findall(r"(ld\.global\.nc|st\.global)\.(?:v4\.)?[ub]\d+", body)
        runs = "".join("r" if one.startswith("ld") else "w" for one in words)
        assert "r" * READS_AHEAD + "w" * READS_AHEAD in runs, entry


@pytest.mark.parametrize(("file", "name"), [("gather.cu", "gather_rows")])
def test_the_assembler_keeps_reads_together(file, name, tmp_path):
    made, disassembler = tmp_path / "kernels.cubin", tool("nvdisasm")
    assembled(file, made)
    text = subprocess.run([disassembler, "-c", str(made)], capture_output=True, text=True, check=True).stdout
    bodies = re.findall(rf"\.text\.(\w*\d{name}I\w*):(.*?)(?=\.section|\Z)", text, re.DOTALL)
    assert bodies
    for entry, body in bodies:
        words = re.findall(r"\b(LDG\.\S*CONSTANT|STG)", body)
        runs = "".join("r" if one.startswith("LDG") else "w" for one in words)
        assert "r" * READS_AHEAD in runs, entry
