"""What a replay gives: the runs of its policies as tables, metrics, comparisons and files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _fluxgate
from .errors import CompareError, OptionError
from .table import Table

if TYPE_CHECKING:  # pragma: no cover
    from .plot import Plots

#: Seconds of a week.
WEEK = 7 * 86_400.0
#: Fewest weeks for which there is an interval.
WEEKS_MIN = 5
#: Metrics of single jobs that can be compared.
METRICS = ("bsld", "wait", "response")


@dataclass(frozen=True)
class Breach:
    """A policy broke the contract or raised an exception; the built-in policy decided from then on."""

    #: Seconds.
    time: float
    policy: str
    kind: str
    message: str


@dataclass(frozen=True)
class Takeover:
    """A policy took over from another during a run."""

    #: Seconds.
    time: float
    predecessor: str
    successor: str
    #: Did it take over the predecessor's state?
    state: bool


class Run:
    """The run of one policy."""

    def __init__(self, run: _fluxgate.Run) -> None:
        self._run = run
        self._jobs: Optional[Table] = None

    @property
    def label(self) -> str:
        """Its name in tables: that of the policy, and of the draw if workloads were drawn."""
        return self._run.label

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return self._run.policy

    @property
    def part(self) -> Optional[str]:
        """The name of the draw that it ran, such as ``"draw-1"``; none for the whole log."""
        return self._run.part

    @property
    def metrics(self) -> Dict[str, float]:
        """Every metric by name; :func:`fluxgate.definitions` says what each means."""
        return dict(self._run.metrics)

    @property
    def jobs(self) -> Table:
        """The jobs that ran, in the order of start: job, user, cores, submit, start, end, limit, wait, response, bsld
        (tau is 10 s), backfilled, killed, and ranks unless the replay kept no places."""
        if self._jobs is None:
            self._jobs = Table(self._run.jobs())
        return self._jobs

    @property
    def timeline(self) -> Table:
        """Cores in use and waiting jobs from each time on: time, used, queued."""
        columns = self._run.timeline()
        if columns is None:
            raise OptionError("the timeline was not kept: replay(..., timeline=True)")
        return Table(columns)

    @property
    def schedule(self) -> bytes:
        """The schedule as CSV, the bytes that ``fluxgate replay --schedule`` writes."""
        if not self._run.has_places:
            raise OptionError("ranks were not kept: replay(..., places=True)")
        return self._run.schedule()

    @property
    def denied(self) -> List[Tuple[int, str]]:
        """Jobs that can never run, with the reason."""
        return self._run.denied

    @property
    def never_started(self) -> List[Tuple[int, str]]:
        """Jobs that waited until no event was left, with the reason."""
        return self._run.never_started

    @property
    def breaches(self) -> List[Breach]:
        """With ``on_breach="fallback"``: what the policy did wrong. Their number is the count of breaches."""
        return [Breach(*each) for each in self._run.breaches]

    @property
    def takeovers(self) -> List[Takeover]:
        """With ``swap=..``: which policy took over from which, and whether with its state."""
        return [Takeover(*each) for each in self._run.takeovers]

    @property
    def seconds(self) -> float:
        """Real time of the run."""
        return self._run.seconds[0]

    @property
    def policy_seconds(self) -> float:
        """Of this, in the policy."""
        return self._run.seconds[1]

    @property
    def fuel(self) -> int:
        """Fuel of a component, 0 for others."""
        return self._run.cost[1]

    def values(self, metric: str = "bsld", *, tau: float = 10.0) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """The metric of every job that ran: ``"bsld"`` with the threshold `tau`, ``"wait"`` or ``"response"``."""
        if metric not in METRICS:
            raise OptionError(f"metric: found {metric!r}, accepted are {', '.join(METRICS)}")
        if metric != "bsld":
            values: "np.ndarray[Any, np.dtype[np.float64]]" = self.jobs[metric]
            return values
        if not tau > 0:
            raise OptionError(f"tau: found {tau}, accepted are seconds above 0")
        run = self.jobs["end"] - self.jobs["start"]
        slowdown: "np.ndarray[Any, np.dtype[np.float64]]" = (self.jobs["wait"] + run) / np.maximum(run, tau)
        np.maximum(slowdown, 1.0, out=slowdown)
        return slowdown

    def __repr__(self) -> str:
        return f"<Run of {self.label}: {self._run.metrics[0][1]:.0f} jobs>"


@dataclass(frozen=True)
class Comparison:
    """The difference of two means over the same jobs, with its interval by the paired bootstrap of weeks."""

    metric: str
    a: str
    b: str
    #: Means of the two.
    mean_a: float
    mean_b: float
    #: Of `a` less that of `b`: below 0, `a` is better.
    difference: float
    #: The interval of 95 %; NaN with fewer than five weeks.
    low: float
    high: float
    #: Weeks with jobs, and those in which the mean of `a` is the smaller one.
    weeks: int
    weeks_won: int

    @property
    def decided(self) -> bool:
        """Does the interval exclude 0?"""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        if self.weeks < WEEKS_MIN:
            sure = f"too few weeks for an interval ({self.weeks}, at least {WEEKS_MIN})"
        else:
            sure = f"95 % interval {self.low:.6g} to {self.high:.6g}"
        return (
            f"{self.metric}: {self.a} {self.mean_a:.6g}, {self.b} {self.mean_b:.6g}, difference {self.difference:.6g}, "
            f"{sure}, {self.a} better in {self.weeks_won} of {self.weeks} weeks"
        )


class Result(Sequence[Run]):
    """The runs of a replay, by place or by label: ``result["easy"]``."""

    def __init__(self, replayed: _fluxgate.Replayed, seed: int) -> None:
        self._replayed = replayed
        self._seed = seed
        self._runs = [Run(run) for run in replayed.runs]

    @property
    def labels(self) -> List[str]:
        """The names of the runs."""
        return [run.label for run in self._runs]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return self._runs[which]
        for run in self._runs:
            if run.label == which:
                return run
        raise KeyError(f"no run {which!r}; runs are {', '.join(self.labels)}")

    def summary(self) -> Table:
        """Every metric, a row for each policy."""
        return Table.of_rows([{"policy": run.label, **run.metrics} for run in self._runs])

    def over_draws(self) -> Table:
        """Every metric over all draws of each policy: its mean, and the interval that holds 95 % of the draws (`low`,
        `high`), smallest and largest value. Needs ``replay(..., resample=..)``."""
        rows = self._replayed.over_draws()
        if not rows:
            raise OptionError("no workload was drawn: replay(..., resample='weeks')")
        names = ("mean", "min", "low", "high", "max")
        return Table.of_rows([{"policy": run, "metric": metric, **dict(zip(names, row))} for run, metric, row in rows])

    @property
    def following(self) -> Optional[str]:
        """How many jobs followed others, with ``dependencies="respect"`` or feedback."""
        return self._replayed.following

    def compare(self, a: str, b: str, *, metric: str = "bsld", tau: float = 10.0) -> Comparison:
        """The mean of `a` less that of `b`, with the interval that reports have: weeks of submission are drawn, the same
        for both. Refused if the two did not run the same jobs."""
        runs = (self[a], self[b])
        ids = [np.sort(run.jobs["job"]) for run in runs]
        if not np.array_equal(ids[0], ids[1]):
            only = [np.setdiff1d(ids[0], ids[1]), np.setdiff1d(ids[1], ids[0])]
            told = "; ".join(
                f"{len(jobs)} only under {label}, such as job {jobs[0]}"
                for label, jobs in zip((a, b), only)
                if len(jobs)
            )
            raise CompareError(f"{a} and {b} ran different jobs, so their means are of different things: {told}")
        if not len(ids[0]):
            raise CompareError(f"{a} and {b} ran no job")
        values = [run.values(metric, tau=tau) for run in runs]
        times = [run.jobs["submit"] for run in runs]
        found = _fluxgate.intervals([(times[1], values[1]), (times[0], values[0])], self._seed)
        mean_b = found[0][0][0]
        (mean_a, _, _), (difference, low, high) = found[1]
        origin = times[0].min()
        weeks = [((time - origin) / WEEK).astype(np.int64) for time in times]
        count = int(weeks[0].max()) + 1
        sums = [np.bincount(week, weights=value, minlength=count) for week, value in zip(weeks, values)]
        jobs = np.bincount(weeks[0], minlength=count) > 0
        won = int(np.count_nonzero((sums[0] < sums[1]) & jobs))
        return Comparison(metric, a, b, mean_a, mean_b, difference, low, high, int(np.count_nonzero(jobs)), won)

    def json(self) -> str:
        """The document that ``fluxgate replay --json`` prints; only ``seconds`` and ``policy_seconds`` differ from run to
        run."""
        return self._replayed.json()

    def report(self, folder: Union[str, "os.PathLike[str]"], *, title: str = "Replay", notes: Sequence[str] = ()) -> None:
        """Write the report of ``fluxgate replay --report``: one page that needs no network, its pictures as SVG and PNG,
        and its figures as CSV and JSON."""
        if not all(run._run.has_places for run in self._runs):
            raise OptionError("places were not kept: replay(..., places=True)")
        if any(run.part is not None for run in self._runs):
            raise OptionError("a report: found runs of draws, accepted are runs of one log")
        self._replayed.report(os.fspath(folder), title, list(notes), self._seed)

    @property
    def plot(self) -> "Plots":
        """Figures of matplotlib: gantt, ecdf, queue, used."""
        from .plot import Plots

        return Plots(self)

    def __repr__(self) -> str:
        return f"<Result: {', '.join(self.labels)}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()
