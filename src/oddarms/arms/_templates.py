"""Where a label may stand in a command, so that nothing reads it as a program."""

from __future__ import annotations

import re

from oddarms.errors import InvalidParameter

PLACEHOLDER = "{arm}"
VARIABLE = "ODDARMS_ARM"

_SHELLS = frozenset({"sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "zsh"})
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+ |&;<>!~-]*")
_TEXT_READERS = frozenset({"eval", "source", ".", "trap", "alias", "xargs", "ssh", "su", "env"})
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
    reads_again = bool(words & _READ_AGAIN) or ("-v" in words and bool(words & {"test", "printf"}))
    if reads_again or "<<" in around or not _PLAIN.fullmatch(around):
        raise InvalidParameter(
            f"command must have {PLACEHOLDER} only among plain words where a shell runs it,"
            " without quotes, $, #, parentheses, lines or programs that run text, but got"
            f' {template!r}: write "$1" or "${VARIABLE}" in its place, with these quotes.'
        )
