"""Turning a run of pytest into a search."""

from __future__ import annotations

import os

import pytest

from oddarms.errors import InvalidParameter
from oddarms.files import check_appendable, writable_folder
from oddarms.problem import Question
from oddarms.pytest_plugin._hunt import Hunt, Loop
from oddarms.pytest_plugin._options import Settings, read_settings
from oddarms.pytest_plugin._running import Runner, keep_little
from oddarms.pytest_plugin._seeds import leave_seeds_alone
from oddarms.pytest_plugin._xdist import WorkerRunner, XdistHooks


def take_over(config: pytest.Config) -> None:
    """Register what runs the collected tests again and again."""
    settings = read_settings(config)
    _check(settings)
    leave_seeds_alone(config)
    keep_little(config)
    config.option.maxfail = 0  # a failure is what is looked for
    plugins = config.pluginmanager
    if hasattr(config, "workerinput"):
        plugins.register(WorkerRunner(config.workerinput, isolate=settings.isolate))
        return
    _check_places(settings)
    runner = Runner(fresh=settings.isolate)
    hunt = Hunt(config, settings)
    plugins.register(runner)
    plugins.register(hunt)
    plugins.register(Loop(hunt, runner))
    plugins.register(XdistHooks(hunt))


def _check_places(settings: Settings) -> None:
    """Say what cannot be written before the tests run, not after."""
    try:
        if settings.out is not None:
            writable_folder("--oddarms-out", settings.out)
        if settings.summary is not None:
            check_appendable("--oddarms-summary", settings.summary)
    except InvalidParameter as error:
        raise pytest.UsageError(str(error)) from None


def _check(settings: Settings) -> None:
    """Say what is wrong with the question before the tests are collected."""
    try:
        Question(["one", "another"], **settings.words)
    except InvalidParameter as error:
        raise pytest.UsageError(f"--oddarms: {error}") from None
    if settings.isolate and not hasattr(os, "fork"):
        raise pytest.UsageError(
            "--oddarms-isolate must be left out on a system that cannot fork but was given: run"
            " `oddarms find --pull 'pytest -q {arm}'` for one process per sample."
        )
    if settings.jobs > 1 and not settings.isolate:
        raise pytest.UsageError(
            f"--oddarms-jobs must be left out without --oddarms-isolate but got {settings.jobs}:"
            " in this process tests run one after the other; pytest-xdist's -n has workers."
        )
