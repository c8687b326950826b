"""Files of text as people have them: empty lines, comments, line ends in names, packed, and numbers with commas."""

from __future__ import annotations

import bz2
import gzip

import pytest
import torch
from table_files import write_toml

import headrace as hr


def converted(folder, text, fields=None, *, name="e.csv", nodes=None):
    """Convert edges in a file of a folder."""
    data = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(data)
    sections = {"edges": {"files": name, **(fields or {})}, **({} if nodes is None else {"nodes": nodes})}
    return hr.convert(write_toml(folder / "d.toml", sections), folder / "out", progress=False, overwrite=True)


def names_of(data):
    return data.ids["node"].external(torch.arange(data.graph.num_nodes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("\nsrc,dst\na,b\nb,c\n", {}),
        ("\r\n\r\nsrc,dst\r\na,b\r\nb,c\r\n", {}),
        ("#c\n\nsrc,dst\na,b\n#d\n\nb,c\n", {"comment": "#"}),
        ("junk\n\nsrc,dst\na,b\nb,c\n", {"skip": 1}),
        ("\nsrc::dst\na::b\nb::c\n", {"separator": "::"}),
        ("src§dst\na§b\nb§c\n", {"separator": "§"}),
        ('"x\ny",src,dst\n1,a,b\n2,b,c\n', {}),
        ("\ufeff\nsrc,dst\na,b\nb,c\n", {}),
    ],
)
def test_lines_around_a_header_are_no_rows(tmp_path, text, fields):
    data = converted(tmp_path, text, fields)
    assert (data.graph.num_edges, names_of(data)) == (2, ["a", "b", "c"])


def test_rows_are_counted_from_the_header(tmp_path):
    with pytest.raises(hr.InputError, match=r"e\.csv, row 5: expected a number in 'w'.*got null"):
        converted(tmp_path, '\n"x\ny",src,dst,w\n1,a,b,1\n2,b,c,\n', {"weight": "w"})


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("#c\nsrc,dst,w\n1,a,1\n#d\n#e\n2,b,\n", 6),
        ("src,dst,w\n\n1,a,1\n\n\n2,b,\n", 6),
        ('src,dst,w\n#"\n1,"a\n#b",1\n#c\n2,"b\nc",\n', 6),
        ("src,dst,w\n" + "#c\n0,a,1\n" * 100_000 + "2,b,\n", 200_002),
    ],
    ids=["comments", "empty lines", "quotes", "blocks"],
)
def test_rows_are_lines_of_the_file(tmp_path, text, row):
    with pytest.raises(hr.InputError, match=rf"e\.csv, row {row}: expected a number in 'w'.*got null"):
        converted(tmp_path, text, {"weight": "w", "comment": "#"})


def test_faults_are_in_lines_of_the_file(tmp_path):
    with pytest.raises(hr.InputError, match=r"e\.csv, row 5: expected 2 columns, got 3"):
        converted(tmp_path, "#c\nsrc,dst\n1,2\n#d\n3,4,5\n", {"comment": "#"})


def test_comments_are_none_inside_quotes(tmp_path):
    fields = {"comment": "#", "labels": "n"}
    data = converted(tmp_path, 'src,dst,n\n#"\n1,2,"a\n#b\nc"\n2,3,d\n', fields)
    assert data.notes["sources"][0]["classes"]["n"] == ["a\n#b\nc", "d"]


@pytest.mark.parametrize(
    ("name", "pack"), [("e.csv.bz2", bz2.compress), ("e.CSV.GZ", gzip.compress), ("e.tsv.gz", gzip.compress)]
)
def test_packed_files(tmp_path, name, pack):
    text = "src,dst\na,b\nb,c\n".replace(",", "\t" if "tsv" in name else ",")
    assert names_of(converted(tmp_path, pack(text.encode()), name=name)) == ["a", "b", "c"]


def test_files_of_zstandard(tmp_path):
    pa = pytest.importorskip("pyarrow")
    packed = pa.Codec("zstd").compress(b"src,dst\na,b\nb,c\n", asbytes=True)
    fields = {"names": ["src", "dst"], "skip": 1}
    assert names_of(converted(tmp_path, packed, fields, name="e.csv.zst")) == ["a", "b", "c"]


def test_a_packed_file_that_is_cut_is_named(tmp_path):
    text = "src,dst\n" + "".join(f"{i},{i * 7 % 100}\n" for i in range(100_000))
    with pytest.raises(hr.InputError, match=r"e\.csv\.gz.*(damaged|Truncated)"):
        converted(tmp_path, gzip.compress(text.encode())[:-9_000], name="e.csv.gz")


def test_movielens(tmp_path):
    fields = {"names": ["src", "dst", "rating", "time"], "separator": "::", "time": "time", "attributes": ["rating"]}
    data = converted(tmp_path, "1::7::5::978300760\n2::7::3::978302109\n", fields, name="ratings.dat")
    assert data.graph.edge_attrs["rating"].tolist() == [5, 3]


@pytest.mark.parametrize("texts", [["1,5e3", "2,5e3"], ["1.234,5", "1.234,6"], [" 1,5", "2,5"], ["1 234", "5 678"]])
def test_numbers_that_may_be_lists_are_asked_about(tmp_path, texts):
    with pytest.raises(
        hr.InputError, match=r"e\.csv: expected numbers or lists of numbers in 'f', got .* may be either"
    ):
        converted(
            tmp_path, "src;dst;f\n" + "".join(f"0;1;{one}\n" for one in texts), {"separator": ";", "features": "f"}
        )


@pytest.mark.parametrize(
    ("texts", "rows"),
    [
        (["[1.5]", "[2]"], [[1.5], [2]]),
        (["1;2.5;", "3;4;"], [[1, 2.5], [3, 4]]),
        (["(0.5, -1)", "(1e3,2)"], [[0.5, -1], [1e3, 2]]),
        (["[0.5 1]", "[1  2]"], [[0.5, 1], [1, 2]]),
    ],
)
def test_lists(tmp_path, texts, rows):
    data = converted(
        tmp_path, "src|dst|f\n" + "".join(f"0|1|{one}\n" for one in texts), {"separator": "|", "features": "f"}
    )
    assert data.store.edge["f"].read(torch.arange(2)).rows.tolist() == rows


def test_a_list_has_one_separator(tmp_path):
    with pytest.raises(hr.InputError, match="expected numbers in 'f'"):
        converted(tmp_path, "src|dst|f\n0|1|1,5;2,5\n0|1|2,5;3,5\n", {"separator": "|", "features": "f"})


def test_an_empty_line_among_the_rows_of_one_column_is_refused(tmp_path):
    (tmp_path / "n.csv").write_text("y\na\n\nb\n")
    with pytest.raises(hr.InputError, match=r"n\.csv, row 3: expected a value, got an empty line"):
        converted(tmp_path, "src,dst\n0,1\n", nodes={"files": "n.csv", "labels": "y"})
    (tmp_path / "n.csv").write_text("y\na\nb\n\n\n")
    assert converted(tmp_path, "src,dst\n0,1\n", nodes={"files": "n.csv", "labels": "y"}).graph.num_nodes == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"separator": "::", "escape": "\\"}, r"expected escape .* beside a separator of one, got '\\\\' beside '::'"),
        ({"escape": ","}, "expected escape .* got ',' beside ','"),
        ({"escape": "§"}, "expected escape to be a character of ASCII"),
        ({"comment": ","}, "expected comment to differ from separator, got ',' for both"),
    ],
)
def test_letters_that_mean_two_things_are_refused(tmp_path, fields, message):
    with pytest.raises(hr.InputError, match=message):
        converted(tmp_path, "src,dst\n0,1\n", fields)
    assert not (tmp_path / ".out.converting").exists()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_part_with_a_header_alone(tmp_path, pack):
    name = "b.csv.gz" if pack is gzip.compress else "b.csv"
    (tmp_path / name).write_bytes(pack(b"src,dst"))
    data = converted(tmp_path, "src,dst\na,b\nb,c\n", {"files": ["e.csv", name]})
    assert (data.graph.num_edges, names_of(data)) == (2, ["a", "b", "c"])


def test_labels_that_cannot_be_missing_are_refused_where_some_are_added(tmp_path):
    sections = {"edges": {"files": "e.csv", "labels": "y"}, "options": {"loops": "add"}}
    (tmp_path / "e.csv").write_text("src,dst,y\n0,1,true\n1,0,false\n")
    with pytest.raises(
        hr.InputError, match=r"e\.csv: expected labels 'y' of .* as 2 without a label are added, got bool"
    ):
        hr.convert(write_toml(tmp_path / "d.toml", sections), tmp_path / "out", progress=False)


def test_a_field_of_any_length(tmp_path):
    """As a list of many numbers."""
    values = " ".join(["0.5"] * 50_000)
    data = converted(tmp_path, f"src,dst,x\na,b,{values}\nb,a,{values}\n", {"features": ["x"]})
    assert data.store.edge["x"].read(torch.arange(2)).rows.shape == (2, 50_000)
