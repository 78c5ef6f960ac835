"""Machines: in words, from a file, or from the header of a log."""

from __future__ import annotations

import os
from typing import Union

from . import _fluxgate


class Machine:
    """A machine of nodes with cores and gpus. It does not change."""

    def __init__(self, words: Union[str, "os.PathLike[str]"]) -> None:
        """``"256"`` (nodes of one core), ``"128x8"`` (nodes of cores), ``"128x8+4gpu"``, or a file with R, JGF or TOML."""
        self._machine = _fluxgate.Machine.of_words(os.fspath(words))

    @classmethod
    def _of(cls, inner: _fluxgate.Machine) -> "Machine":
        machine = cls.__new__(cls)
        machine._machine = inner
        return machine

    @classmethod
    def nodes(cls, count: int, *, cores: int = 1, gpus: int = 0) -> "Machine":
        """This many equal nodes."""
        return cls(f"{count}x{cores}" + (f"+{gpus}gpu" if gpus else ""))

    @classmethod
    def cores(cls, count: int) -> "Machine":
        """This many nodes of one core."""
        return cls(str(count))

    @classmethod
    def read(cls, path: Union[str, "os.PathLike[str]"]) -> "Machine":
        """A file with R (RFC 20 JSON), JGF, or TOML with ``[[resource.config]]``."""
        return cls._of(_fluxgate.Machine.read(os.fspath(path)))

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return self._machine.node_count

    @property
    def core_count(self) -> int:
        """Number of cores."""
        return self._machine.core_count

    @property
    def gpu_count(self) -> int:
        """Number of gpus."""
        return self._machine.gpu_count

    def __deepcopy__(self, memo: object) -> "Machine":
        """Itself: it does not change."""
        return self

    def __repr__(self) -> str:
        gpus = f", {self.gpu_count} gpus" if self.gpu_count else ""
        return f"<Machine: {self.node_count} nodes, {self.core_count} cores{gpus}>"
