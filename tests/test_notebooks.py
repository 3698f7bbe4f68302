"""In a notebook: results and studies as HTML, a bar that stays in place, live views, pictures."""

from __future__ import annotations

import itertools
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

import oddarms
from oddarms import Result, Search, Study, create_study, delete_study, find
from oddarms.arms import Bernoulli
from oddarms.documents import FRAGMENT_STYLE
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.search import in_notebook

HOSTILE = [
    "<script>alert(1)</script>",
    "</bdi></th></table><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "&lt;b&gt;",
    "\u202eevil\x00\x1b[31m",
    "**bold** `code`",
]
TAGS = {
    "div", "style", "p", "bdi", "strong", "code", "table", "caption", "thead", "tbody", "tr", "th",
    "td", "details", "summary", "progress", "wbr", "h3", "ul", "li",
}  # fmt: skip


class Read(HTMLParser):
    """What is in a piece of HTML: tags, attributes, and the text outside of styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self._goes_on = False
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "wbr":  # where a word may be broken
            self._goes_on = True
        else:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._goes_on and self.texts:
            self.texts[-1] += data
        elif "style" not in self._open:
            self.texts.append(data)
        self._goes_on = False

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


def read(shown: Any) -> Read:
    """Return what a notebook shows of something, once it is known to be harmless."""
    html = shown if isinstance(shown, str) else shown._repr_html_()
    found = Read(html)
    assert set(found.tags) <= TAGS
    wanted = {"class", "tabindex", "role", "aria-label", "scope", "value", "max"}
    assert found.attributes <= wanted
    return found


def result(labels: list[Any], odd: int = 1, **words: Any) -> Result:
    means = [0.1] * (len(labels) - odd) + [0.95] * odd
    return find(Bernoulli(means, labels=labels), k=1.5, rng=1, **words)


class TestResults:
    def test_it_says_what_the_text_says(self) -> None:
        for found in (result(list("abcdef")), result(list("abcdef"), budget=30)):
            text = read(found).text.lower()
            for line in str(found).splitlines():
                if not line.startswith("label"):
                    assert all(word in text for word in line.lower().rstrip(":").split("  ")), line

    def test_undecided_arms_are_sorted_by_suspicion(self) -> None:
        search = Search(list("abcdef"), k=1.5)
        ones = {"a": 0, "b": 3, "c": 1, "d": 0, "e": 6, "f": 2}
        search.add_history({label: [n / 6] * 6 for label, n in ones.items()})
        table = read(search.result()).text.partition("Undecided")[2]
        assert re.findall(r" ([a-f]) (?=[01]\.)", table) == list("ebfcad")

    def test_long_lists_are_folded(self) -> None:
        shown = read(Search(range(10_000), k=2).result())
        assert shown.tags.count("tr") == 2 + 10 + 500
        assert shown.tags.count("details") == 1
        assert "9,990 others" in shown.text

    def test_hostile_labels_are_text(self) -> None:
        for found in (result(HOSTILE), result(HOSTILE, budget=10)):
            shown = read(found)
            assert "\x1b" not in shown.text
            assert "\u202e" not in shown.text
        named = {row.strip() for row in shown.texts}
        assert {*HOSTILE[:4], "\\u202eevil␀␛[31m", HOSTILE[5]} <= named
        search = Search([*HOSTILE, "x"], rule="control", control=HOSTILE[0], margin=0.1)
        assert HOSTILE[0] in read(search.result()).text

    def test_colours_are_those_of_the_page(self) -> None:
        """A dark page has its colours in variables of its own, so none must be set here."""
        colours = set(
            re.findall(r"#[0-9a-f]+|(?:color|background)[a-z-]*: *[^;}]+", FRAGMENT_STYLE)
        )
        assert colours == {
            "color: inherit", "background: none", "#8886", "color: #0072b2",
        }  # fmt: skip


class Kernel:
    """Stands in for IPython in a notebook: keeps what each place in the output showed."""

    def __init__(self) -> None:
        self.panes: list[list[dict[str, str]]] = []

    def display(self, content: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert (raw, display_id) == (True, True)
        shown = [content]
        self.panes.append(shown)

        def update(content: dict[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(content)

        return SimpleNamespace(update=update)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    package = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=found))
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=found.display))
    return found


@pytest.fixture
def study() -> Iterator[Study]:
    yield create_study("crowd", list("abcdef"), k=1.5, storage="memory", rng=1)
    delete_study("crowd", storage="memory")


def work(study: Study, pulls: int = 10**6) -> None:
    """Make pulls until the study is done, or so many."""
    while pulls > 0 and not (tickets := study.ask(min(pulls, 20))).done:
        study.tell_many([(ticket, float(ticket.arm == "f")) for ticket in tickets])
        pulls -= len(tickets)


class TestProgress:
    def test_a_notebook_is_told_from_a_terminal(
        self, monkeypatch: pytest.MonkeyPatch, kernel: Kernel
    ) -> None:
        assert in_notebook()
        del kernel
        for shell in (None, SimpleNamespace()):  # a script that imports IPython; its terminal
            package = SimpleNamespace(get_ipython=lambda shell=shell: shell)
            monkeypatch.setitem(sys.modules, "IPython", package)
            assert not in_notebook()
        monkeypatch.delitem(sys.modules, "IPython")
        assert not in_notebook()

    def test_the_bar_stays_in_its_place(
        self, kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        find(Bernoulli([0.1, 0.1, 0.1, 0.9]), k=1, rng=1, progress=True)
        assert kernel.panes == []  # what is over at once shows nothing
        seconds = itertools.count(step=0.3)  # whoever looks at the clock waits
        monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
        find({x: (lambda x=x: float(x == "f")) for x in "abcdef"}, k=1.5, progress=True)
        assert capsys.readouterr() == ("", "")
        (pane,) = kernel.panes
        assert len(pane) > 3
        for content in pane[:-1]:
            assert set(content) == {"text/plain", "text/html"}
            assert content["text/plain"] in read(content["text/html"]).text
        assert re.search(r'<progress value="\d" max="6"', pane[-2]["text/html"])
        assert pane[-1] == {"text/plain": "", "text/html": ""}


class TestStudies:
    def test_a_study_shows_where_it_stands(self, study: Study) -> None:
        assert "running" in read(study).text
        assert "0 results, 0 pulls under way" in read(study).text
        work(study)
        shown = read(study).text
        assert "Study crowd , decided: everything is decided" in shown
        assert "1 of 6 arms is an outlier" in shown

    def test_a_hostile_name(self) -> None:
        named = create_study("<b onclick=x>", list("abc"), k=1, storage="memory")
        try:
            assert "<b onclick=x>" in read(named).text
        finally:
            delete_study("<b onclick=x>", storage="memory")
        assert "<b onclick=x>" in read(named).text  # and that it is not there any more

    def test_watching_in_a_notebook(
        self, study: Study, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.search._progress.NOTEBOOK_SECONDS", 0.0)
        progress = study.progress

        def look() -> Any:
            """Somebody works on the study between two looks."""
            found = progress()
            work(study, 20)
            return found

        monkeypatch.setattr(study, "progress", look)
        assert study.watch(poll=0.0).outliers == ["f"]
        (pane,) = kernel.panes
        assert len(pane) > 2
        assert all("pulls," in read(content["text/html"]).text for content in pane[:-1])
        assert pane[-1] == {"text/plain": "", "text/html": ""}

    def test_a_timeout_returns_what_is_known(
        self, study: Study, capsys: pytest.CaptureFixture[str]
    ) -> None:
        work(study, 12)
        found = study.watch(0.05, poll=0.01)
        assert (found.status, found.pulls) == ("running", 12)
        assert "12 pulls, 6 of 6 arms undecided" in capsys.readouterr().err

    def test_ctrl_c_ends_the_watching(self, study: Study, kernel: Kernel) -> None:
        work(study, 12)
        main = threading.get_ident()

        def interrupt() -> None:
            while not kernel.panes:
                time.sleep(0.01)
            signal.pthread_kill(main, signal.SIGINT)

        presser = threading.Thread(target=interrupt)
        presser.start()
        found = study.watch(poll=60.0)
        presser.join()
        assert found.status == "running"
        work(study)
        assert study.done

    def test_a_storage_that_is_away_is_waited_for(
        self, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        work(study)
        real, failures = type(study).overview, [True, True]

        def away(self: Study) -> Any:
            if failures:
                failures.pop()
                error = StorageFailed("the storage is away.")
                error.passing = True
                raise error
            return real(self)

        monkeypatch.setattr(type(study), "overview", away)
        assert study.watch().outliers == ["f"]
        failures[:] = [True, True]
        with pytest.raises(StorageFailed):
            study.watch(retry_for=0)

    @pytest.mark.parametrize(("word", "value"), [("poll", -1), ("timeout", float("nan"))])
    def test_wrong_seconds(self, study: Study, word: str, value: float) -> None:
        with pytest.raises(
            InvalidParameter, match=f"{word} must be a timedelta or a number of seconds"
        ):
            study.watch(**{word: value})


class TestPictures:
    def test_a_figure_shows_itself(self) -> None:
        pyplot = pytest.importorskip("matplotlib.pyplot")
        before = pyplot.get_fignums()
        figure = oddarms.plotting.plot_intervals(result(list("abcdef")))
        assert pyplot.get_fignums() == before  # or pyplot would show it again
        content, shown = figure._repr_png_()
        assert content.startswith(b"\x89PNG")
        assert int.from_bytes(content[16:20]) == 2 * shown["width"] == 1800
        assert shown["alt"] == "1 outlier among 6 arms, " + shown["alt"].split(", ")[1]


CELLS = (
    """import random, oddarms
random.seed(1)
rates = {"a": 0.1, "<b>": 0.1, "c": 0.1, "d": 0.9}
oddarms.find(oddarms.arms.Bernoulli(list(rates.values()), labels=list(rates)), k=1, rng=1)""",
    """import time
def flip(p):
    time.sleep(0.02)
    return float(random.random() < p)
arms = {x: (lambda p=p: flip(p)) for x, p in rates.items()}
result = oddarms.find(arms, k=1, progress=True)""",
    "oddarms.plotting.plot_intervals(result)",
    """%matplotlib inline
import matplotlib.pyplot
oddarms.plotting.plot_intervals(result)""",
    """study = oddarms.create_study("s", list(rates), k=1, storage="memory")
r = study.run(lambda label: float(label == "d"))
study.watch()""",
)


@pytest.mark.long
def test_a_real_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Every cell has what it should, each once."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    first, second, third, fourth, last = (
        [(output["output_type"], output["data"]) for output in cell["outputs"]]
        for cell in book.cells
    )
    ((kind, data),) = first
    assert kind == "execute_result"
    assert "1 of 4 arms is an outlier" in read(data["text/html"]).text
    assert second == [("display_data", {"text/plain": "", "text/html": ""})]
    for picture in (third, fourth):
        ((kind, data),) = picture
        assert (kind, "image/png" in data) == ("execute_result", True)
    ((kind, data),) = last  # the study was decided: no bar
    assert kind == "execute_result"
    assert "1 of 4 arms is an outlier" in read(data["text/html"]).text
