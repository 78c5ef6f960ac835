"""Fluxgate: replays of workload logs through the scheduler that runs in production, from Python.

    import fluxgate as fg

    log = fg.Log.lublin99(jobs=10_000, cores=256, seed=1)
    result = fg.replay(log, ["easy", ("hybrid", {"depth": 4}), MyPolicy])
    result.summary()
    result["easy"].jobs.to_pandas()
    result.compare("hybrid:depth=4", "easy", metric="bsld")
"""

from __future__ import annotations

from typing import List

from . import _fluxgate
from ._fluxgate import Candidate, JobEvents, JobRows, Pass, __version__
from .errors import (
    CompareError,
    Error,
    LogError,
    MachineError,
    MissingExtra,
    OptionError,
    PolicyError,
    ReplayError,
    ScheduleError,
)
from .log import Log
from .machine import Machine
from .optimise import Objective, Optimised, optimise
from .policy import BUILTIN, Policy, PolicyLike, policies, settings_of
from .replaying import replay
from .result import Breach, Comparison, Result, Run, Takeover
from .same import Difference, same
from .sweep import design, grid, sweep
from .table import Table
from .weights import export

__all__ = [
    "BUILTIN",
    "Breach",
    "Candidate",
    "CompareError",
    "Comparison",
    "Difference",
    "Error",
    "JobEvents",
    "JobRows",
    "Log",
    "LogError",
    "Machine",
    "MachineError",
    "MissingExtra",
    "Objective",
    "Optimised",
    "OptionError",
    "Pass",
    "Policy",
    "PolicyError",
    "PolicyLike",
    "ReplayError",
    "Result",
    "Run",
    "ScheduleError",
    "Table",
    "Takeover",
    "__version__",
    "definitions",
    "design",
    "export",
    "grid",
    "optimise",
    "policies",
    "replay",
    "same",
    "settings_of",
    "sweep",
]


def definitions() -> Table:
    """What each metric means: name, unit, formula and source."""
    rows: List[dict[str, str]] = [
        {"name": name, "unit": unit, "formula": formula, "source": source}
        for name, unit, formula, source in _fluxgate.definitions()
    ]
    return Table.of_rows(rows)
