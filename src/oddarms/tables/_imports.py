"""Rewards to be imported, of arms that are known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oddarms.problem import Label
from oddarms.tables._arms import layout_of, recording_in
from oddarms.tables._lines import Source, opened
from oddarms.tables._recorded import no_rows
from oddarms.tables._values import Bounds, shown


class Imports(NamedTuple):
    """The rewards of each arm, and the name and the SHA-256 of the file they stand in."""

    rewards: dict[Label, list[float]]
    source: str
    sha256: str


def read_imports(source: Source, bounds: Bounds, labels: Sequence[Label]) -> Imports:
    """Return the rewards of known arms in a file or stdin, in any layout of `read_arms`.

    Raises
    ------
    InvalidParameter
        If it names an arm that is not among the labels, or has a reward outside the bounds.
    """
    known: dict[str, Label] = {str(label): label for label in labels}
    known.update({label: label for label in labels if isinstance(label, str)})
    rewards: dict[Label, list[float]] = {}
    with opened(source) as lines:
        recording = recording_in(lines, layout_of(lines), None, bounds)
        for arm, reward in recording.rewards:
            if reward is None:
                continue
            label = known.get(arm, known.get(arm.strip()))
            if label is None:
                raise recording.wrong(
                    f"arm must be one of the {len(labels):,} known ones but is {shown(arm.strip())}"
                )
            rewards.setdefault(label, []).append(reward)
        if not rewards:
            raise no_rows(lines.name)
        return Imports(rewards, lines.name, lines.sha256)
