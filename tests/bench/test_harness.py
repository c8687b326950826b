"""What is timed, in which order, and which way round ratios are."""

from __future__ import annotations

import pytest


@pytest.fixture
def harness(bench):
    return bench("harness")


def scripted(harness, name, values, calls=None, threads=1, metric="time"):
    """Return a system that measures the given values, one a round, and notes when it is called."""

    def run(number):
        if calls is not None:
            calls.append((number, name))
        return {metric: values[number]}

    return harness.System(name, run, threads)


def test_medians_and_ranges_are_of_the_rounds_behind_the_warm_up(harness):
    system = scripted(harness, "one", [1000.0, 2000.0, 5.0, 1.0, 3.0])
    (record,) = harness.interleave("bench", "case", [system], rounds=3, warm_up=2)
    assert (record.median, record.min, record.max, record.n) == (3.0, 1.0, 5.0, 3)
    assert (record.bench, record.case, record.system, record.unit, record.threads) == ("bench", "case", "one", "ms", 1)


def test_a_spell_of_runs_is_measured_behind_one_that_is_not(harness, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(harness.time, "perf_counter", lambda: clock[0])
    numbers = []

    def run(number):
        numbers.append(number)
        clock[0] += 0.02
        place = number % 1000
        return {"time": float(10**place), "edge rate": float(place), "edges": float(number)}

    turn = harness.in_succession(harness.System("one", run, 2))
    assert (turn.name, turn.threads) == ("one", 2)
    # Three runs fill a spell.
    rate = (3 * 10**3 + 4 * 10**4 + 5 * 10**5) / 111_000
    assert turn.run(7) == {"time": 37000.0, "time after a rest": 1.0, "edge rate": rate, "edges": 7004.0}
    assert numbers == list(range(7000, 7006))


def test_a_spell_is_two_runs_at_least(harness, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(harness.time, "perf_counter", lambda: clock[0])

    def run(number):
        clock[0] += 1.0
        return {"time": number}

    assert harness.in_succession(harness.System("one", run)).run(0) == {"time": 2.5, "time after a rest": 0}


def test_every_round_runs_every_system_once_and_the_first_one_rotates(harness):
    calls = []
    systems = [scripted(harness, name, [1.0] * 6, calls) for name in "abc"]
    harness.interleave("bench", "case", systems, rounds=4, warm_up=2)
    rounds = [[name for number, name in calls if number == index] for index in range(6)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert [names[0] for names in rounds] == ["b", "c", "a", "b", "c", "a"]
    assert [number for number, _ in calls] == sorted(number for number, _ in calls)


@pytest.mark.parametrize(
    ("metric", "own", "other", "gain"),
    [
        ("time", 2.0, 10.0, 5.0),
        ("time after a rest", 2.0, 10.0, 5.0),
        ("edge cost", 10.0, 2.0, 0.2),
        ("peak memory", 1.0, 3.0, 3.0),
        ("edge rate", 10.0, 2.0, 5.0),
        ("row rate", 2.0, 10.0, 0.2),
        ("edges", 3.0, 2.0, 1.5),
    ],
)
def test_a_gain_above_one_is_better(harness, metric, own, other, gain):
    assert harness.Gain(("a", 1), ("b", 1), metric).of(own, other) == pytest.approx(gain)


def test_gains_are_taken_round_by_round(harness):
    # Round by round the peer takes 2, 3 and 4 times as long; the ratio of the medians would be 10.
    own, other = [1.0, 10.0, 100.0], [4.0, 20.0, 300.0]
    systems = [scripted(harness, "own", own), scripted(harness, "other", other)]
    gain = harness.Gain(("own", 1), ("other", 1))
    *_, record = harness.interleave("bench", "case", systems, rounds=3, gains=[gain], warm_up=0)
    assert (record.system, record.metric, record.unit) == ("own over other", "time gain", "×")
    assert (record.median, record.min, record.max) == (3.0, 2.0, 4.0)


def test_names_of_gains_say_what_is_compared(harness):
    gain = harness.Gain
    assert gain(("a", 2), ("b", 2)).name == "a over b"
    assert gain(("a", 2), ("b", 1)).name == "a over b on 1"
    assert gain(("a", 2), ("a", 1)).name == "a, 2 threads over 1"


def test_gains_over_peers_that_are_not_installed_are_left_out(harness):
    gain = harness.Gain(("own", 1), ("absent", 1))
    records = harness.interleave("bench", "case", [scripted(harness, "own", [1.0])], rounds=1, gains=[gain], warm_up=0)
    assert [record.metric for record in records] == ["time"]


def test_two_systems_of_one_name_and_thread_count_are_refused(harness):
    systems = [scripted(harness, "same", [1.0]), scripted(harness, "same", [2.0])]
    with pytest.raises(ValueError, match=r"different \(name, threads\)"):
        harness.interleave("bench", "case", systems, rounds=1)


def test_unequal_work_is_refused_and_unequal_time_is_not(harness):
    equal = harness.Record("bench", "case", "a over b", "edges gain", "×", 1.02, 1.0, 1.1, 3, 1)
    slower = harness.Record("bench", "case", "a over b", "time gain", "×", 0.1, 0.1, 0.1, 3, 1)
    harness.check_same_work([equal, slower], tolerance=0.03)
    fewer = harness.Record("bench", "case", "a over b", "inputs gain", "×", 0.9, 0.9, 1.0, 3, 1)
    with pytest.raises(ValueError, match=r"0\.900 times the inputs in a over b"):
        harness.check_same_work([equal, fewer], tolerance=0.03)


def test_records_survive_their_file(harness, tmp_path):
    records = harness.interleave("bench", "case", [scripted(harness, "one", [1.0, 2.0])], rounds=2, warm_up=0)
    harness.write_json(tmp_path / "records.json", records)
    assert harness.read_json(tmp_path / "records.json") == records
