"""Errors that reach the shell name its options beside the arguments of functions."""

from __future__ import annotations

import re
from dataclasses import fields
from inspect import signature
from pathlib import Path

import headrace as hr
from headrace.pipeline import convert
from headrace.pipeline.convert.description import Options


def test_python_has_every_option():
    """Also those that no message names: `Options` and the arguments of `hr.convert` are the same."""
    arguments = signature(hr.convert).parameters
    assert {one.name for one in fields(Options)} < set(arguments)


def test_options_of_odd_rows_are_never_named_as_arguments_alone():
    """Wherever a message of a conversion names such an argument, the option is beside it."""
    words = r"(unknown_ids|null_times|duplicate_edges|loops)='\w+'|(external|reverse|undirected)=True"
    for file in Path(convert.__file__).parent.rglob("*.py"):
        for found in re.finditer(rf"(?:pass|without|beside|convert:) (?:{words})(.{{0,9}})", file.read_text()):
            assert "(--" in found.group(3), (file.name, found.group())
