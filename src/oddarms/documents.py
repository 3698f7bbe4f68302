"""Documents made of a few kinds of blocks, written as text, as Markdown and as HTML.

Labels and messages of others are hostile input: a `Literal` is text in every form, whatever
characters it has.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oddarms.text import filled, table
from oddarms.text import width as text_width

NARROW = "40rem"
"""Screens up to this wide get the narrow form of a picture."""
WIDTH = 79
"""Of text for a terminal."""
LONG_LABEL = 20
"""Characters of a label that may need more than one line."""
MAX_MARKS = 4
"""Above and below one letter; more would reach into the lines around it."""
MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 .6rem; }
h1 { margin-top: 0; }
p { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #d0d0d0; text-align: left;
  vertical-align: top; }
thead th { border-bottom: 2px solid #767676; }
tbody th { font-weight: inherit; min-width: 7rem; overflow-wrap: anywhere; }
td { min-width: 6rem; } table .number { text-align: right; white-space: nowrap; min-width: 0; }
caption { text-align: left; padding-bottom: .3rem; }
details { margin: 1rem 0; } summary { cursor: pointer; }
.scroll { overflow-x: auto; margin: 1rem 0; }
figure { margin: 1.2rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; }
figcaption, .note { color: #555; font-size: .92rem; }
code { font-size: .92em; background: #8882; padding: 0 .2em; border-radius: .2em;
  overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181c; } figcaption, .note { color: #b0b0b0; }
  th, td { border-color: #444; } }
@media print { body { margin: 0; max-width: none; color: #000; background: #fff; }
  figcaption, .note { color: #333; } table { font-size: .8rem; }
  th, td { border-color: #999; min-width: 0; padding: .2rem .45rem; }
  h1, h2, h3 { break-after: avoid; }
  figure, tr { break-inside: avoid; } .scroll { overflow: visible; } }
"""

FRAGMENT_STYLE = """
.oddarms { font-size: .93em; line-height: 1.45; max-width: 60rem; }
.oddarms p { margin: .3em 0; overflow-wrap: anywhere; }
.oddarms .scroll { overflow-x: auto; margin: .4em 0; }
.oddarms table { border-collapse: collapse; margin: 0; font-variant-numeric: tabular-nums;
  color: inherit; background: none; }
.oddarms.oddarms :is(th, td) { padding: .15em .8em .15em 0; text-align: left; vertical-align: top;
  font-weight: inherit; white-space: nowrap; color: inherit; background: none;
  border: 0 solid #8886; border-bottom-width: 1px; max-width: none; }
.oddarms.oddarms thead th { font-weight: 600; border-bottom-width: 2px; }
.oddarms.oddarms tbody th { white-space: normal; min-width: 6em; max-width: 32em;
  overflow-wrap: anywhere; }
.oddarms.oddarms table .number { text-align: right; }
.oddarms caption { text-align: left; caption-side: top; padding: 0; color: inherit; opacity: .8; }
.oddarms summary { cursor: pointer; }
.oddarms progress { width: 14em; vertical-align: middle; accent-color: #0072b2; }
"""
"""Of a piece inside another page: it inherits that page's colours, be they light or dark."""

POLICY = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src"
    f" 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
)
"""What a page may do: show its own pictures in its own style, and nothing else."""


class Literal(str):
    """Text that is shown as it is, whatever characters it has; its direction stays its own."""

    __slots__ = ()


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; text between backticks is code, and parts of it may be `Literal`."""

    text: str | tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text


@dataclass(frozen=True)
class Facts:
    """Names and values, one below the other."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A table with a header; it scrolls by itself where the screen is narrow.

    The columns `numbers` are set to the right; with `named_rows`, each row's first cell names it.
    Text has what the columns `below` say in lines below a row, whose name comes last.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: Collection[int] = ()
    named_rows: bool = False
    below: Collection[int] = ()


@dataclass(frozen=True)
class Picture:
    """A picture with what it shows in words: a file beside the document, or the bytes of an SVG.

    HTML has the picture inside; Markdown links to a file and has only the words of an SVG. `narrow`
    is another form of an SVG, for narrow screens.
    """

    source: str | bytes
    alternative: str
    caption: str = ""
    narrow: bytes | None = None


@dataclass(frozen=True)
class Details:
    """Blocks that HTML and Markdown fold, and that a terminal leaves out but for the summary."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Bar:
    """How much of something is done, and what there is to say of it."""

    done: int
    total: int
    text: str


Block = Bar | Heading | Paragraph | Facts | Table | Picture | Details


def to_text(blocks: Sequence[Block], width: int = WIDTH) -> str:
    """Return a document for a terminal, with empty lines before and after groups of rows."""
    text, group = "", False
    for block in blocks:
        ended = group and isinstance(block, Heading | Paragraph)
        if text and (ended or (isinstance(block, Table) and block.caption)):
            text += "\n"
        text += _text(block, width)
        group = isinstance(block, Details) or (isinstance(block, Table) and bool(block.below))
    return text


def to_markdown(blocks: Sequence[Block]) -> str:
    """Return a document as Markdown; pictures are links to files beside it."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def to_html(title: str, blocks: Sequence[Block], folder: Path) -> str:
    """Return a document as one self-contained page; pictures are read from the folder."""
    body = "\n".join(_html(block, folder) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def to_fragment(blocks: Sequence[Block]) -> str:
    """Return blocks without files as a piece for inside a page, such as a notebook's."""
    body = "\n".join(_html(block, Path()) for block in blocks)
    return f'<div class="oddarms"><style>{FRAGMENT_STYLE}</style>\n{body}\n</div>'


def _text(block: Block, width: int) -> str:
    match block:
        case Heading(text):
            return filled(_plain(text), width) + "\n"
        case Paragraph():
            return filled("".join(map(_plain, block.parts)), width) + "\n"
        case Facts(facts):
            lines = (filled(f"{name}: {_plain(value)}", width, "  ") for name, value in facts)
            return "".join(f"{line}\n" for line in lines)
        case Table(header, rows, caption, numbers):
            title = f"{_plain(caption)}:\n" if caption else ""
            if block.below:
                return title + _text_of_details(block, width)
            return title + table(header, rows, right=[header[i] for i in numbers], wrap=header[0])
        case Details(summary):
            return f"... and {summary}\n"
        case Bar(text=text):
            return f"{text}\n"
        case Picture():
            return ""


def _text_of_details(block: Table, width: int) -> str:
    """Return the rows of a table with lines below them; a long name is whole, on its own line."""
    head = [block.header[i] for i in block.numbers]
    cells = ([row[i] for i in block.numbers] for row in block.rows)
    first, *numbers = table(head, cells, right=head).splitlines()
    lines = [f"{first}  {block.header[0]}"]
    for row, start in zip(block.rows, numbers, strict=True):
        name = _plain(row[0])
        fits = len(start) + 2 + text_width(name) <= width
        lines += [f"{start}  {name}"] if fits else [start, f"    {name}"]
        for i in block.below:
            if row[i]:
                told = filled(f"{block.header[i]}: {_plain(row[i])}", width - 4, "  ")
                lines += [f"    {line}" for line in told.split("\n")]
    return "".join(f"{line}\n" for line in lines)


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {markdown(text)}"
        case Paragraph():
            return "".join(map(markdown, block.parts))
        case Facts(facts):
            return "\n".join(f"- {name}: {markdown(value)}" for name, value in facts)
        case Table(header, rows, caption, numbers):
            sides = ["---:" if i in numbers else "---" for i in range(len(header))]
            lines = [[markdown(text) for text in line] for line in (header, *rows)]
            lines.insert(1, sides)
            title = f"**{markdown(caption)}**\n\n" if caption else ""
            return title + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case Picture(source, alternative, caption):
            words = f"![{alternative}]({source})" if isinstance(source, str) else alternative
            return f"{words}\n\n{caption}" if caption else words
        case Details(summary, blocks):
            parts = [f"<details><summary>{html.escape(summary)}</summary>"]
            return "\n\n".join([*parts, *map(_markdown, blocks), "</details>"])
        case Bar(text=text):
            return markdown(text)


def _html(block: Block, folder: Path) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{inline(text)}</h{level}>"
        case Paragraph():
            return f"<p>{''.join(map(inline, block.parts))}</p>"
        case Facts(facts):
            lines = "".join(f"<li>{inline(name)}: {inline(text)}</li>" for name, text in facts)
            return f"<ul>{lines}</ul>"
        case Table():
            return _html_table(block)
        case Picture():
            return _html_picture(block, folder)
        case Details(summary, blocks):
            body = "\n".join(_html(one, folder) for one in blocks)
            return f"<details><summary>{inline(summary)}</summary>\n{body}\n</details>"
        case Bar(done, total, text):
            of = f"{done:,} of {total:,}"
            return (
                f'<p><progress value="{done}" max="{total}" aria-label="{of}">{of}</progress>'
                f" {inline(text)}</p>"
            )


def _html_table(table: Table) -> str:
    def cell(column: int, text: str, scope: str) -> str:
        kind = ' class="number"' if column in table.numbers else ""
        if scope:
            return f'<th scope="{scope}"{kind}>{inline(text)}</th>'
        return f"<td{kind}>{inline(text)}</td>"

    def line(row: Sequence[str]) -> str:
        scopes = ["row" if table.named_rows else ""] + [""] * (len(row) - 1)
        return "".join(map(cell, range(len(row)), row, scopes))

    caption = f"<caption>{inline(table.caption)}</caption>" if table.caption else ""
    region = f' role="region" aria-label="{html.escape(table.caption)}"' if caption else ""
    head = "".join(cell(*entry, "col") for entry in enumerate(table.header))
    body = "".join(f"<tr>{line(row)}</tr>\n" for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0"{region}><table>{caption}<thead><tr>{head}</tr>'
        f"</thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _html_picture(picture: Picture, folder: Path) -> str:
    source, kind = picture.source, ".svg"
    if isinstance(source, str):
        kind = (folder / source).suffix
        source = (folder / source).read_bytes()
    image = f'<img src="{_data_address(source, kind)}" alt="{html.escape(picture.alternative)}">'
    if picture.narrow is not None:
        other = _data_address(picture.narrow, ".svg")
        other = f'<source media="(max-width: {NARROW})" srcset="{other}">'
        image = f"<picture>{other}{image}</picture>"
    words = f"<figcaption>{inline(picture.caption)}</figcaption>" if picture.caption else ""
    return f"<figure>{image}{words}</figure>"


def _data_address(content: bytes, kind: str) -> str:
    return f"data:{MEDIA_TYPES[kind]};base64,{base64.b64encode(content).decode()}"


def inline(text: str) -> str:
    """Return text as HTML: escaped, `code` between backticks, **bold** between asterisks."""
    literal = isinstance(text, Literal) and text
    escaped = html.escape(visible(text) if literal else text, quote=False)
    if isinstance(text, Literal):
        if len(text) > LONG_LABEL:  # it may be broken, and had better be between words
            escaped = re.sub(r"[/:\[_-]+(?=\w)|[,.](?=[^\W\d])", r"\g<0><wbr>", escaped)
        return f"<bdi>{escaped}</bdi>"
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)


def markdown(text: str) -> str:
    """Return text as Markdown; in a `Literal`, characters with a meaning are escaped.

    Examples
    --------
    >>> markdown("**bold** and `code`"), markdown(Literal("a|b")), markdown(Literal("test_a[1]"))
    ('**bold** and `code`', '<code>a&#124;b</code>', '`test_a[1]`')
    """
    if not isinstance(text, Literal):
        return str(text).replace("|", r"\|").replace("\n", " ").replace("<", "&lt;")
    seen = visible(text)
    if not set(seen) & set("`|"):
        return f"`{seen}`"
    entities = (f"&#{ord(c)};" if c in "`|\\*_[]&#~@$!:<>" else c for c in seen)
    return f"<code>{''.join(entities)}</code>"


def _plain(text: str) -> str:
    return visible(text) if isinstance(text, Literal) else text.replace("**", "").replace("`", "")


def visible(value: object, most: int | None = None) -> str:
    r"""Return a value as text, with invisible and direction-changing characters escaped.

    Control characters become symbols or escapes; of more than `most` characters the middle is left
    out.

    Examples
    --------
    >>> visible("a\tb"), visible(" "), visible(""), visible("abcdefghij", most=6)
    ('a␉b', '␠', '(empty)', 'abc…ij')
    """
    text = str(value)
    if most is not None and len(text) > most:
        end = most // 3
        text = f"{text[: most - end - 1]}…{text[len(text) - end :]}"
    if not text.strip(" "):
        return "␠" * len(text) or "(empty)"
    return text if text.isascii() and text.isprintable() else "".join(_seen(text))


def _seen(text: str) -> Iterator[str]:
    """Yield the characters of a text, escaped unless visible or part of the one before."""
    before, above, spaces = "", 0, text.isspace()
    for character in text:
        category = unicodedata.category(character)
        above = above + 1 if category in ("Mn", "Me") else 0
        if character in _JOINERS:
            seen = not before.isascii()
        else:
            known = character.isprintable() or character in _SIGNS
            seen = (known and not _BLANK.match(character)) or (category == "Zs" and not spaces)
        code = ord(character)
        escaped = _SYMBOLS.get(code, f"\\u{code:04x}")
        yield character if seen and above <= MAX_MARKS else escaped
        before = character


def number_text(value: float, span: float) -> str:
    """Return a number to about a thousandth of the span of such numbers; a dash for NaN.

    Examples
    --------
    >>> number_text(0.12345, 1.0), number_text(12345.678, 1e6), number_text(0.00123, 0.01)
    ('0.123', '12,346', '0.00123')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    digits = 3 - math.floor(math.log10(span)) if 0.0 < span < math.inf else 3
    if digits > 9 or abs(value) >= 1e15:
        return f"{value:.6g}"
    rounded = round(value, max(digits, 0)) + 0.0  # no -0
    return f"{rounded:,.{max(digits, 0)}f}"


_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Printable, or of another category than Cf, and blank all the same."""
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Make one of several characters, as in many an emoji and in Persian."""
_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
"""Of the category Cf, and seen: they stand around numbers."""
_SYMBOLS = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
