"""Replays: a log through policies on a machine, with the engine that runs in production."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence, Tuple, Union

from . import _fluxgate
from .log import Log
from .machine import Machine
from .policy import PolicyLike, ask
from .progress import Report, reporter
from .result import Result


def replay(
    log: Log,
    policies: Union[PolicyLike, Sequence[PolicyLike]] = "easy",
    *,
    machine: Union[Machine, str, None] = None,
    semantics: str = "fluxgate",
    rules: str = "",
    uncounted: Union[int, str, None] = None,
    outages: Union[str, "os.PathLike[str]", None] = None,
    reservations: Union[str, "os.PathLike[str]", None] = None,
    watts: Optional[Tuple[float, float]] = None,
    check: bool = True,
    places: bool = True,
    timeline: bool = False,
    threads: Optional[int] = None,
    seed: int = 1,
    progress: Union[bool, Report, None] = None,
) -> Result:
    """Run a log under each of these policies.

    The interpreter is free meanwhile, and Ctrl-C ends the replay. Components run on `threads` of their own (by default as
    many as there are cores), Python policies one after the other in the caller's thread; results do not depend on it.

    Parameters
    ----------
    machine
        Where the jobs run; by default the machine of the log's header.
    semantics, rules
        Rules of a published simulator, and single ones (``"commit=yes,backfill=none"``).
    uncounted
        So many of the first jobs, or those before a date, are in no metric.
    outages, reservations
        Files of failures and drains, and of windows in which nodes are kept.
    watts
        Power of a node with no core and with all cores in use: gives ``energy_kwh``.
    check
        Have the schedule checked by the independent judge.
    places
        Keep where jobs ran: needed for :attr:`Run.schedule`, reports and Gantt pictures.
    timeline
        Keep cores in use and waiting jobs over time.
    seed
        Of intervals.
    progress
        True shows it on standard error; a callable gets ``[(run, jobs that ended), ..]`` and the number of jobs.
    """
    # A pair is a policy with settings, and any other sequence several policies.
    several: Sequence[Any] = policies if isinstance(policies, list) else _several(policies)
    if machine is None:
        machine = log.machine
    elif not isinstance(machine, Machine):
        machine = Machine(machine)
    until = _fluxgate.epoch(uncounted) if isinstance(uncounted, str) else None
    report, close = reporter(progress)
    try:
        replayed = _fluxgate.replay(
            log._jobs,
            machine._machine,
            [ask(policy) for policy in several],
            semantics=semantics,
            rules=rules,
            uncounted=uncounted if isinstance(uncounted, int) else None,
            uncounted_until=until,
            outages=None if outages is None else os.fspath(outages),
            reservations=None if reservations is None else os.fspath(reservations),
            watts=watts,
            check=check,
            places=places,
            timeline=timeline,
            threads=threads,
            progress=report,
        )
    finally:
        close()
    return Result(replayed, seed)


def _several(policies: Any) -> Sequence[Any]:
    if isinstance(policies, tuple) and not (len(policies) == 2 and isinstance(policies[1], dict)):
        return policies
    return [policies]
