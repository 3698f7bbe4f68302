"""The pytest plugin: ``pytest --oddarms`` finds the abnormally flaky tests (docs/pytest.md).

pytest imports this module in every run of whoever has oddarms installed. So it is small, and
imports nothing that a run without ``--oddarms`` does not need.
"""

from __future__ import annotations

from oddarms import errors

try:
    import pytest
except ModuleNotFoundError:
    raise errors.MissingExtra.of("pytest", "the pytest plugin") from None

from oddarms.pytest_plugin import _options

__all__ = ["pytest_addoption", "pytest_configure"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the same for the ini file."""
    _options.add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take over the run where ``--oddarms`` is given; refuse its other options where it is not."""
    if config.getoption("oddarms"):
        from oddarms.pytest_plugin._setup import take_over

        take_over(config)
    else:
        _options.refuse_options_alone(config)
