"""Sweeps: one policy or several with many settings, on parts of a log and for seeds, on all cores, resumed after a kill."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _fluxgate
from .errors import OptionError
from .log import Log
from .machine import Machine
from .policy import _value, folder, name_of
from .replaying import replay, undrawn
from .table import Table

#: Most replays of one sweep.
REPLAYS_MAX = 100_000

#: Logs of a sweep: one, several by name, or made from a seed.
Logs = Union[Log, Mapping[str, Log], Callable[[int], Log]]


#: What is called while a replay runs, and a replay that is planned: what it is about, and what gives its metrics.
Told = Callable[[Any, int], Any]
Planned = Tuple[Dict[str, Any], Callable[[Told], Dict[str, float]]]


class _Stopped(Exception):
    """Another replay failed, or the caller was interrupted."""


def grid(space: Mapping[str, Sequence[Any]]) -> List[Dict[str, Any]]:
    """Every combination of the values of settings, in order."""
    return [dict(zip(space, values)) for values in itertools.product(*space.values())]


def design(space: Mapping[str, Sequence[Any]], samples: int, *, seed: int = 1) -> List[Dict[str, Any]]:
    """This many different combinations, drawn with a seed; all of them if there are no more."""
    total = 1
    for values in space.values():
        total *= len(values)
    chosen = sorted(random.Random(seed).sample(range(total), min(samples, total)))
    found = []
    for number in chosen:
        settings = {}
        for name, values in reversed(list(space.items())):
            number, place = divmod(number, len(values))
            settings[name] = values[place]
        found.append(dict(reversed(list(settings.items()))))
    return found


def sweep(
    logs: Logs,
    policies: Union[Any, Sequence[Any]],
    space: Optional[Mapping[str, Sequence[Any]]] = None,
    *,
    samples: Optional[int] = None,
    seeds: Sequence[int] = (1,),
    machine: Union[Machine, str, None] = None,
    estimates: Optional[str] = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    threads: Optional[int] = None,
    progress: Optional[Callable[[int, int], Any]] = None,
    **options: Any,
) -> Table:
    """Replay every combination of policies, settings, parts and seeds; a row for each, in that order.

    Parameters
    ----------
    logs
        A log, a mapping of names to logs, or a function that makes one from a seed.
    policies, space
        A policy or a list of policies, and the values of each setting. With `samples` only so many combinations, drawn
        with the first seed.
    seeds
        Of `estimates` (``"perturbed:F"``) and of a function that makes logs.
    out
        A file of JSON lines to which each result is written as it comes. Results that are in it already are not computed
        again, so a sweep that was killed goes on; what they are about (components, logs, settings) is part of each line.
    threads
        Replays side by side; by default as many as there are cores.
    progress
        Is called with the number of results and of all replays.
    options
        Of :func:`replay`: semantics, rules, uncounted, check, ...
    """
    undrawn("a sweep", options)
    combinations = [{}] if space is None else grid(space) if samples is None else design(space, samples, seed=seeds[0])
    several = policies if isinstance(policies, list) else [policies]
    plan: List[Planned] = []
    for policy in several:
        for settings in combinations:
            for part, make in _parts(logs, seeds, estimates):
                plan.append(_entry(policy, settings, part, make, machine, options))
    if len(plan) > REPLAYS_MAX:
        raise OptionError(f"a sweep of {len(plan)} replays, accepted are at most {REPLAYS_MAX}")
    known = _known(out)
    keys = [json.dumps(entry, sort_keys=True) for entry, _ in plan]
    missing = [number for number, key in enumerate(keys) if key not in known]
    for number, metrics in _computed(plan, missing, threads, progress):
        known[keys[number]] = metrics
        if out is not None:
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps({"replay": plan[number][0], "metrics": metrics}) + "\n")
    rows = []
    for (entry, _), key in zip(plan, keys):
        shown = {"policy": entry["policy"], "part": entry["part"], "seed": entry["seed"]}
        rows.append({**shown, **{f"setting_{name}": value for name, value in entry["settings"].items()}, **known[key]})
    return Table.of_rows(rows)


def _parts(logs: Logs, seeds: Sequence[int], estimates: Optional[str]) -> List[Tuple[Tuple[str, int], Callable[[], Log]]]:
    """Name and seed of each part, and what makes it."""
    found: List[Tuple[Tuple[str, int], Callable[[], Log]]] = []
    named: Mapping[str, Any] = logs if isinstance(logs, Mapping) else {"": logs}
    for name, log in named.items():
        for seed in seeds:
            found.append(((name, seed), _cached(log, seed, estimates)))
    return found


def _cached(log: Any, seed: int, estimates: Optional[str]) -> Callable[[], Log]:
    made: List[Log] = []
    lock = threading.Lock()

    def make() -> Log:
        with lock:
            if not made:
                part: Log = log if isinstance(log, Log) else log(seed)
                made.append(part if estimates is None else part.estimates(estimates, seed=seed))
            return made[0]

    return make


def _fingerprint(log: Log) -> str:
    hashed = hashlib.sha256()
    for columns in (log.frame(), Table(log._jobs.links())):
        for name in columns.columns:
            hashed.update(columns[name].tobytes())
    hashed.update((log._jobs.attributes_sha256() or "").encode())
    return hashed.hexdigest()[:32]


def _identity(policy: Any) -> Tuple[str, str, Any]:
    """The name of a policy, what identifies its code, and the policy itself for a replay with settings."""
    if isinstance(policy, type):
        code = "".join(_code(policy, method) for method in ("keys", "run", "observe", "save", "restore"))
        return name_of(policy), hashlib.sha256(code.encode()).hexdigest()[:32], policy
    if isinstance(policy, (str, os.PathLike)):
        name = os.fspath(policy)
        plain = _fluxgate.named(name)[0]
        path = plain if "/" in plain or plain.endswith(".wasm") else str(folder() / f"{plain}.wasm")
        digest = _fluxgate.component(path).digest if Path(path).exists() else ""
        return name, digest, policy
    raise OptionError(f"a sweep: found a policy of type {type(policy).__name__}, accepted are names, paths and classes")


def _code(policy: Any, method: str) -> str:
    code = getattr(getattr(policy, method, None), "__code__", None)
    return "" if code is None else f"{method}{code.co_code.hex()}{code.co_consts!r}{code.co_names!r}"


def _entry(
    policy: Any,
    settings: Mapping[str, Any],
    part: Tuple[str, int],
    make: Callable[[], Log],
    machine: Union[Machine, str, None],
    options: Mapping[str, Any],
) -> Planned:
    name, digest, kind = _identity(policy)
    log = make()
    entry: Dict[str, Any] = {
        "policy": name,
        "code": digest,
        "settings": {key: _value(value) for key, value in settings.items()},
        "part": part[0],
        "seed": part[1],
        "jobs": _fingerprint(log),
        "machine": repr(machine if machine is not None else log.machine),
        "options": {key: repr(value) for key, value in sorted(options.items())},
        "version": _fluxgate.__version__,
    }

    def run(told: Told) -> Dict[str, float]:
        asked = (kind, dict(settings)) if settings else kind
        more = {"places": False, **options}
        metrics: Dict[str, float] = replay(log, [asked], machine=machine, threads=1, progress=told, **more)[0].metrics
        return metrics

    return entry, run


def _known(out: Union[str, "os.PathLike[str]", None]) -> Dict[str, Dict[str, float]]:
    """Results of a file; a last line that was cut off is removed."""
    if out is None or not os.path.exists(out):
        return {}
    with open(out, "rb") as file:
        text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    found = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            read = json.loads(line)
            found[json.dumps(read["replay"], sort_keys=True)] = dict(read["metrics"])
        except (ValueError, KeyError, TypeError):
            raise OptionError(f"{os.fspath(out)}: line {number}: not a result of a sweep") from None
    if len(whole) < len(text):
        os.truncate(out, len(whole))
    return found


def _computed(
    plan: Sequence[Planned],
    missing: Sequence[int],
    threads: Optional[int],
    progress: Optional[Callable[[int, int], Any]],
) -> Any:
    """Results as they come: the number of each in the plan, and its metrics."""
    stop = threading.Event()

    def told(_rows: Any, _jobs: int) -> None:
        if stop.is_set():
            raise _Stopped

    done = len(plan) - len(missing)
    pool = ThreadPoolExecutor(max_workers=max(1, threads or os.cpu_count() or 1))
    running: Dict["Future[Dict[str, float]]", int] = {}
    try:
        for number in missing:
            running[pool.submit(plan[number][1], told)] = number
        if progress is not None:
            progress(done, len(plan))
        while running:
            ready, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(ready, key=lambda future: running[future]):
                number = running.pop(future)
                yield number, future.result()
                done += 1
                if progress is not None:
                    progress(done, len(plan))
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
