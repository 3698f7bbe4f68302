"""All commands, each in its own file."""

from __future__ import annotations

from typing import Annotated

import typer

from oddarms.cli._demo import demo
from oddarms.cli._guard import guarded
from oddarms.cli._reproduce import reproduce

app = typer.Typer(
    help="Find the abnormal ones among many things that can only be sampled at a cost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from oddarms import __version__

        typer.echo(f"oddarms {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find the abnormal ones among many things that can only be sampled at a cost."""


app.command()(guarded(demo))
app.command()(guarded(reproduce))
