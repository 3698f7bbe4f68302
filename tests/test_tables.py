"""Reading tables: CSV as people write it, counts and totals, labels, results; and CSV."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddarms.errors import InvalidParameter
from oddarms.tables import (
    Transform,
    csv_text,
    neutralised,
    read_labels,
    read_results,
    read_rewards,
    read_totals,
)

pytest.importorskip("pandas")

Write = Callable[..., Path]
TICKET, OTHER = "17.3.204.9f86d081884c7d65", "17.3.205.9f86d081884c7d65"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file into an empty directory."""

    def write_file(content: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


TypeIn = Callable[[bytes], None]


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> TypeIn:
    """Return a function that puts bytes into stdin."""

    def put(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


def records(path: Any, **words: Any) -> dict[Any, list[float]]:
    found = read_rewards(path, **words).by_label()
    return {label: rewards.tolist() for label, rewards in found.items()}


def refused(path: Path, rule: str, **words: Any) -> str:
    """Assert that a file is refused in one sentence that has the rule and names the file."""
    with pytest.raises(InvalidParameter, match=re.escape(rule)) as caught:
        read_totals(path, **words)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert str(path) in message
    return message


class TestRewards:
    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_delimiters(self, write: Write, delimiter: str) -> None:
        text = "arm,reward,note\na,1,x\nb,0,y\n".replace(",", delimiter)
        assert records(write(text)) == {"a": [1.0], "b": [0.0]}

    def test_the_delimiter_is_that_of_the_columns_asked_for(self, write: Write) -> None:
        path = write("a, b, c, d;arm;reward\n1, 2, 3;x;1\n")
        assert records(path) == {"x": [1.0]}

    @pytest.mark.parametrize("header", ["Arm, REWARD", "\ufeffarm,reward", '"arm","reward"'])
    def test_headers_are_matched_loosely(self, write: Write, header: str) -> None:
        assert records(write(f"{header}\n a ,1\nb, 0 \n")) == {"a": [1.0], "b": [0.0]}

    def test_labels_are_kept_as_written(self, write: Write) -> None:
        labels = ["007", "07", "7", "7.0", "NA", "null", "True", "1e5", "Zoë", "李", "nan"]
        rows = "".join(f"{label},1\n" for label in labels)
        assert read_rewards(write(f"arm,reward\n{rows}")).labels == labels
        assert read_rewards(write("arm,reward\n007,1\n07,0\n")).labels == ["007", "07"]

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_blank_lines_and_line_ends(self, write: Write, end: str) -> None:
        text = "\n\narm,reward\n\na,1\n,\n\nb,0\n\n".replace("\n", end)
        assert records(write(text)) == {"a": [1.0], "b": [0.0]}

    def test_quoted_labels_keep_delimiters_and_line_ends(self, write: Write) -> None:
        path = write('arm,reward\n"Smith, ""J""",1\n"two\nlines",0\n')
        assert read_rewards(path).labels == ['Smith, "J"', "two\nlines"]

    @pytest.mark.parametrize("name", ["data.csv.gz", "data.txt"])
    def test_gzip_is_recognised_by_content(self, write: Write, name: str) -> None:
        path = write(gzip.compress(b"arm,reward\na,1\nb,0\n"), name)
        assert records(path) == records(str(path)) == {"a": [1.0], "b": [0.0]}

    @pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
    def test_stdin(self, type_in: TypeIn, packed: bool) -> None:
        content = b"arm,reward\na,1\nb,0\n"
        type_in(gzip.compress(content) if packed else content)
        assert records("-") == {"a": [1.0], "b": [0.0]}

    def test_several_columns_make_a_label(self, write: Write) -> None:
        path = write("from,to,reward\nAA,JFK,1\nAA,LAX,0\nBB,JFK,0\nAA,JFK,0\n")
        found = records(path, arm=["from", "to"])
        assert found == {"AA / JFK": [1.0, 0.0], "AA / LAX": [0.0], "BB / JFK": [0.0]}
        path = write("from,to,reward\na / b,c,1\n")
        with pytest.raises(
            InvalidParameter, match="joined with ' / ', which is part of a label already"
        ):
            read_rewards(path, arm=["from", "to"])

    def test_words_are_0_and_1(self, write: Write) -> None:
        path = write("arm,reward\na,yes\na,No\nb,TRUE\nb,false\nb,0.5\n")
        assert records(path) == {"a": [1.0, 0.0], "b": [1.0, 0.0, 0.5]}
        assert records(write("arm,reward\na,True\nb,FALSE\n")) == {"a": [1.0], "b": [0.0]}

    @pytest.mark.parametrize("delimiter", [";", "\t"])
    def test_decimal_commas(self, write: Write, delimiter: str) -> None:
        text = "arm;reward\na;0,5\nb;,25\nb;1\na;1,5E-1\n".replace(";", delimiter)
        assert records(write(text)) == {"a": [0.5, 0.15], "b": [0.25, 1.0]}
        for number in ("0.5", "1.000,5"):
            refused(write(f"{text}a{delimiter}{number}\n"), f"but is '{number}'")

    def test_a_comma_in_a_table_with_commas_is_no_decimal_mark(self, write: Write) -> None:
        refused(write('arm,reward\na,"0,5"\n'), "row 1: reward must be a number, yes/no or")

    @pytest.mark.parametrize(
        ("codec", "encoding"),
        [
            ("latin-1", "latin-1"),
            ("cp1252", "windows-1252"),
            ("utf-16", None),
            ("utf-16", "utf-8"),
            ("utf-16-le", "utf-16"),
            ("utf-32", None),
            ("utf-8-sig", "latin-1"),
            ("utf-8", "UTF8"),
        ],
    )
    @pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
    def test_encodings(self, write: Write, codec: str, encoding: str | None, packed: bool) -> None:
        content = "arm,reward\nZoë,1\nà,0\n".encode(codec)
        path = write(gzip.compress(content) if packed else content)
        assert read_rewards(path, encoding=encoding).labels == ["Zoë", "à"]

    def test_missing_rewards_have_a_policy(self, write: Write) -> None:
        path = write("arm,reward\na,1\na,\nb,NA\nb, null \nc,nan\nc,#N/A\n")
        refused(path, "row 2: reward is missing; missing='skip' leaves such rows out")
        assert records(path, missing="skip") == {"a": [1.0], "b": [], "c": []}
        assert records(path, missing="worst", worst=0.0)["c"] == [0.0, 0.0]
        totals = read_totals(path, missing="skip")
        assert (totals.labels, totals.left_out, totals.missing) == (["a"], {"b": 0, "c": 0}, 5)
        assert read_totals(path, missing="worst").counts.tolist() == [2, 2, 2]
        with pytest.raises(InvalidParameter, match="missing must be 'stop', 'skip' or 'worst'"):
            read_totals(path, missing="drop")  # type: ignore[arg-type]

    def test_clipped_and_above(self, write: Write) -> None:
        path = write("arm;reward\na;0,25\na;12\nb;-1\nb;inf\nb;\n")
        clip = Transform(clip=(0, 10))
        found = records(path, bounds=clip.bounds, transform=clip, missing="skip")
        assert found == {"a": [0.25, 10.0], "b": [0.0, 10.0]}
        assert (clip.clipped, clip.seen) == (3, 4)
        above = records(path, transform=Transform(above=0.25), missing="worst")
        assert above == {"a": [0.0, 1.0], "b": [0.0, 1.0, 1.0]}


class TestTotals:
    def test_rows(self, write: Write) -> None:
        totals = read_totals(write("arm,reward\nb,1\na,0\nb,0.5\nc,1\n"), min_rows=2)
        assert (totals.labels, totals.counts.tolist()) == (["b"], [2])
        assert (totals.sums.tolist(), totals.squares.tolist()) == ([1.5], [1.25])
        assert totals.left_out == {"a": 1, "c": 1}
        with pytest.raises(InvalidParameter, match="No arm has 3 rows or more"):
            read_totals(write("arm,reward\nb,1\n"), min_rows=3)

    @given(st.data())
    def test_the_size_of_parts_does_not_matter(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1))
        text = "arm,reward\n" + "".join(f"{arm},{reward!r}\n" for arm, reward in rows)
        with pytest.MonkeyPatch.context() as patch:
            found = []
            for size in (1, data.draw(st.integers(2, 5)), 2**18):
                patch.setattr("oddarms.tables._files.PART_ROWS", size)
                patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
                found.append(read_totals("-", rng=3))
        for totals in found[1:]:
            assert totals.labels == found[0].labels
            pairs = zip((*totals[1:4], *totals.half), (*found[0][1:4], *found[0].half), strict=True)
            assert all(np.array_equal(a, b) for a, b in pairs)

    def test_the_half_is_random_and_decided_by_the_seed(self, write: Write) -> None:
        rng = np.random.default_rng(5)
        rows = "".join(f"{arm},{reward}\n" for arm, reward in rng.integers(0, 2, (10_000, 2)))
        path = write(f"arm,reward\n{rows}")
        one, other, third = (read_totals(path, rng=seed) for seed in (0, 0, 1))
        assert one.half[0].tolist() == other.half[0].tolist() != third.half[0].tolist()
        # 5 standard deviations: one false alarm in 800,000 runs with other seeds
        for counts, sums, _ in (one.half, third.half):
            assert (abs(counts - one.counts / 2) < 5 * np.sqrt(one.counts / 4)).all()
            assert (abs(sums - one.sums / 2) < 5 * np.sqrt(one.sums / 4)).all()

    def test_counts_of_any_size(self, write: Write) -> None:
        path = write("host,errors,requests\na,10,40\nb,0,30\na,5,2000000000000\nc,0,0\n")
        totals = read_totals(path, arm="host", events="errors", trials="requests")
        assert (totals.labels, totals.left_out) == (["a", "b"], {"c": 0})
        assert totals.counts.tolist() == [2_000_000_000_040, 30]
        assert totals.sums.tolist() == totals.squares.tolist() == [15.0, 0.0]

    def test_counts_become_rewards(self, write: Write) -> None:
        path = write("arm,events,trials\na,1,3\nb,0,2\na,1,1\n")
        found = records(path)
        assert found == {"a": [1.0, 0.0, 0.0, 1.0], "b": [0.0, 0.0]}
        with pytest.raises(
            InvalidParameter, match=r"At most 20,000,000 trials .* oddarms.analyze takes"
        ):
            read_rewards(write("arm,events,trials\na,1,1e9\n"))

    def test_sums_and_squares(self, write: Write) -> None:
        path = write("arm,n,s,q\na,4,2,1.5\nb,4000000000,4e8,4e7\na,2,1,0.5\n")
        totals = read_totals(path, count="n", total="s", squares="q")
        assert totals.counts.tolist() == [6, 4_000_000_000]
        assert (totals.sums.tolist(), totals.squares.tolist()) == ([3.0, 4e8], [2.0, 4e7])
        assert totals.half[0][0] in (0, 2, 4, 6)  # whole rows
        ones = read_totals(write("arm,count,total,squares\na,4,2,2\nb,3,3,3\n"))
        assert (ones.counts.tolist(), ones.sums.tolist()) == ([4, 3], [2.0, 3.0])

    @pytest.mark.parametrize(
        ("row", "rule"),
        [
            (
                "b,2,1",
                "row 2: events must be a whole number from 0 to trials, but the row has trials",
            ),
            ("b,0.5,1", "row 2: events must be a whole number"),
            ("b,-1,1", "row 2: events must be a whole number"),
            ("b,,1", "row 2: events must be a whole number"),
            ("b,1,1e300", "row 2: events must be a whole number"),
            ("b,1,inf", "row 2: events must be a whole number"),
        ],
    )
    def test_counts_that_cannot_be(self, write: Write, row: str, rule: str) -> None:
        refused(write(f"arm,events,trials\na,0,1\n{row}\n"), rule)

    @pytest.mark.parametrize("row", ["4,5,5", "4,-1,1", "4,2,0.5", "4,2,2.5", "4,2,", "1.5,1,1"])
    def test_sums_that_cannot_be(self, write: Write, row: str) -> None:
        rule = "row 1: count, total and squares must be those of rewards within [0, 1], but the row"
        refused(write(f"arm,count,total,squares\nb,{row}\n"), rule)

    def test_words_that_do_not_go_together(self, write: Write) -> None:
        path = write("arm,events,trials,x\na,0,1,1\n")
        for words, rule in (
            (
                {"events": "events"},
                "Name the columns of reward, or of trials and events, or of count",
            ),
            ({"events": "events", "reward": "x"}, "squares; got reward and events."),
            ({"transform": Transform(above=0.5)}, "clip and above need single rewards"),
            ({"bounds": (1, 5)}, "trials and events count rewards of 0 and 1, but the bounds"),
            ({"min_rows": 0.5}, "min_rows must be a whole number"),
        ):
            with pytest.raises(InvalidParameter, match=re.escape(rule)):
                read_totals(path, **words)  # type: ignore[arg-type]

    def test_parquet(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        path = tmp_path / "t.parquet"
        columns = {"arm": ["a", "b", "a"], "reward": [7.0, None, float("nan")], "n": [9, 3, 9]}
        parquet.write_table(pyarrow.table(columns | {"ok": [2, 3, 4]}), path)
        refused(path, "row 1: reward must lie within the bounds [0, 1], but is 7", missing="skip")
        refused(path, "row 2: reward is missing", bounds=(0, 9))
        above = Transform(above=5)
        assert records(path, missing="skip", transform=above) == {"a": [1.0], "b": []}
        totals = read_totals(path, events="ok", trials="n")
        assert (totals.sums / totals.counts).tolist() == [6 / 18, 1.0]


class TestFilesThatAreWrong:
    def test_paths(self, tmp_path: Path, write: Write) -> None:
        refused(tmp_path / "none.csv", "none.csv cannot be read: No such file")
        refused(tmp_path, "cannot be read: Is a directory")
        refused(write("arm,mean\n") / "x.csv", "cannot be read: Not a directory")
        refused(write("<testsuite/>", "a.xml"), "read JUnit reports with oddarms.read_junit")

    def test_names_that_are_no_columns(self, write: Write) -> None:
        path = write("when;Worker;wrong\n1;ann;-2\n2;bob;3\n")
        columns = {"arm": "worker", "reward": "wrong"}
        assert records(path, **columns, bounds=(-2, 3)) == {"ann": [-2.0], "bob": [3.0]}
        refused(path, "arm must name the column of labels, one of 'when', 'Worker', 'wrong'")
        refused(path, "reward must name the column of rewards, one of", arm="worker")
        refused(path, "arm='x' is not a column; the columns are 'when'", arm="x")
        refused(write("arm,reward\n\n"), "has no rows")

    @pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", gzip.compress(b"", mtime=0)])
    def test_empty(self, write: Write, content: str | bytes) -> None:
        refused(write(content), "is empty")

    @pytest.mark.parametrize(
        ("content", "encoding", "rule"),
        [
            (
                b"arm,reward\n\xe0,1\n",
                None,
                "is not text in UTF-8: set encoding, such",
            ),
            (b"\x89PNG\r\n\x1a\n", None, "is not text in UTF-8"),
            (b"arm,reward\na,1\nb,0\n\xc3", None, "is not text in UTF-8"),
            (gzip.compress(b"arm,reward\na,1\n\xff", mtime=0), None, "is not text in UTF-8"),
            (
                "arm,reward\na,1\n".encode("utf-16-le"),
                None,
                "contains the byte 0x00. If it is text in",
            ),
            (b"arm,reward\na,0\0\n", None, "must be text, but it contains the byte 0x00"),
            (b"arm,reward\n\xff,1\n", "ascii", "is not text in ascii."),
            (b"\xff\xfea\0,\0\0\xd8a\0", None, "is not text in utf-16"),
            (b"PK\x03\x04", None, "is a damaged Excel workbook"),
        ],
    )
    def test_what_is_not_text(
        self, write: Write, content: bytes, encoding: str | None, rule: str
    ) -> None:
        refused(write(content), rule, encoding=encoding)

    @pytest.mark.parametrize("encoding", ["martian", "rot13", "a\0b"])
    def test_encodings_that_are_none(self, write: Write, encoding: str) -> None:
        with pytest.raises(InvalidParameter, match="encoding must be a text encoding such as"):
            read_totals(write("arm,reward\na,1\n"), encoding=encoding)

    @pytest.mark.parametrize("damage", [slice(0, -12), slice(0, 11)])
    def test_a_damaged_gzip_file(self, write: Write, damage: slice) -> None:
        content = gzip.compress(b"arm,reward\na,1\nb,0\n" + b"c,1\n" * 9)
        refused(write(content[damage]), "is a damaged or incomplete gzip file")

    def test_the_system_refuses(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write("arm,reward\na,0\nb,1\n")
        for error, rule in (
            (PermissionError(13, "denied"), "cannot be read: denied"),
            (OSError(5, "Input/output error"), "cannot be read: Input/output error"),
        ):

            def refuse(*_: object, error: OSError = error) -> None:
                raise error

            with monkeypatch.context() as patch:
                patch.setattr(Path, "open", refuse)
                refused(path, rule)

    @pytest.mark.parametrize("text", ["x", "0_1", "0x1", "1.5.2", "--1", "½"])
    def test_not_a_number(self, write: Write, text: str) -> None:
        path = write(f"arm,reward\na,1\n\nb,{text}\n")
        refused(path, f"row 2: reward must be a number, yes/no or true/false, but is {text!r}")

    @pytest.mark.parametrize("text", ["4", "-0.001", "1.0000001", "1e999", "-inf", "9" * 400])
    def test_outside_the_bounds(self, write: Write, text: str) -> None:
        refused(write(f"arm,reward\na,1\nb,{text}\n"), "row 2: reward must lie within the bounds")

    def test_the_row_is_that_of_the_file(self, write: Write) -> None:
        """Also behind the first rows that are read at a time."""
        path = write("arm,reward\n" + "a,1\n" * 300_000 + "b,7\n")
        refused(path, "row 300,001: reward must lie within the bounds [0, 1], but is 7")

    def test_the_row_counts_those_that_are_left_out(self, write: Write) -> None:
        path = write("arm,reward\na,\nb,1\na,NA\nb,7\n")
        refused(path, "row 4: reward must lie within the bounds", missing="skip")
        with pytest.raises(InvalidParameter, match="arm 'b': the reward must lie within"):
            read_totals({"a": [None, 1], "b": [7]}, missing="skip")

    def test_an_arm_without_a_name(self, write: Write) -> None:
        path = write("arm,reward\na,1\n ,0\n")
        refused(path, "row 2: the label of the arm is empty")

    @pytest.mark.parametrize("rows", ["a,1\nSmith, J,1\n", "Smith, J,1\n", 'a,1\n"b,0\n'])
    @pytest.mark.parametrize("more", ["", "x,"])
    def test_rows_that_do_not_fit_the_header(self, write: Write, rows: str, more: str) -> None:
        path = write(f"{more}arm,reward\n{re.sub('^', more, rows, flags=re.MULTILINE)}")
        with pytest.raises(InvalidParameter, match=r"not a well-formed table"):
            read_totals(path)

    def test_columns_of_one_name(self, write: Write) -> None:
        refused(write("arm,Reward,reward\na,1,0\n"), "reward='reward' names two columns")


class TestLabelsAndResults:
    def test_labels(self, write: Write, type_in: TypeIn) -> None:
        assert read_labels(str(write("ann\n\n bob \n"))) == ["ann", "bob"]
        assert read_labels("ann, bob,") == ["ann", "bob"]
        type_in("Zoë\nbob\n".encode())
        assert read_labels("-") == ["Zoë", "bob"]
        with pytest.raises(InvalidParameter, match="there is no file 'ann'"):
            read_labels("ann")

    @pytest.mark.parametrize(
        "text",
        [
            f"{TICKET} 0.5\n\n{OTHER},1\n",
            f"worker,reward,ticket\nx,0.5,{TICKET}\ny,1,{OTHER}\n",
            f"id;reward\n{TICKET};0.5\n{OTHER};1\n",
            f'{{"ticket": "{TICKET}", "reward": 0.5}}\n{{"id": "{OTHER}", "reward": true}}\n',
        ],
    )
    def test_results(self, write: Write, text: str) -> None:
        found = read_results(write(text), (0.0, 1.0))
        assert found == [(TICKET, 0.5), (OTHER, 1.0)]

    @pytest.mark.parametrize(
        ("line", "rule"),
        [
            (f"{TICKET} 2", r"line 1: .* the reward must lie within \[0, 1\]"),
            (f"{TICKET} x", "line 1: .* could not convert string to float: 'x'"),
            (f"{TICKET}", "line 1: expected a ticket and a reward"),
            ("17 1", "line 1: .* a ticket is an id from ask"),
            ('{"ticket": 1}', "line 1: expected a ticket and a reward"),
        ],
    )
    def test_results_that_are_wrong(self, write: Write, line: str, rule: str) -> None:
        with pytest.raises(InvalidParameter, match=rule):
            read_results(write(f"{line}\n"), (0.0, 1.0))


class TestCsv:
    def test_values(self) -> None:
        rows = [(1, 0.1 + 0.2, True, None, "a,b"), (2, 1e-300, False, 3, 'say "so"')]
        assert csv_text(("a", "b", "c", "d", "e"), rows) == (
            'a,b,c,d,e\n1,0.30000000000000004,True,,"a,b"\n2,1e-300,False,3,"say ""so"""\n'
        )
        assert csv_text(("a", "b"), []) == "a,b\n"

    @pytest.mark.parametrize(
        "text",
        [
            *("=1+1", "+1+1", "-1+1", "@SUM(1)", "\ttext", " =1", "\u00a0=1", "\uff1d1", "\uff0b1"),
            *("\uff0d1", "\uff201", "'=1", "''@", "-", "--1"),
        ],
    )
    def test_what_a_spreadsheet_would_run_is_neutralised_and_found_again(self, text: str) -> None:
        cell = neutralised(text)
        assert cell == "'" + text
        written = csv_text(("a", "b"), [(text, -1.5)], for_spreadsheets=True)
        row = next(csv.reader(io.StringIO(written.partition("\n")[2], newline="")))
        assert row == [cell, "-1.5"]
        assert csv_text(("a",), [(text,)]) != csv_text(("a",), [(text,)], for_spreadsheets=True)

    @pytest.mark.parametrize("between", [";", "\t", "\r", "\n", ",", "|", "; ", ';"', ';"" '])
    @pytest.mark.parametrize("start", ["", "a", "-1", "'a"])
    def test_what_may_be_split_off_is_neutralised_where_it_begins(
        self, between: str, start: str
    ) -> None:
        cell = neutralised(f"{start}{between}=1+1")
        parts = re.split("[;,|\t\r\n]", cell)
        assert parts[-1].startswith("'")
        assert not any(part.strip('" ').startswith("=") for part in parts)
        assert cell.replace("'", "") == f"{start}{between}=1+1".replace("'", "")

    def test_texts_for_spreadsheets_are_in_quotes_and_numbers_are_not(self) -> None:
        written = csv_text(("a", "b"), [("a\t=1", 0.5), (None, 2)], for_spreadsheets=True)
        assert written == '"a","b"\n"a\t\'=1",0.5\n"",2\n'

    @pytest.mark.parametrize(
        "text",
        ["", "ann", "-1", "a;-1", "a, b", "+1", "-1.5e-3", "1-1", "a=b", "'", "'ann", "''", " ann"],
    )
    def test_what_it_shows_anyway_stays_as_it_is(self, text: str) -> None:
        assert neutralised(text) == text
