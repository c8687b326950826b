"""Files of a table: patterns, folders and names with glob characters; none is left out without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from shell import main
from table_files import write_parquet, write_toml

import headrace as hr


def write(folder: Path, *names: str) -> None:
    """Write tables of one edge each, 0 to 1, 1 to 2, ..., with its number as `w`."""
    for row, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".csv"):
            (folder / name).write_text(f"src,dst,w\n{row},{row + 1},{row}\n")
        else:
            write_parquet(folder / name, {"src": np.array([row]), "dst": np.array([row + 1]), "w": np.array([row])})


def rows(folder: Path, files, **fields) -> list[int]:
    """Return the numbers of the edges of a data set of files in a folder, in their order."""
    source = write_toml(folder / "d.toml", {"edges": {"files": files, "attributes": ["w"], **fields}})
    target = folder.parent / f"{folder.name}.out".replace("?", "-")
    data = hr.convert(source, target, progress=False, overwrite=True)
    return data.graph.edge_attrs["w"].tolist()


def test_two_stars_are_files_at_any_depth(tmp_path):
    write(tmp_path, "tx/a_10.csv", "tx/a_9.csv", "tx/2023/b.csv", "tx/2024/01/c.csv", "tx/.hidden/d.csv", "other/e.csv")
    assert sorted(rows(tmp_path, "tx/**/*.csv")) == [0, 1, 2, 3]
    assert rows(tmp_path, "tx/**/a_*.csv") == [1, 0]
    assert rows(tmp_path, "**/01/*.csv") == [3]
    assert sorted(rows(tmp_path, "tx/**")) == [0, 1, 2, 3]


def test_folders_of_other_programs_are_left_out(tmp_path):
    write(tmp_path, "tx/a.csv", "tx/_temporary/b.csv", "tx/_SUCCESS.csv", "_own/c.csv")
    assert rows(tmp_path, "tx/**/*.csv") == [0]
    assert rows(tmp_path, "_own/**/*.csv") == [3]


@pytest.mark.parametrize("files", [["a.csv", "*.csv"], ["a.csv", "./a.csv"], "*.csv"])
def test_a_file_that_is_named_twice_is_refused(tmp_path, files):
    write(tmp_path, "a.csv")
    (tmp_path / "b.csv").symlink_to("a.csv")
    with pytest.raises(hr.InputError, match=r"each file once in .*, got .*\.csv again"):
        rows(tmp_path, files)


def test_a_file_that_two_links_lead_to_is_refused(tmp_path):
    write(tmp_path, "tx/a.csv")
    (tmp_path / "tx/again").symlink_to(".")
    with pytest.raises(hr.InputError, match=r"each file once in '.*tx/\*\*/\*\.csv', got .*/a\.csv again"):
        rows(tmp_path, "tx/**/*.csv")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_whose_name_is_a_pattern_is_that_file(tmp_path, ending):
    write(tmp_path, f"a1.{ending}", f"a[1].{ending}", f"b*.{ending}", f"b2.{ending}", f"c?.{ending}", f"cc.{ending}")
    assert rows(tmp_path, f"a[1].{ending}") == [1]
    assert rows(tmp_path, [f"b*.{ending}", f"c?.{ending}"]) == [2, 4]
    (tmp_path / f"a[1].{ending}").unlink()
    assert rows(tmp_path, f"a[1].{ending}") == [0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run[1]", "a*b", "c?", "[x]"])
def test_glob_characters_of_the_folder_of_a_description_are_its_name(tmp_path, name):
    folder = tmp_path / name
    write(folder, "part_1.csv", "deep/part_2.csv")
    assert rows(folder, "part_*.csv") == [0]
    assert rows(folder, "**/part_*.csv") == [1, 0]
    assert main(["convert", str(folder), str(tmp_path / "out"), "--edges", "part_[12].csv"]) == 0


def test_a_data_set_below_a_question_mark_is_refused_before_anything_is_written(tmp_path):
    write(tmp_path, "a.csv")
    source = write_toml(tmp_path / "d.toml", {"edges": {"files": "a.csv"}})
    with pytest.raises(hr.InputError, match=r"a folder whose path has no question mark, got '.*/c\?/out'"):
        hr.convert(source, tmp_path / "c?/out", progress=False)
    assert not (tmp_path / "c?").exists()


@pytest.mark.parametrize("files", ["tx", ["tx"], "tx/"])
def test_a_folder_with_folders_names_them_and_the_patterns(tmp_path, files):
    write(tmp_path, "tx/a.csv", "tx/2023/b.csv", "tx/2024/c.csv")
    message = r"expected files alone in .*tx, got the folders 2023, 2024; write 'tx/\*\*/\*\.csv' .*, or 'tx/\*\.csv' "
    with pytest.raises(hr.InputError, match=message):
        rows(tmp_path, files)
    write(tmp_path, "ty/2023/b.csv")
    with pytest.raises(hr.InputError, match=r"expected files alone in .*ty, got the folders 2023; write 'ty/\*\*/\*' "):
        rows(tmp_path, "ty")


def test_what_other_programs_keep_beside_tables_is_not_read(tmp_path):
    write(tmp_path, "tx/part_1.csv", "tx/_temporary/part_2.csv", "tx/.ipynb_checkpoints/part_1.csv")
    for name in ("_SUCCESS", ".part_1.csv.crc"):
        (tmp_path / "tx" / name).write_text("")
    assert rows(tmp_path, "tx") == [0]


def test_a_pattern_that_matches_a_folder_names_it(tmp_path):
    write(tmp_path, "tx/a.csv", "tx/2023/b.csv")
    with pytest.raises(hr.InputError, match=r"expected a regular file at .*tx/2023, got a folder"):
        rows(tmp_path, "tx/*")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_keys_in_the_names_of_folders_are_columns(tmp_path, ending):
    write(tmp_path, f"tx/year=2023/part=train/a.{ending}", f"tx/year=2024/part=a%20b/b.{ending}")
    sections = {"edges": {"files": f"tx/**/*.{ending}", "time": "year", "split": "part"}}
    data = hr.convert(write_toml(tmp_path / "d.toml", sections), tmp_path / "out", progress=False)
    assert data.graph.edge_attrs["time"].tolist() == [2023, 2024]
    assert {name: items.ids.tolist() for name, items in data.items.items()} == {"train": [[0, 1]], "a b": [[1, 2]]}


def test_keys_that_are_null_stand_beside_numbers(tmp_path):
    write(tmp_path, "t=08/a.csv", "t=__HIVE_DEFAULT_PARTITION__/b.csv")
    sections = {"edges": {"files": "**/*.csv", "time": "t"}, "options": {"null_times": "earliest"}}
    data = hr.convert(write_toml(tmp_path / "d.toml", sections), tmp_path / "out", progress=False)
    assert data.graph.edge_attrs["time"].tolist() == [8, torch.iinfo(torch.int64).min]


def test_keys_that_differ_by_zeros_are_two(tmp_path):
    write(tmp_path, "s=01/a.csv", "s=1/b.csv")
    data = hr.convert(
        write_toml(tmp_path / "d.toml", {"edges": {"files": "**/*.csv", "src": "s", "attributes": ["w"]}, "nodes": {}}),
        tmp_path / "out",
        progress=False,
    )
    assert sorted(data.ids["node"].external(torch.arange(data.graph.num_nodes))) == ["01", "1", "2"]


def test_a_key_of_a_feature_has_the_dtype_of_other_numbers(tmp_path):
    write(tmp_path, "k=1/a.csv", "k=2/b.csv")
    sections = {"edges": {"files": "**/*.csv", "features": {"x": ["k", "k"]}}}
    data = hr.convert(write_toml(tmp_path / "d.toml", sections), tmp_path / "out", progress=False)
    rows = data.store.edge["x"].read(torch.arange(2)).rows
    assert (rows.dtype, rows.tolist()) == (torch.float32, [[1.0, 1.0], [2.0, 2.0]])


def test_columns_go_before_keys_and_keys_above_the_description_are_none(tmp_path):
    write(tmp_path / "run=3", "src=0/a.csv")
    assert rows(tmp_path / "run=3", "**/*.csv") == [0]
    with pytest.raises(hr.InputError, match="no column 'run'"):
        rows(tmp_path / "run=3", "**/*.csv", time="run")


def test_files_without_the_key_of_others_are_refused(tmp_path):
    write(tmp_path, "k=1/a.csv", "b.csv")
    message = r"expected all files of .* in folders k=\.\.\., as others are, got .*b\.csv"
    with pytest.raises(hr.InputError, match=message):
        rows(tmp_path, "**/*.csv")


def test_parts_whose_columns_stand_in_another_order(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for number, names in enumerate(("src dst w", "w dst src")):
        values = {"src": [number], "dst": [2], "w": [0.5 + number]}
        parquet.write_table(pa.table({name: values[name] for name in names.split()}), tmp_path / f"{number}.parquet")
    sections = {"edges": {"files": "*.parquet", "weight": "w"}}
    data = hr.convert(write_toml(tmp_path / "d.toml", sections), tmp_path / "out", progress=False)
    assert data.graph.indices.tolist() == [0, 1]
    assert data.graph.edge_attrs["weight"].tolist() == [0.5, 1.5]
