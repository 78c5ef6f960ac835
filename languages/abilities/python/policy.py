"""The policy `abilities` in Python; the rules are in ../README.md."""

import math
from collections.abc import Callable, Sequence

import fluxgate
from componentize_py_types import Err
from fluxgate import attributes, flow, groups, many, resources
from wit_world import exports
from wit_world.exports.ranking import Node
from wit_world.imports import pass_
from wit_world.imports.types import ConfigKey, ConfigKind, Description, Refusal

# Candidates of one question.
MOST = 256


def start_or_reserve() -> None:
    while True:
        rows = many.next_rows(MOST)
        answers = many.start_or_reserve([row.candidate for row in rows])
        if len(answers) < len(rows) or len(rows) < MOST:
            return


def backfill() -> None:
    many.backfill(1, 64, holds=True)


kept = groups.Kept()


def by_group() -> None:
    behind(groups.heads(fitting=True))


def by_kept() -> None:
    behind(kept.heads())


def behind(heads: Sequence[groups.Row]) -> None:
    for head in heads:
        if fluxgate.start(head.candidate) == Refusal.LIMIT:
            return
        for row in groups.after(head.candidate, fitting=True):
            if fluxgate.start(row.candidate) == Refusal.LIMIT:
                return


def below_half() -> None:
    for job in fluxgate.candidates():
        if leaves_half(job) and fluxgate.start(job) is None:
            continue
        after = last_end()
        earliest = flow.earliest_after(job, after)
        start, refusal = flow.reserve_after(job, after)
        # The host reserves what it said would be the earliest start.
        assert refusal is not None or start == earliest
        return


def leaves_half(job: int) -> bool:
    """True if this start leaves half of each kind free."""
    (amounts,) = flow.amounts([job])
    return all(kind.free - amount >= kind.total // 2 for kind, amount in zip(flow.kinds(), amounts, strict=True))


def last_end() -> float:
    """The last end of what is held of any kind."""
    spans = [span for kind in range(len(flow.kinds())) for span in flow.spans(kind)]
    held = [span.end for span in spans if span.start == -math.inf and math.isfinite(span.end)]
    return max(held, default=pass_.now())


def in_turns(turns: int, of: Callable[[Sequence[int]], list[int]]) -> None:
    """Starts what fits of the jobs in each turn; `of` has the turn of each."""
    for turn in range(turns):
        pass_.rewind()
        jobs = [row.candidate for row in many.rows(MOST)]
        for job, its_turn in zip(jobs, of(jobs), strict=True):
            if its_turn == turn:
                fluxgate.start(job)


def asking_first() -> None:
    if resources.kinds():
        in_turns(2, lambda jobs: [not any(amounts) for amounts in resources.amounts(jobs)])
    else:
        in_turns(1, lambda jobs: [0 for _ in jobs])


def group_first() -> None:
    """The jobs of group 7, then those whose memory is known, then the others."""

    def turns(jobs: Sequence[int]) -> list[int]:
        known = zip(attributes.texts(attributes.GROUP, jobs), attributes.numbers(attributes.MEMORY, jobs), strict=True)
        return [0 if group == "7" else 2 if math.isnan(memory) else 1 for group, memory in known]

    in_turns(3, turns)


RULES = {
    "many": start_or_reserve,
    "backfill": backfill,
    "groups": by_group,
    "changed": by_kept,
    "flow": below_half,
    "resources": asking_first,
    "attributes": group_first,
}

chosen = start_or_reserve


class Policy(exports.Policy):
    def describe(self) -> Description:
        key = ConfigKey("use", ConfigKind.TEXT, "many", "many, backfill, groups, changed, flow, resources or attributes")
        summary = "what the contract gained after its first release, in Python"
        return Description(name="abilities-python", version="0.1.0", summary=summary, config=[key])

    def configure(self, values: list[tuple[str, str]]) -> None:
        global chosen
        try:
            chosen = RULES[dict(values)["use"]]
        except KeyError:
            raise Err("`use` must be many, backfill, groups, changed, flow, resources or attributes")


class Scheduling(exports.Scheduling):
    def run(self) -> None:
        chosen()


class Ranking(exports.Ranking):
    def scores(self, nodes: list[Node]) -> list[float]:
        return [score(node) for node in nodes]


def score(node: Node) -> float:
    cores = sum(hold.amount for hold in node.holds if hold.kind == "core")
    return -float(cores) + (1e9 if "last" in node.properties else 0.0)
