"""What the host calls. The rule itself is in rule.py, which any Python can test.

For a pass of one's own: `class Scheduling(exports.Scheduling)` with `def run(self)`, `import fluxgate`, and the line of its
ability in wit/world.wit.
"""

import rule
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports.types import ConfigKey, ConfigKind, Description, JobColumns


class Policy(exports.Policy):
    def describe(self) -> Description:
        return Description(
            name="my-policy",
            version="0.1.0",
            summary="Short jobs first, but no job waits for ever",
            config=[
                ConfigKey(
                    "weight",
                    ConfigKind.FLOAT,
                    "1",
                    "seconds of waiting that one second of duration is worth, 0 or more",
                )
            ],
        )

    def configure(self, values: list[tuple[str, str]]) -> None:
        try:
            rule.configure(dict(values))
        except ValueError as why:
            raise Err(str(why))


class Ordering(exports.Ordering):
    def keys(self, now: float, jobs: JobColumns) -> list[float]:
        return list(map(rule.key, jobs.t_submit, jobs.duration))
