"""Bytes are choices: the fuzzer changes the former to change the latter."""

from __future__ import annotations

import random

import pytest

from fuzz.choices import Choices


def drawn(data):
    choices = Choices(data)
    return [
        choices.random(),
        choices.getrandbits(64),
        choices.randrange(10**6),
        choices.choice("abcdefgh"),
        choices.sample(range(100), 5),
        choices.choices([1, 2, 3], k=3),
    ]


@pytest.mark.parametrize("size", [0, 1, 5, 40, 4096])
def test_equal_bytes_are_equal_choices(size):
    data = random.Random(size).randbytes(size)
    assert drawn(data) == drawn(data)


def test_bytes_are_read_in_order_and_whole():
    choices = Choices(bytes([0x34, 0x12, 0xFF, 0x03, 7]))
    assert choices.getrandbits(16) == 0x1234
    assert choices.getrandbits(3) == 0b111
    assert choices.getrandbits(2) == 0b11
    assert choices.randrange(8) == 7


def test_random_is_below_one():
    choices = Choices(b"\0\0\xff\xff\0\x80")
    assert [choices.random() for _ in range(3)] == [0.0, 65535 / 65537, 32768 / 65537]


def test_a_change_of_a_late_byte_leaves_the_choices_before_it():
    data = bytearray(random.Random(3).randbytes(400))
    before = Choices(bytes(data))
    data[-1] ^= 1
    after = Choices(bytes(data))
    assert [before.getrandbits(8) for _ in range(399)] == [after.getrandbits(8) for _ in range(399)]
    assert before.getrandbits(8) != after.getrandbits(8)


def test_beyond_the_end_all_bytes_matter():
    tails = {tuple(drawn(bytes([1, last]))[1:3]) for last in range(100)}
    assert len(tails) == 100
