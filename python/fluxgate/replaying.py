"""Replays: a log through policies on a machine, with the engine that runs in production."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

from . import _fluxgate
from .errors import OptionError
from .log import Log
from .machine import Machine
from .policy import PolicyLike, ask
from .progress import Report, reporter
from .result import Result

#: What is told the events of runs: the name of the run, and the event.
Observer = Callable[[str, Dict[str, Union[str, int, float, bool]]], Any]


#: Most workloads that are drawn from a log.
DRAWS_MAX = 65_535


def undrawn(what: str, options: Mapping[str, Any]) -> None:
    """Refuse draws where one run of each policy is needed."""
    if options.get("resample") is not None:
        raise OptionError(f"resample: found in {what}, accepted by replay alone")


def replay(
    log: Log,
    policies: Union[PolicyLike, Sequence[PolicyLike]] = "easy",
    *,
    machine: Union[Machine, str, None] = None,
    semantics: str = "fluxgate",
    rules: str = "",
    dependencies: str = "ignore",
    feedback: Optional[str] = None,
    resample: Optional[str] = None,
    draws: int = 20,
    uncounted: Union[int, str, None] = None,
    outages: Union[str, "os.PathLike[str]", None] = None,
    on_failure: str = "end",
    on_breach: str = "error",
    swap: Sequence[Tuple[Union[str, float], PolicyLike]] = (),
    reservations: Union[str, "os.PathLike[str]", None] = None,
    watts: Optional[Tuple[float, float]] = None,
    check: bool = True,
    places: bool = True,
    timeline: bool = False,
    threads: Optional[int] = None,
    seed: int = 1,
    progress: Union[bool, Report, None] = None,
    observer: Optional[Observer] = None,
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
    dependencies
        ``"respect"``: a job of which the log names another that it follows (fields 17 and 18) is submitted its think time
        after that one ended in the simulation; :attr:`Result.following` says how many.
    feedback
        ``"sessions"`` or ``"sessions:GAP"``: users react to the schedule. A batch of jobs of a user that began at most GAP
        seconds (1200) after the end of the one before follows it.
    resample, draws
        ``"weeks"`` or ``"users"``: run `draws` workloads that are drawn from the log with `seed`, each under each policy;
        :meth:`Result.over_draws` has the figures over all of them. Policies are named or classes, so that each draw has
        one of its own.
    uncounted
        So many of the first jobs, or those before a date, are in no metric.
    outages, reservations
        Files of failures and drains, and of windows in which nodes are kept.
    on_failure
        What becomes of jobs whose nodes fail: ``"end"``; ``"requeue"``: they are submitted again and begin anew;
        ``"checkpoint:SECONDS"``: they go on from the last of the checkpoints that they make after each so many seconds.
    on_breach
        What a breach of the contract, or an exception of a Python policy, leads to: ``"error"`` ends the replay with it;
        ``"fallback"`` lets the built-in policy decide from then on, as in production. :attr:`Run.breaches` has them.
    swap
        Times, as dates or seconds, each with a policy that takes over at the first event then or later. It is offered the
        state of the one before; :attr:`Run.takeovers` says whether it took it.
    watts
        Power of a node with no core and with all cores in use: gives ``energy_kwh``.
    check
        Have the schedule checked by the independent judge.
    places
        Keep where jobs ran: needed for :attr:`Run.schedule`, reports and Gantt pictures.
    timeline
        Keep cores in use and waiting jobs over time.
    seed
        Of intervals, and of draws.
    progress
        True shows it on standard error; a callable gets ``[(run, jobs that ended), ..]`` and the number of jobs.
    observer
        A callable that is told what happens, as it happens: the name of the run, and a dictionary with ``event`` (``submit``,
        ``start``, ``end``, ``deny``, ``pass``, ``instant``, ..) and the keys of a line of ``--hook``. It changes nothing; what it
        raises ends the replay. Runs on several threads call it from there.
    """
    # A pair is a policy with settings, and any other sequence several policies.
    several: Sequence[Any] = policies if isinstance(policies, list) else _several(policies)
    if machine is None:
        machine = log.machine
    elif not isinstance(machine, Machine):
        machine = Machine(machine)
    if resample is not None:
        for policy in several:
            kind = policy[0] if isinstance(policy, tuple) else policy
            if not isinstance(kind, (str, os.PathLike, type)):
                found = f"an object of {type(kind).__name__}"
                raise OptionError(f"policy: found {found}, accepted with resample are names, paths and classes")
        if not 1 <= draws <= DRAWS_MAX:
            raise OptionError(f"draws: found {draws}, accepted is 1 to {DRAWS_MAX}")
    # Each draw has a policy of its own.
    count = 1 if resample is None else int(draws)
    asks = [ask(policy) for policy in several for _ in range(count)]
    swaps = []
    for at, policy in swap:
        kind = policy[0] if isinstance(policy, tuple) else policy
        if len(asks) > 1 and not isinstance(kind, (str, os.PathLike, type)):
            found = f"an object of {type(kind).__name__} for {len(asks)} runs"
            raise OptionError(f"swap: found {found}, accepted are names, paths and classes")
        time = _fluxgate.epoch(at) if isinstance(at, str) else float(at)
        swaps.append((time, [ask(policy) for _ in asks]))
    until = _fluxgate.epoch(uncounted) if isinstance(uncounted, str) else None
    report, close = reporter(progress)
    try:
        replayed = _fluxgate.replay(
            log._jobs,
            machine._machine,
            asks,
            semantics=semantics,
            rules=rules,
            dependencies=dependencies,
            feedback=feedback,
            resample=None if resample is None else (resample, count, seed),
            uncounted=uncounted if isinstance(uncounted, int) else None,
            uncounted_until=until,
            outages=None if outages is None else os.fspath(outages),
            on_failure=on_failure,
            on_breach=on_breach,
            swap=swaps,
            reservations=None if reservations is None else os.fspath(reservations),
            watts=watts,
            check=check,
            places=places,
            timeline=timeline,
            threads=threads,
            progress=report,
            observer=observer,
        )
    finally:
        close()
    return Result(replayed, seed)


def _several(policies: Any) -> Sequence[Any]:
    if isinstance(policies, tuple) and not (len(policies) == 2 and isinstance(policies[1], dict)):
        return policies
    return [policies]
