"""Search for settings of a policy, always with a held-out part: what was found on one part is told on another."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .errors import MissingExtra, OptionError
from .log import Log
from .machine import Machine
from .replaying import replay, undrawn
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
    undrawn("optimise", options)
    objectives = [objective] if isinstance(objective, str) else list(objective)
    cut = _cut(log, held_out)
    if not 1 <= trials <= TRIALS_MAX:
        raise OptionError(f"trials: found {trials}, accepted are 1 to {TRIALS_MAX}")
    if method not in ("random", "halving"):
        raise OptionError(f"method: found {method!r}, accepted are random and halving")
    machine = machine if machine is not None else log.machine
    draws = random.Random(seed)
    drawn = [{name: _draw(draws, values) for name, values in space.items()} for _ in range(trials)]
    rounds = [1.0] if method == "random" else [1 / 9, 1 / 3, 1.0]
    alive = list(range(trials))
    rows: List[Dict[str, Any]] = []
    last: List[Dict[str, Any]] = []
    order: List[Dict[str, Any]] = []
    for number, share in enumerate(rounds, start=1):
        part = log[: max(1, int(cut * share))]
        last = []
        for trial, metrics in zip(alive, _metrics(part, policy, [drawn[i] for i in alive], machine, threads, progress, options)):
            last.append(_row(trial, seed, number, len(part), drawn[trial], _objectives(metrics, objectives)))
        rows += last
        order = sorted(last, key=lambda row: (row[objectives[0]], row["trial"]))
        if number < len(rounds):
            alive = sorted(row["trial"] for row in order[: max(1, round(len(order) * KEPT))])
    best = drawn[order[0]["trial"]]
    return _told(log[cut:], policy, best, rows, last, objectives, seed, machine, threads, options)


def _cut(log: Log, held_out: float) -> int:
    """The first job that the search does not see."""
    if not 0 < held_out < 1:
        raise OptionError(f"held_out: found {held_out}, accepted is a share between 0 and 1")
    cut = int(len(log) * (1 - held_out))
    if cut < 9 or cut == len(log):
        raise OptionError(f"a log of {len(log)} jobs is too short to hold out {held_out:.0%} of them")
    return cut


def _objectives(metrics: Mapping[str, float], objectives: Sequence[str]) -> Dict[str, float]:
    """The metrics that are minimised."""
    for name in objectives:
        if name not in metrics:
            raise OptionError(f"objective: found {name!r}, accepted are {', '.join(metrics)}")
    return {name: metrics[name] for name in objectives}


def _row(
    trial: int, seed: int, number: int, jobs: int, settings: Mapping[str, Any], found: Mapping[str, float]
) -> Dict[str, Any]:
    own = {f"setting_{name}": value for name, value in settings.items()}
    return {"trial": trial, "seed": seed, "round": number, "jobs": jobs, **own, **found}


def _told(
    held_out: Log,
    policy: Any,
    best: Dict[str, Any],
    rows: List[Dict[str, Any]],
    last: List[Dict[str, Any]],
    objectives: Sequence[str],
    seed: int,
    machine: Union[Machine, str, None],
    threads: Optional[int],
    options: Mapping[str, Any],
) -> Optimised:
    """What a search found, with the part that it did not see."""
    result = replay(held_out, [policy, (policy, best)], machine=machine, threads=threads, **options)
    told = [
        {"settings": label, **{name: run.metrics[name] for name in objectives}}
        for label, run in zip(("default", "best"), result)
    ]
    return Optimised(Table.of_rows(rows), best, Table.of_rows(_front(last, objectives)), Table.of_rows(told), result, seed)


class Objective:
    """An objective for Optuna, with the parameters of :func:`optimise`. Needs optuna: ``pip install 'fluxgate[tune]'``.

        objective = fg.Objective(log, "hybrid", {"depth": [1, 4, 16]}, held_out=0.3)
        study = objective.study(seed=1)             # an ordinary study; any other one does as well
        study.optimize(objective, n_trials=20)
        found = objective.found(study)              # as that of fg.optimise, with the part that no trial saw

    Each trial keeps its settings and the seed of the study as attributes.
    """

    def __init__(
        self,
        log: Log,
        policy: Any,
        space: Mapping[str, Values],
        *,
        objective: Union[str, Sequence[str]] = "bounded_slowdown_10_mean",
        held_out: float = 0.3,
        seed: int = 1,
        machine: Union[Machine, str, None] = None,
        threads: Optional[int] = None,
        **options: Any,
    ) -> None:
        undrawn("an objective", options)
        self._optuna = _optuna()
        self.objectives = [objective] if isinstance(objective, str) else list(objective)
        self._cut = _cut(log, held_out)
        self._log, self._policy, self._space, self._seed = log, policy, dict(space), int(seed)
        self._machine, self._threads, self._options = machine if machine is not None else log.machine, threads, options

    def study(self, **options: Any) -> Any:
        """A study that minimises all objectives, with the sampler of trees and the seed of this objective; `options` are
        those of ``optuna.create_study``."""
        sampler = self._optuna.samplers.TPESampler(seed=self._seed)
        chosen = {"directions": ["minimize"] * len(self.objectives), "sampler": sampler, **options}
        return self._optuna.create_study(**chosen)

    def __call__(self, trial: Any) -> Union[float, Tuple[float, ...]]:
        settings = {name: _suggested(trial, name, values) for name, values in self._space.items()}
        part = self._log[: self._cut]
        metrics = _metrics(part, self._policy, [settings], self._machine, self._threads, None, self._options)[0]
        found = _objectives(metrics, self.objectives)
        trial.set_user_attr("settings", settings)
        trial.set_user_attr("seed", self._seed)
        values = tuple(found.values())
        return values[0] if len(values) == 1 else values

    def found(self, study: Any) -> Optimised:
        """What the trials of a study found: the best by the first objective, and the part that none of them saw."""
        rows = []
        for trial in study.get_trials(deepcopy=False):
            if trial.state.name == "COMPLETE":
                settings, values = trial.user_attrs["settings"], dict(zip(self.objectives, trial.values))
                rows.append(_row(trial.number, trial.user_attrs["seed"], 1, self._cut, settings, values))
        if not rows:
            raise OptionError("a study: found no trial that was completed, accepted is at least 1")
        best = min(rows, key=lambda row: (row[self.objectives[0]], row["trial"]))
        settings = {name: best[f"setting_{name}"] for name in self._space}
        return _told(
            self._log[self._cut :],
            self._policy,
            settings,
            rows,
            rows,
            self.objectives,
            self._seed,
            self._machine,
            self._threads,
            self._options,
        )


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune") from None
    return optuna


def _suggested(trial: Any, name: str, values: Values) -> Any:
    """The value of a setting in a trial."""
    if isinstance(values, tuple) and len(values) == 2 and all(isinstance(value, (int, float)) for value in values):
        low, high = values
        if isinstance(low, int) and isinstance(high, int):
            return trial.suggest_int(name, low, high)
        return trial.suggest_float(name, low, high)
    return trial.suggest_categorical(name, list(values))


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
