"""Search for settings of a policy, always with a held-out part: what was found on one part is told on another."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .errors import OptionError
from .log import Log
from .machine import Machine
from .replaying import replay
from .result import Result
from .table import Table

#: Values of a setting: a list of them, or a range of numbers, (low, high), from which numbers are drawn.
Values = Union[Sequence[Any], Tuple[float, float]]
#: Most trials of one search.
TRIALS_MAX = 100_000
#: Share of trials that go on to the next round of successive halving.
KEPT = 1 / 3


@dataclass(frozen=True)
class Optimised:
    """What a search found."""

    #: A row for each trial: its number, round, jobs, settings and objectives.
    trials: Table
    #: The settings of the best trial by the first objective.
    best: Dict[str, Any]
    #: Trials of the last round that no other beats in all objectives.
    pareto: Table
    #: The held-out part under the policy's defaults and under the best settings.
    held_out: Table
    #: The runs of the held-out part, for comparisons with intervals.
    result: Result
    seed: int


def optimise(
    log: Log,
    policy: Any,
    space: Mapping[str, Values],
    *,
    objective: Union[str, Sequence[str]] = "bounded_slowdown_10_mean",
    trials: int = 50,
    method: str = "random",
    held_out: float = 0.3,
    seed: int = 1,
    machine: Union[Machine, str, None] = None,
    threads: Optional[int] = None,
    progress: Optional[Callable[[int, int], Any]] = None,
    **options: Any,
) -> Optimised:
    """Search for the settings with the smallest objective on the first part of a log; the last share of its jobs,
    `held_out`, is not seen by the search.

    `objective` is a metric, or several: the first one is minimised, and :attr:`Optimised.pareto` has the trials that none
    beats. `method` is ``"random"``, or ``"halving"``: all trials on a ninth of the part, the better third on a third, the
    best ninth on all of it. `space` has a list of values for each setting, or a pair of numbers as a range. Every draw
    follows from `seed`.
    """
    objectives = [objective] if isinstance(objective, str) else list(objective)
    if not 0 < held_out < 1:
        raise OptionError(f"held_out: found {held_out}, accepted is a share between 0 and 1")
    if not 1 <= trials <= TRIALS_MAX:
        raise OptionError(f"trials: found {trials}, accepted are 1 to {TRIALS_MAX}")
    if method not in ("random", "halving"):
        raise OptionError(f"method: found {method!r}, accepted are random and halving")
    cut = int(len(log) * (1 - held_out))
    if cut < 9 or cut == len(log):
        raise OptionError(f"a log of {len(log)} jobs is too short to hold out {held_out:.0%} of them")
    machine = machine if machine is not None else log.machine
    draws = random.Random(seed)
    drawn = [{name: _draw(draws, values) for name, values in space.items()} for _ in range(trials)]
    rounds = [1.0] if method == "random" else [1 / 9, 1 / 3, 1.0]
    alive = list(range(trials))
    rows: List[Dict[str, Any]] = []
    last: List[Dict[str, Any]] = []
    for number, share in enumerate(rounds, start=1):
        part = log[: max(1, int(cut * share))]
        last = []
        for trial, metrics in zip(alive, _metrics(part, policy, [drawn[i] for i in alive], machine, threads, progress, options)):
            for name in objectives:
                if name not in metrics:
                    raise OptionError(f"objective: found {name!r}, accepted are {', '.join(metrics)}")
            own = {f"setting_{name}": value for name, value in drawn[trial].items()}
            found = {name: metrics[name] for name in objectives}
            last.append({"trial": trial, "seed": seed, "round": number, "jobs": len(part), **own, **found})
        rows += last
        order = sorted(last, key=lambda row: (row[objectives[0]], row["trial"]))
        if number < len(rounds):
            alive = sorted(row["trial"] for row in order[: max(1, round(len(order) * KEPT))])
    best = drawn[order[0]["trial"]]
    result = replay(log[cut:], [policy, (policy, best)], machine=machine, threads=threads, **options)
    told = [
        {"settings": label, **{name: run.metrics[name] for name in objectives}}
        for label, run in zip(("default", "best"), result)
    ]
    return Optimised(Table.of_rows(rows), best, Table.of_rows(_front(last, objectives)), Table.of_rows(told), result, seed)


def _draw(draws: random.Random, values: Values) -> Any:
    if isinstance(values, tuple) and len(values) == 2 and all(isinstance(value, (int, float)) for value in values):
        low, high = values
        if isinstance(low, int) and isinstance(high, int):
            return draws.randint(low, high)
        return draws.uniform(low, high)
    return draws.choice(list(values))


def _metrics(
    part: Log,
    policy: Any,
    settings: Sequence[Mapping[str, Any]],
    machine: Union[Machine, str, None],
    threads: Optional[int],
    progress: Optional[Callable[[int, int], Any]],
    options: Mapping[str, Any],
) -> List[Dict[str, float]]:
    from .sweep import _computed, _entry

    plan = [_entry(policy, each, ("", 0), lambda: part, machine, options) for each in settings]
    found = dict(_computed(plan, range(len(plan)), threads, progress))
    return [found[number] for number in range(len(plan))]


def _front(rows: Sequence[Dict[str, Any]], objectives: Sequence[str]) -> List[Dict[str, Any]]:
    """Rows that no other beats."""

    def beats(a: Dict[str, Any], b: Dict[str, Any]) -> bool:
        pairs = [(a[name], b[name]) for name in objectives]
        return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)

    return [row for row in rows if not any(beats(other, row) for other in rows)]
