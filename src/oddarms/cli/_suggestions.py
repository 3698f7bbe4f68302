"""Commands and groups that know what a mistyped word was meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

from oddarms.text import shown


class SuggestingCommand(TyperCommand):
    """A command that names the option which one of a similar name was meant to be."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; say what was meant where there is none of that name."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _name_the_option(error, self)
            raise


class SuggestingGroup(TyperGroup):
    """A group of commands that names the one which was meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; say what was meant where there is none of that name."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _name_the_option(error, self)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command; say what was meant where there is none of that name."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            meant = _meant(name, self.list_commands(ctx))
            ctx.fail(f"No such command '{shown(name)}'.{meant}")
        return super().resolve_command(ctx, args)


def _name_the_option(error: Any, command: Any) -> None:
    """Give an error about an unknown option, which its fields tell, a better message."""
    if hasattr(error, "possibilities") and hasattr(error, "option_name"):
        options = (option for parameter in command.params for option in parameter.opts)
        meant = _meant(error.option_name, (word for word in options if word.startswith("--")))
        error.possibilities = None
        error.message = f"No such option '{shown(error.option_name)}'.{meant}"


def _meant(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""
