"""Where a label may stand in a command, so that nothing reads it as a program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oddarms.errors import InvalidParameter

PLACEHOLDER = "{arm}"
VARIABLE = "ODDARMS_ARM"

_SHELLS = frozenset({"sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "zsh"})
_READING = re.compile(  # a here-document; the value of an option -c; test -v and printf -v of bash
    r"<<| -[A-Za-z]*c *\S*\{arm\}|\b(test|printf)\b.* -v"
)
_ARGUMENT = re.compile(r"\$(\{?1|[@*])")
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+ |&;<>!~-]*")
_PROGRAM_OPTIONS = {  # letters of the options whose value a program runs
    **dict.fromkeys(_SHELLS, "c"),
    **dict.fromkeys(("python", "pypy"), "c"),
    **dict.fromkeys(("perl", "julia"), "eE"),
    **dict.fromkeys(("ruby", "lua", "R", "Rscript"), "e"),
    **dict.fromkeys(("node", "nodejs", "bun"), "ep"),
    "php": "rBRE",
    "env": "S",
}
_LONG_PROGRAM_OPTIONS = ("--eval", "--print", "--split-string")
_TEXT_READERS = frozenset(
    {"eval", "source", ".", "trap", "alias", "xargs", "ssh", "su", "env", "watch"}
)
_NAME_READERS = frozenset(  # for which bash runs a name such as a[$(command)]
    {"declare", "export", "let", "local", "read", "readonly", "typeset", "unset"}
)
_READ_AGAIN = _SHELLS | _TEXT_READERS | _NAME_READERS


def check_shell_template(template: str) -> None:
    """Raise if a shell runs a template in which the label might become a program.

    Shells are not parsed here: the label may stand only among plain words, none of which is known
    to read text as a program.
    """
    if PLACEHOLDER not in template:
        return
    around = template.replace(PLACEHOLDER, "_")
    words = {word.rpartition("/")[2] or word for word in re.split(r"[ |&;<>!=]+", around)}
    if words & _READ_AGAIN or _READING.search(template) or not _PLAIN.fullmatch(around):
        raise InvalidParameter(
            f"command must have {PLACEHOLDER} only among plain words where a shell runs it,"
            " without quotes, $, #, parentheses, lines or programs that run text, but got"
            f' {template!r}: write "$1" or "${VARIABLE}" in its place, with these quotes.'
        )
    check_words(re.split(r"[ |&;<>]+", template))


def check_uses_label(template: str, *, shell: bool) -> None:
    """Raise if a command does not have the label, so that it would sample the same thing always."""
    names = (PLACEHOLDER, VARIABLE)
    if any(name in template for name in names) or (shell and _ARGUMENT.search(template)):
        return
    in_shell = ' or, in a shell, "$1"' if shell else ""
    raise InvalidParameter(
        f"command must have {PLACEHOLDER}{in_shell} where the thing belongs but got {template!r},"
        f" which is the same for all: if it reads {VARIABLE} by itself, write"
        f" 'env {VARIABLE}={PLACEHOLDER} ...'."
    )


def check_words(words: list[str]) -> None:
    """Raise if the label would be in text that one of the words, an interpreter, runs."""
    for place, word in enumerate(words):
        name = word.rpartition("/")[2]
        letters = _PROGRAM_OPTIONS.get(name) or _PROGRAM_OPTIONS.get(name.rstrip("0123456789."))
        if letters is None:
            continue
        for text in _program_texts(words[place + 1 :], letters):
            if PLACEHOLDER in text:
                raise InvalidParameter(
                    f"command must not have {PLACEHOLDER} in text that {name} runs as a program but"
                    f" has it in {text!r}: pass the label as an argument, as in"
                    f" sh -c 'echo \"$1\"' sh {PLACEHOLDER}."
                )


def _program_texts(words: list[str], letters: str) -> Iterator[str]:
    """Yield the words after an interpreter that may be its program.

    A word after an option may be its value, so options end where two words in a row are none.
    """
    runs_next = may_be_value = False
    for place, word in enumerate(words):
        is_option = len(word) > 1 and word[0] in "-+"
        if not is_option and not may_be_value:
            return
        runs = is_option and _runs_text(word, letters)
        if runs and letters == _PROGRAM_OPTIONS["env"]:  # whose text may end in sh -c
            yield from words[place:]
            return
        if runs or runs_next:
            yield word  # an option, too: the text may be joined to it
        runs_next = runs or (runs_next and is_option)
        may_be_value = is_option


def _runs_text(option: str, letters: str) -> bool:
    return option.startswith(_LONG_PROGRAM_OPTIONS) or bool(
        re.match(rf"[-+][A-Za-z0-9]*[{letters}]", option)
    )
