"""What goes wrong: every exception that this package raises on its own is an :class:`Error`.

Each says what was found and what is accepted, and has the place as attributes, where there is one.
"""

from __future__ import annotations

from typing import Optional, Sequence

__all__ = [
    "CompareError",
    "Error",
    "LogError",
    "MachineError",
    "MissingExtra",
    "OptionError",
    "PolicyError",
    "ReplayError",
    "ScheduleError",
]


class Error(Exception):
    """Any error of this package."""


class OptionError(Error, ValueError):
    """A parameter has a value that is not accepted."""


class LogError(Error):
    """A log, or a frame that should become one, cannot be read."""

    def __init__(
        self,
        message: str,
        *,
        file: Optional[str] = None,
        line: Optional[int] = None,
        field: Optional[int] = None,
        found: Optional[str] = None,
        column: Optional[str] = None,
        row: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        #: The file.
        self.file = file
        #: Its line, from 1.
        self.line = line
        #: The field of a line of the Standard Workload Format, from 1.
        self.field = field
        #: The offending text.
        self.found = found
        #: The column of a frame.
        self.column = column
        #: Its row, from 0.
        self.row = row


class MachineError(Error):
    """A machine cannot be made."""


class PolicyError(Error):
    """A policy cannot be loaded, or broke the contract in a run."""

    def __init__(
        self,
        message: str,
        *,
        policy: Optional[str] = None,
        kind: Optional[str] = None,
        during: Optional[str] = None,
        pass_number: Optional[int] = None,
        time: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        #: Name or file of the policy.
        self.policy = policy
        #: ``trap``, ``fuel``, ``deadline``, ``memory``, ``bad-decision``, ``bad-value``, ``bound`` or ``refused``.
        self.kind = kind
        #: The call in which it happened.
        self.during = during
        #: The pass of the run, from 1; 0 before the first.
        self.pass_number = pass_number
        #: The time of the run, seconds.
        self.time = time


class ReplayError(Error):
    """A replay cannot be made."""

    def __init__(self, message: str, *, policy: Optional[str] = None) -> None:
        super().__init__(message)
        #: The run.
        self.policy = policy


class ScheduleError(Error):
    """The independent judge found a schedule invalid: a fault of the simulator."""

    def __init__(self, message: str, *, policy: Optional[str] = None, violations: Sequence[str] = ()) -> None:
        super().__init__(message)
        #: The run.
        self.policy = policy
        #: What the judge found.
        self.violations = tuple(violations)


class CompareError(Error):
    """Two runs cannot be compared."""


class MissingExtra(Error, ImportError):
    """Something needs a package that is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'fluxgate[{extra}]'")
        #: The extra.
        self.extra = extra
