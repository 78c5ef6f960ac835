"""Progress of a replay on standard error: by tqdm where it is installed, else as text."""

from __future__ import annotations

import sys
from typing import Any, Callable, List, Optional, Tuple, Union

#: What is called with the progress: (run, jobs that ended) of each run, and the number of jobs of each.
Report = Callable[[List[Tuple[str, int]], int], Any]


class Shown:
    """Shows progress until it is closed."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._known = False
        self._last = ""

    def __call__(self, rows: List[Tuple[str, int]], jobs: int) -> None:
        done, total = sum(count for _, count in rows), jobs * len(rows)
        if not self._known:
            self._known = True
            try:
                from tqdm.auto import tqdm
            except ImportError:
                pass
            else:
                self._bar = tqdm(total=total, unit="job", leave=False)
        if self._bar is not None:
            self._bar.n = done
            self._bar.refresh()
            return
        text = f"{done} of {total} jobs"
        if text != self._last:
            self._last = text
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove what is shown."""
        if self._bar is not None:
            self._bar.close()
        elif self._last:
            print("\r" + " " * len(self._last) + "\r", end="", file=sys.stderr, flush=True)


def reporter(progress: Union[bool, Report, None]) -> Tuple[Optional[Report], Callable[[], None]]:
    """What is called with the progress, and what is called at the end."""
    if progress is True:
        shown = Shown()
        return shown, shown.close
    return (progress if callable(progress) else None), lambda: None
