"""The code in README.md, CONTRIBUTING.md and docs/ runs as it stands, top to bottom; paths and links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import headrace as hr
from headrace.pipeline.cli.command_line import main
from headrace.pipeline.plan.plan import Plan

from launched import run_script

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
#: Those without code that runs everywhere.
WITHOUT_CODE = {"CONTRIBUTING.md", "docs/gpus.md", "docs/index.md", "docs/installing.md", "docs/upgrading.md"}


def run(line: str) -> None:
    """Run a line of a shell: the command headrace, a script, or what torchrun would start."""
    program, *arguments = shlex.split(line, comments=True)
    if program == "headrace":
        assert main(arguments) == 0, line
        return
    num_processes = 1
    if program == "torchrun":
        alone, number, *arguments = arguments
        assert alone == "--standalone", line
        num_processes = int(number.removeprefix("--nproc-per-node="))
    else:
        assert program == "python", line
    script, *arguments = arguments
    run_script(Path(script), *arguments, num_processes=num_processes)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_code_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a block may write files
    blocks = re.findall(r"```(python|toml|sh)\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)
    assert bool(blocks) == (name not in WITHOUT_CODE)
    names: dict[str, object] = {"__name__": "readme"}
    verbs = set(hr.ext.verbs())
    try:
        for language, block in blocks:
            file = re.match(r"# ([\w.]+\.(?:py|toml))\n", block)
            if file:
                Path(file[1]).write_text(block)
            elif language == "sh":
                for line in block.splitlines():
                    run(line)
            else:
                exec(compile(block, name, "exec", dont_inherit=True), names)  # noqa: S102 - our own text
    finally:
        for verb in set(hr.ext.verbs()) - verbs:
            delattr(Plan, verb)


@pytest.mark.parametrize("name", PAGES)
def test_paths_exist(name):
    text = (ROOT / name).read_text()
    paths = re.findall(r"`((?:pipeline|ops|cuda|tests|bench|examples|docs)/[\w/.]*)`", text)
    assert not {path for path in paths if not (ROOT / path).exists()}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files(name):
    page = ROOT / name
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)", text)
    assert not {link for link in links if "://" not in link and not (page.parent / link).exists()}


def test_readme_and_the_index_link_to_every_page():
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    for name, folder in (("README.md", "docs/"), ("docs/index.md", "")):
        text = (ROOT / name).read_text()
        assert not {page for page in pages - {"index.md"} if f"({folder}{page})" not in text}, name


def test_readme_fits_on_two_pages():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130
