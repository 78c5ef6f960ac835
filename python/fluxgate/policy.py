"""Policies: of this package by name, components by path, and classes in Python."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Tuple, Type, Union

from . import _fluxgate
from .errors import OptionError, PolicyError

#: The policy that needs no component: strict order of submission, no backfilling.
BUILTIN = "builtin-fcfs"


class Policy:
    """A policy in Python, for trying out: the same abilities as a component's, under the same gate.

    A subclass has one of these methods, or more::

        def keys(self, now, jobs): ...    # a key for each row of jobs; smaller keys first
        def run(self, p): ...             # a pass
        def observe(self, now, events): ...
        def save(self): ...               # its state as bytes, for a successor
        def restore(self, policy, version, state): ...    # the state that `policy` saved; False refuses it

    `state_version` is the number of the form of the state, 1 unless the class has another. Without ``run`` jobs start in order until the first that does not fit; without ``keys`` the order is that of
    submission. `settings` are the settings with their defaults; each becomes an attribute. A Python policy cannot go to
    production: ``fluxgate policy new --lang python`` is the way there.
    """

    #: Its name in tables; by default the name of the class.
    name: ClassVar[Optional[str]] = None
    #: Settings and their defaults.
    settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **settings: Any) -> None:
        for key in settings:
            if key not in self.settings:
                known = ", ".join(self.settings) or "none"
                raise OptionError(f"policy {name_of(type(self))}: no setting {key}; settings are {known}")
        for key, value in {**self.settings, **settings}.items():
            setattr(self, key, value)


#: A policy: its name, also with settings (``"hybrid:depth=4"``), a path of a component, a class or an object of one; or a
#: pair of such and its settings.
PolicyLike = Union[str, "os.PathLike[str]", Type[Any], Policy, Tuple[Any, Mapping[str, Any]]]


def name_of(kind: Type[Any]) -> str:
    """The name of a class of policies: its own, or that of the class, as ``shortest-first`` for ShortestFirst."""
    own = getattr(kind, "name", None)
    return own if isinstance(own, str) else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()


def folder() -> Path:
    """Where policies are looked up by name: $FLUXGATE_POLICIES, or those of this package."""
    chosen = os.environ.get("FLUXGATE_POLICIES")
    return Path(chosen) if chosen else Path(__file__).parent / "policies"


def policies() -> Dict[str, str]:
    """The policies that can be named, each with what it does."""
    known = {BUILTIN: "strict order of submission, no backfilling"}
    for path in sorted(folder().glob("*.wasm")):
        known[path.stem] = _fluxgate.component(str(path)).summary
    return known


def settings_of(policy: str) -> Dict[str, Tuple[str, str]]:
    """The settings of a policy: the default of each, and what it means."""
    if policy == BUILTIN:
        return {}
    return {key: (usual, meaning) for key, usual, meaning in _fluxgate.component(_path(policy)).settings}


def _path(name: str) -> str:
    if "/" in name or name.endswith(".wasm"):
        return name
    path = folder() / f"{name}.wasm"
    if not path.exists():
        known = ", ".join([BUILTIN] + sorted(each.stem for each in folder().glob("*.wasm")))
        raise PolicyError(
            f"no policy {name!r}: known are {known}; a path of a .wasm file or a class is accepted too", policy=name
        )
    return str(path)


def _value(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def ask(policy: Any) -> Tuple[str, Optional[_fluxgate.Component], Optional[object], List[Tuple[str, str]]]:
    """A policy as the module takes it: name, component or object, settings."""
    settings: Dict[str, Any] = {}
    if isinstance(policy, tuple):
        if len(policy) != 2 or not isinstance(policy[1], Mapping):
            raise OptionError(f"policy {policy!r}: found a tuple, accepted is (policy, {{setting: value}})")
        policy, given = policy
        settings = dict(given)
    if isinstance(policy, type):
        return name_of(policy), None, policy(**settings), [(key, _value(value)) for key, value in settings.items()]
    if not isinstance(policy, (str, os.PathLike)):
        if settings:
            raise OptionError(f"policy {policy!r}: an object has its settings already")
        if not callable(getattr(policy, "run", None)) and not callable(getattr(policy, "keys", None)):
            accepted = "a name, a path, a class or an object with a method run or keys"
            raise OptionError(f"policy: found {type(policy).__name__}, accepted is {accepted}")
        return name_of(type(policy)), None, policy, []
    text = os.fspath(policy)
    name, own = _fluxgate.named(text)
    pairs = [_pair(text, each) for each in own] + [(key, _value(value)) for key, value in settings.items()]
    if name == BUILTIN:
        return name, None, None, pairs
    return name, _fluxgate.component(_path(name)), None, pairs


def _pair(text: str, setting: str) -> Tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not key or not equals:
        raise OptionError(f"policy {text}: found the setting {setting!r}, accepted is KEY=VALUE")
    return key, value
