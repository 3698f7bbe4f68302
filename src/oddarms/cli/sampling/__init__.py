"""What commands that sample share: their options, the run, what it shows, what it leaves."""

from oddarms.cli.sampling._options import (
    KINDS,
    USUAL_PATIENCE,
    Batch,
    FailureCodes,
    Jobs,
    OnErrorChoice,
    OnErrorName,
    Patience,
    Pull,
    Python,
    Quiet,
    Shell,
    Timeout,
    function_of,
)
from oddarms.cli.sampling._output import Output
from oddarms.cli.sampling._run import Run
from oddarms.cli.sampling._transforms import (
    Above,
    Bounds,
    Clip,
    limits_of,
    say_clipped,
    with_transform,
)

__all__ = [
    "KINDS",
    "USUAL_PATIENCE",
    "Above",
    "Batch",
    "Bounds",
    "Clip",
    "FailureCodes",
    "Jobs",
    "OnErrorChoice",
    "OnErrorName",
    "Output",
    "Patience",
    "Pull",
    "Python",
    "Quiet",
    "Run",
    "Shell",
    "Timeout",
    "function_of",
    "limits_of",
    "say_clipped",
    "with_transform",
]
