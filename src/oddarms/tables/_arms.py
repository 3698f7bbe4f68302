"""Arms from a file in any layout, which is recognised from the content."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import UNIT
from oddarms.tables._columns import DELIMITERS, Header, columns_in, header_of, listed, rows
from oddarms.tables._lines import Lines, Source, fields_of, opened
from oddarms.tables._reading import Reading
from oddarms.tables._recorded import RecordedArms, Recording, check_several, no_rows, tallied
from oddarms.tables._responses import judged_responses_in, responses_in
from oddarms.tables._rewards import rewards_in
from oddarms.tables._values import Bounds, number_of, shown

_REWARDS, _MEANS, _JUDGED = ("arm", "reward"), ("arm", "mean"), ("worker", "label", "gold")
_LAYOUTS = (_REWARDS, _MEANS, _JUDGED)


def read_arms(path: Source, *, gold: Source | None = None) -> RecordedArms:
    """Return the arms that a file describes, in whichever of these layouts it has.

    - A table with a header, its columns separated by commas, semicolons or tabs: ``arm,reward``
      with a row per pull, ``arm,mean`` with a row per arm, or ``worker,label,gold`` with a row per
      response. Other columns are ignored.
    - The layout of the SQUARE benchmark: lines ``worker item label`` without a header, and a
      second file with lines ``item label``.

    A worker is an arm, and the reward of a response is 1 if its label differs from the gold one,
    as numbers where both are numbers and otherwise as text. Responses without a gold label are
    left out and counted.

    Parameters
    ----------
    path
        The file, plain or compressed with gzip, in UTF-8; "-" is stdin.
    gold
        The second file of SQUARE's layout; by default the first that exists beside `path` of its
        own name with ``_gt`` for ``_eval`` or ``gt_`` for ``responses_``, ``responses_gt.txt``,
        ``gold.txt``, ``ground_truth.txt`` and ``groundTruth.txt``.

    Notes
    -----
    SQUARE is given ``responses.txt`` with lines `worker item label` but itself writes
    ``responses_eval.txt`` and ``responses_nFold_*.txt`` with lines `item worker label`, all of
    them numbers. The column that has more than twice as many of the gold file's items is taken for
    the items; if neither has, the name of the file decides. `RecordedArms.layout` says what was
    read.
    """
    with opened(path) as lines:
        header = layout_of(lines)
        if header is not None and gold is not None:
            raise InvalidParameter(
                f"gold must be left out for a table with a header such as {path} but got {gold}."
            )
        if header is not None and header.names == _MEANS:
            return _means_in(lines, header)
        return tallied(lines, recording_in(lines, header, gold, UNIT))


def layout_of(lines: Lines) -> Header | None:
    """Return the header of a table, or None for SQUARE's layout."""
    lines.check_not_empty()
    for layout in _LAYOUTS:
        header = header_of(lines, [(name,) for name in layout])
        if header is not None:
            return header
    line = lines.first()
    separated = "\t" in line or not set(DELIMITERS) & set(line)
    header_words = {name for layout in _LAYOUTS for name in layout} & set(line.casefold().split())
    if separated and fields_of(line, 3) is not None and len(header_words) < 2:
        return None
    wanted = " or ".join(",".join(layout) for layout in _LAYOUTS)
    raise lines.wrong(
        f"there must be a header with the columns {wanted}, or a response 'worker item label',"
        f" but the columns are {listed(columns_in(line))}"
    )


def recording_in(
    lines: Lines, header: Header | None, gold: Source | None, bounds: Bounds
) -> Recording:
    """Return the single rewards of a file."""
    if header is None:
        return responses_in(lines, gold, bounds)
    if header.names == _JUDGED:
        return judged_responses_in(lines, header, bounds)
    if header.names == _REWARDS:
        return rewards_in(lines, header, Reading(bounds))
    raise InvalidParameter(
        f"{lines.name} must have single rewards, a row each, but has the arms' means."
    )


def _means_in(lines: Lines, header: Header) -> RecordedArms:
    means: dict[str, float] = {}
    for text, mean in rows(lines, header):
        arm = text.strip()
        if arm in means:
            raise lines.wrong(f"an arm must have one mean but {shown(arm)} has a second one")
        means[arm] = number_of("mean", mean, UNIT, lines.wrong)
    if not means:
        raise no_rows(lines.name)
    check_several(lines.name, tuple(means))
    values = np.array(list(means.values()))
    return RecordedArms(
        tuple(means), values, None, 0, Path(lines.name).name, "arm,mean", lines.sha256
    )
