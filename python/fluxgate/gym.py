"""Environments of Gymnasium on the engine of the scheduler: which job is next, which fills a gap, what is taken, what is
reserved, and how much age, fair share, size and priority count.

    import gymnasium
    import fluxgate as fg
    import fluxgate.gym

    env = gymnasium.make("fluxgate/Pick-v0", log=fg.Log.lublin99(2000, cores=256, seed=1), length=256)
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(info["action_mask"].argmax())

A step is a decision inside a pass of the engine; between two decisions the run goes on in Rust, through ends and
submissions, and through what no decision is needed for. Observations are written into one array of the environment, of
which each step returns a copy, or with ``copy=False`` the array itself. Needs gymnasium: ``pip install 'fluxgate[gym]'``.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _fluxgate
from .errors import MissingExtra, OptionError
from .log import Log
from .machine import Machine
from .replaying import replay

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise MissingExtra("gymnasium", "gym") from None

#: An array, or arrays by name.
_Observation = Any
_Mask = npt.NDArray[np.bool_]

#: The sequences with which published figures of RLScheduler were computed: first jobs and length.
RLSCHEDULER_STARTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
RLSCHEDULER_LENGTH = 1024

#: Most rows of an observation, and most times of a plan.
ROWS_MAX = 1024
SLOTS_MAX = 1024

#: Options of all environments and what they are by default.
DEFAULTS: Mapping[str, Any] = {
    "features": "queue-1",
    "scales": "",
    "window": 128,
    "rows": "first",
    "mode": "commit",
    "backfill": "easy",
    "ask_single": True,
    "skip": False,
    "base": "fcfs",
    "guarded": True,
    "rejections": 20,
    "horizon": 86_400.0,
    "slots": 24,
    "reservations": 1,
    "period": 14_400.0,
    "multifactor": {},
    "semantics": "fluxgate",
    "rules": "",
    "metric": "bsld",
    "tau": 10.0,
    "stepwise": False,
}

#: Options of rows of jobs, and those of every environment.
_ROWS = ("features", "scales", "window", "rows", "ask_single")
_ALL = ("semantics", "rules", "metric", "tau", "stepwise")

_METRICS = {
    "bsld": "bounded_slowdown_10_mean",
    "slowdown": "slowdown_mean",
    "wait": "wait_mean_s",
    "response": "response_mean_s",
    "utilisation": "utilisation_to_last_start",
}


def feature_sets() -> Dict[str, List[Dict[str, str]]]:
    """Every set of features: name, formula, range and unknown value of each feature."""
    keys = ("name", "formula", "range", "unknown")
    return {name: [dict(zip(keys, row)) for row in rows] for name, rows in _fluxgate.feature_sets()}


def aggregates() -> List[Dict[str, str]]:
    """What ``Weights`` shows: name, formula and range of each number."""
    return [dict(zip(("name", "formula", "range"), row)) for row in _fluxgate.aggregates()]


def longest_run(log: Log) -> float:
    """The longest run time of a log, in seconds: the scale of requests under RLScheduler."""
    return float(np.max(log.frame()["run"]))


class Environment(gymnasium.Env[Any, Any]):
    """What the environments share; use one of them.

    Parameters
    ----------
    log, machine
        Jobs, and where they run: by default the machine of the log's header.
    length
        Jobs of a sequence; by default 256, or all if there are fewer.
    starts
        First jobs of sequences, by index; the next of them at each reset. By default drawn from the seed.
    relative_to
        A policy of `fluxgate.replay`, such as ``"easy"``: the reward at the end is the difference to it on the same
        sequence.
    keep
        Two numbers: only sequences are taken on which the metric of the policy `relative_to` is between them.
    preset
        ``"rlscheduler"``: features, rows, rules, sequences and reward of Zhang et al. (SC 2020).
    copy
        False returns the same array at each step, which the next step overwrites.
    on_invalid
        An action that the mask does not allow is taken as the first that it allows and counted in
        ``info["invalid_actions"]``, or with ``"error"`` it is an error.
    options
        See :data:`DEFAULTS`: features, scales, window (rows), rows (the rule), mode, backfill, and more. An environment
        takes those that mean something in it.
    """

    metadata: Dict[str, Any] = {"render_modes": []}
    _kind = ""
    #: Options that it takes beside those of every environment.
    _takes: Tuple[str, ...] = ()
    #: Options with another value than the default.
    _own: Mapping[str, Any] = {}
    #: Actions have numbers, and a mask.
    _numbered = True

    def __init__(
        self,
        log: Log,
        *,
        machine: Union[Machine, str, None] = None,
        length: Optional[int] = None,
        starts: Optional[Sequence[int]] = None,
        relative_to: Any = None,
        keep: Optional[Tuple[float, float]] = None,
        preset: Optional[str] = None,
        copy: bool = True,
        on_invalid: str = "first",
        **options: Any,
    ) -> None:
        if on_invalid not in ("first", "error"):
            raise OptionError(f"on_invalid: found {on_invalid!r}, accepted is first, error")
        for name in options:
            if name not in (*self._takes, *_ALL):
                known = ", ".join(key for key in DEFAULTS if key in (*self._takes, *_ALL))
                raise OptionError(f"option {name}: accepted are {known}")
        chosen = {**DEFAULTS, **self._own}
        if preset == "rlscheduler":
            published = dict(
                features="rlscheduler-1",
                scales=f"wait=43200,duration={longest_run(log):.17g}",
                rows="interleaved",
                mode="commit",
                backfill="none",
                semantics="rlscheduler",
                rules="commit=no,backfill=policy",
            )
            takes = [name for name in (*self._takes, *_ALL) if name not in self._own]
            chosen.update((name, value) for name, value in published.items() if name in takes)
            length = RLSCHEDULER_LENGTH if length is None else length
        elif preset is not None:
            raise OptionError(f"preset: found {preset!r}, accepted is 'rlscheduler'")
        chosen.update(options)
        self.options: Dict[str, Any] = chosen
        self.log = log
        self.machine = log.machine if machine is None else machine if isinstance(machine, Machine) else Machine(machine)
        self.length = min(256, len(log)) if length is None else int(length)
        if not 0 < self.length <= len(log):
            raise OptionError(f"length: found {length}, accepted is 1 to {len(log)}, the jobs of the log")
        self._starts = None if starts is None else [int(start) for start in starts]
        for start in self._starts or ():
            if not 0 <= start <= len(log) - self.length:
                raise OptionError(f"starts: found {start}, accepted is 0 to {len(log) - self.length}")
        if keep is not None and relative_to is None:
            raise OptionError("keep: accepted with relative_to, whose metric it bounds")
        self._next = 0
        self._edge = self.length if preset == "rlscheduler" and len(log) > 2 * self.length + 1 else 0
        self._relative_to, self._keep, self._copy = relative_to, keep, copy
        self._strict, self._invalid, self._told = on_invalid == "error", 0, False
        self._bases: Dict[int, float] = {}
        self.start = 0
        self.actions: List[Any] = []
        self._episode: Optional[_fluxgate.Episode] = None
        self._values, self._mask = np.zeros(0, np.float32), np.zeros(0, np.bool_)
        self._spaces()

    def _shape(self) -> Tuple[int, int]:
        """Rows of an observation, and features of a row."""
        sets = dict(_fluxgate.feature_sets())
        chosen = self.options
        if chosen["features"] not in sets:
            raise OptionError(f"features: found {chosen['features']!r}, accepted is {', '.join(sets)}")
        rows = int(chosen["window"])
        if not 1 <= rows <= ROWS_MAX:
            raise OptionError(f"window: found {rows}, accepted is 1 to {ROWS_MAX}")
        return rows, len(sets[chosen["features"]])

    def _spaces(self) -> None:
        """Arrays and spaces: rows, and an action for each."""
        rows, width = self._shape()
        self._values = np.zeros((rows, width), np.float32)
        self._mask = np.zeros(rows + (1 if self._kind == "backfill" or self.options["skip"] else 0), np.bool_)
        self.observation_space = spaces.Box(0.0, 1.0, self._values.shape, np.float32)
        self.action_space = spaces.Discrete(len(self._mask))

    def action_masks(self) -> _Mask:
        """For each action whether it is allowed now, as ``MaskablePPO`` of sb3-contrib asks for it; empty where actions have
        no numbers."""
        return self._mask.copy()

    def reset(
        self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None
    ) -> Tuple[_Observation, Dict[str, Any]]:
        """Begin a sequence. `options` may have ``start``, the index of its first job."""
        super().reset(seed=seed)
        given = dict(options or {})
        start = given.pop("start", None)
        if given:
            raise OptionError(f"options of reset: found {', '.join(given)}, accepted is start")
        last = len(self.log) - self.length
        if start is not None and not 0 <= int(start) <= last:
            raise OptionError(f"start: found {start}, accepted is 0 to {last}")
        for _ in range(100):
            self.start = self._draw() if start is None else int(start)
            part = self.log[self.start : self.start + self.length]
            self._episode = _fluxgate.Episode(part._jobs, self.machine._machine, self._kind, self.options)
            # A sequence without a decision is not worth an episode.
            if not self._episode.over or start is not None or self._starts is not None:
                break
        assert self._episode is not None
        self.actions, self._invalid, self._told = [], 0, False
        self._episode.observe(self._values, self._mask)
        return self._shown(), self._info()

    def _draw(self) -> int:
        if self._starts is not None:
            self._next += 1
            return self._starts[(self._next - 1) % len(self._starts)]
        for _ in range(1000):
            # RLScheduler leaves out sequences at both ends of a log.
            last = len(self.log) - self.length
            high = last - 1 if self._edge else last + 1
            start = int(self.np_random.integers(self._edge, max(high, self._edge + 1)))
            if self._keep is None or self._keep[0] <= self._base(start) <= self._keep[1]:
                return start
        raise OptionError(f"keep: found no sequence in 1000 draws with a metric within {self._keep}")

    def _base(self, start: int) -> float:
        """The metric of the policy that rewards are relative to."""
        if start not in self._bases:
            part = self.log[start : start + self.length]
            clock = "" if self.options["semantics"] == "fluxgate" else self.options["rules"]
            run = replay(
                part,
                self._relative_to,
                machine=self.machine,
                semantics=self.options["semantics"],
                rules=clock,
                check=False,
                places=False,
            )
            self._bases[start] = float(next(iter(run)).metrics[_METRICS[self.options["metric"]]])
        return self._bases[start]

    def step(self, action: Any) -> Tuple[_Observation, float, bool, bool, Dict[str, Any]]:
        """Carry out an action, and go on to the next decision."""
        if self._episode is None:
            raise OptionError("the environment was not reset")
        if self._episode.over and self._episode.metrics is not None and not self.actions and not self._told:
            # Nothing was to decide in this sequence.
            self._told = True
            return self._shown(), 0.0, True, False, self._info()
        reward, over = self._act(self._taken(action))
        if over and self._relative_to is not None:
            base = self._base(self.start)
            reward += -base if self.options["metric"] == "utilisation" else base
        return self._shown(), reward, over, False, self._info()

    def _taken(self, action: Any) -> Any:
        """The action that is carried out for this one."""
        assert self._episode is not None
        taken = int(action)
        if not self._strict and 0 <= taken < len(self._mask) and not self._mask[taken] and not self._episode.over:
            taken, self._invalid = int(self._mask.argmax()), self._invalid + 1
        return taken

    def _act(self, action: Any) -> Tuple[float, bool]:
        """Carry out an action: the reward, and whether the episode is over."""
        assert self._episode is not None
        done = self._episode.step(int(action), self._values, self._mask)
        self.actions.append(int(action))
        return done

    def replay(self, actions: Sequence[Any], *, start: Optional[int] = None) -> Dict[str, float]:
        """Play recorded actions on the same sequence, or on the one that begins with job `start`; returns its metrics."""
        self.reset(options={"start": self.start if start is None else start})
        assert self._episode is not None
        for action in actions:
            self._act(action)
        metrics = self._episode.metrics
        if metrics is None:
            raise OptionError(f"replay: found {len(actions)} actions, after which the episode is not over")
        return dict(metrics)

    def jobs(self) -> Dict[str, Any]:
        """The jobs of the rows: id, submit, duration (requested), cores, user."""
        if self._episode is None:
            raise OptionError("the environment was not reset")
        return dict(self._episode.jobs())

    def _shown(self) -> _Observation:
        return self._values.copy() if self._copy else self._values

    def _info(self) -> Dict[str, Any]:
        assert self._episode is not None
        info: Dict[str, Any] = {"time": self._episode.now}
        if self._numbered:
            info["action_mask"] = self._mask.copy() if self._copy else self._mask
        metrics = self._episode.metrics
        if metrics is not None:
            info["metrics"] = dict(metrics)
            info["start"] = self.start
            info["invalid_actions"] = self._invalid
            info["decisions_beyond_rows"] = self._episode.beyond
        return info


class Pick(Environment):
    """``fluxgate/Pick-v0``: which waiting job is next. A row a job; with ``skip=True`` a last action: none now.

    Mode ``commit``: a job that does not fit is the next to start, and nothing else is picked meanwhile; ``pass``: it gets a
    reservation, and then jobs are picked that start without delaying it.
    """

    _kind = "pick"
    _takes = (*_ROWS, "mode", "backfill", "skip")


class Backfill(Environment):
    """``fluxgate/Backfill-v0``: which job fills the gap before the first that waits, under the order `base`.

    The last action is: none of them. The first job that waits is never delayed unless ``guarded=False``.
    """

    _kind = "backfill"
    _takes = (*_ROWS, "base", "guarded")
    _own = {"features": "gap-1", "ask_single": False, "mode": "pass"}


class Inspect(Environment):
    """``fluxgate/Inspect-v0``: take (0) or reject (1) what the order `base` picks; one row, of that job.

    A job that was rejected is asked about again at the next event; after `rejections` in a row, and on an idle machine, the
    pick is taken without a question.
    """

    _kind = "inspect"
    _takes = ("features", "scales", "backfill", "base", "rejections")
    _own = {"window": 1}

    def _spaces(self) -> None:
        super()._spaces()
        self._mask = np.zeros(2, np.bool_)
        self.action_space = spaces.Discrete(2)


class Reserve(Environment):
    """``fluxgate/Reserve-v0``: start (0), reserve (1) or leave (2), a waiting job at a time, in the order `base`.

    An observation is a dictionary. ``rows``: the job that is asked about and those behind it. ``plan``: the share of cores
    that are free at `slots` times from now on, `horizon` seconds in all, if running jobs end as requested and reserved jobs
    start as reserved. At most `window` jobs are asked about in a pass, and at most `reservations` of them are reserved. A job
    that cannot start without delaying a reservation cannot be started, one that can start now cannot be reserved, and on an
    idle machine none can be left. Where one action is allowed it is taken without a question, unless ``ask_single=True``.
    """

    _kind = "reserve"
    _takes = ("features", "scales", "window", "ask_single", "base", "horizon", "slots", "reservations")
    _own = {"ask_single": False, "window": 32}

    def _spaces(self) -> None:
        (rows, width), slots = self._shape(), int(self.options["slots"])
        if not 1 <= slots <= SLOTS_MAX:
            raise OptionError(f"slots: found {slots}, accepted is 1 to {SLOTS_MAX}")
        self._values = np.zeros(rows * width + slots, np.float32)
        self._mask = np.zeros(3, np.bool_)
        self._rows, self._plan = self._values[: rows * width].reshape(rows, width), self._values[rows * width :]
        self.observation_space = spaces.Dict(
            rows=spaces.Box(0.0, 1.0, (rows, width), np.float32), plan=spaces.Box(0.0, 1.0, (slots,), np.float32)
        )
        self.action_space = spaces.Discrete(3)

    def _shown(self) -> _Observation:
        parts = {"rows": self._rows, "plan": self._plan}
        return {name: part.copy() for name, part in parts.items()} if self._copy else parts


class Weights(Environment):
    """``fluxgate/Weights-v0``: what age, fair share, size and priority count, from 0 to 1, until the next question.

    The policy `multifactor` decides with these weights. The first question comes with the first jobs, and each other one
    with the first event `period` seconds or more after the one before. What is shown are figures of queue and machine:
    :func:`aggregates`. `multifactor` are other settings of that policy, such as ``{"max-age": "1d"}``. A weight below 0 or
    above 1 is taken as the nearest of the two and counted in ``info["invalid_actions"]``, or with ``on_invalid="error"`` it
    is an error. Actions have no mask.
    """

    _kind = "weights"
    _takes = ("period", "multifactor")
    _numbered = False

    #: The weights of an action, as settings of multifactor.
    WEIGHTS = ("weight-age", "weight-fair-share", "weight-size", "weight-priority")

    def _spaces(self) -> None:
        settings = dict(self.options["multifactor"])
        self.options["multifactor"] = [(str(key), str(value)) for key, value in settings.items()]
        self._values = np.zeros(len(aggregates()), np.float32)
        self.observation_space = spaces.Box(0.0, 1.0, self._values.shape, np.float32)
        self.action_space = spaces.Box(0.0, 1.0, (len(self.WEIGHTS),), np.float32)

    def _taken(self, action: Any) -> Any:
        weights = np.asarray(action, np.float64).reshape(-1)
        bounded = np.clip(weights, 0.0, 1.0)
        if not self._strict and (bounded != weights).any() and not np.isnan(weights).any():
            weights, self._invalid = bounded, self._invalid + 1
        return weights

    def _act(self, action: Any) -> Tuple[float, bool]:
        assert self._episode is not None
        numbers = [float(number) for number in action]
        done = self._episode.answer(numbers, self._values)
        self.actions.append(numbers)
        return done


class VecPick:
    """`n` environments ``Pick`` whose steps are made together, on all cores, and which share their arrays.

    An environment whose episode is over begins the next one at the same step; its reward and `over` are of the one that
    ended.
    """

    def __init__(self, n: int, log: Log, **options: Any) -> None:
        if n < 1:
            raise OptionError(f"n: found {n}, accepted is 1 or more")
        self.envs = [Pick(log, copy=False, **options) for _ in range(n)]
        first = self.envs[0]
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        self.observations = np.zeros((n, *first._values.shape), np.float32)
        self.masks = np.zeros((n, len(first._mask)), np.bool_)
        self.rewards = np.zeros(n, np.float64)
        self.over = np.zeros(n, np.bool_)
        for at, env in enumerate(self.envs):
            # Each environment writes into its row.
            env._values, env._mask = self.observations[at], self.masks[at]

    def reset(self, *, seed: Optional[int] = None) -> Tuple[npt.NDArray[np.float32], _Mask]:
        """Begin a sequence in each; seeds are `seed`, `seed + 1` and so on."""
        for at, env in enumerate(self.envs):
            env.reset(seed=None if seed is None else seed + at)
        return self.observations, self.masks

    def step(
        self, actions: Sequence[int]
    ) -> Tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], _Mask, _Mask]:
        """An action in each: observations, rewards, which episodes ended, masks. The arrays are the same at each step."""
        episodes = [env._episode for env in self.envs]
        if any(episode is None for episode in episodes):
            raise OptionError("the environments were not reset")
        _fluxgate.step_all(
            [episode for episode in episodes if episode is not None],
            np.ascontiguousarray(actions, np.int64),
            self.observations,
            self.masks,
            self.rewards,
            self.over,
        )
        for at in np.flatnonzero(self.over):
            self.envs[at].reset()
        return self.observations, self.rewards, self.over, self.masks


def make_vec(n: int, log: Log, **options: Any) -> VecPick:
    """`n` environments ``Pick``, stepped together on all cores."""
    return VecPick(n, log, **options)


for _name, _class in (
    ("Pick", Pick),
    ("Backfill", Backfill),
    ("Inspect", Inspect),
    ("Reserve", Reserve),
    ("Weights", Weights),
):
    gymnasium.register(f"fluxgate/{_name}-v0", entry_point=f"fluxgate.gym:{_class.__name__}")
