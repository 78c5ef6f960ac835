"""States of Python policies across a swap, and the built-in policy after a breach (RES-27, RES-29)."""

import json

import pytest

import fluxgate as fg


class Counting(fg.Policy):
    """Shortest first for users who ran less; what they ran is its state."""

    settings = {"takes": True}
    state_version = 3

    def __init__(self, **settings):
        super().__init__(**settings)
        self.ended = {}
        self.of = {}

    def keys(self, now, jobs):
        self.of.update(zip(jobs.id.tolist(), jobs.user.tolist()))
        return jobs.submit

    def run(self, p):
        waiting = sorted(p.candidates(), key=lambda c: (self.ended.get(c.user, 0), c.submit, c.id))
        for c in waiting:
            p.start(c)

    def observe(self, now, events):
        for kind, job, _, _ in events:
            if kind == "ended":
                user = self.of.get(job, 0)
                self.ended[user] = self.ended.get(user, 0) + 1

    def save(self):
        return json.dumps([sorted(self.ended.items()), sorted(self.of.items())]).encode()

    def restore(self, policy, version, state):
        assert isinstance(state, bytes)
        if not self.takes or (policy, version) != ("counting", 3):
            return False
        self.ended, self.of = (dict(map(tuple, part)) for part in json.loads(state))
        return True


def middle(log):
    return float(log.frame()["submit"][len(log) // 2])


def test_res_29_a_state_survives_a_swap(log):
    whole = fg.replay(log, Counting)[0]
    swapped = fg.replay(log, Counting, swap=[(middle(log), Counting)])[0]
    assert [(each.predecessor, each.successor, each.state) for each in swapped.takeovers] == [("counting", "counting", True)]
    assert swapped.takeovers[0].time >= middle(log)
    assert swapped.schedule == whole.schedule, "with its state the successor decides as the one before would have"
    cold = fg.replay(log, Counting, swap=[(middle(log), (Counting, {"takes": False}))])[0]
    assert [each.state for each in cold.takeovers] == [False] and cold.schedule != whole.schedule
    assert fg.same(Counting, "easy", log, swap=[(middle(log), Counting)]) is not None


def test_res_29_policies_take_over_from_each_other(log):
    run = fg.replay(log, "easy", swap=[(middle(log), "sjf")])[0]
    first, last = fg.replay(log, ["easy", "sjf"])
    starts = [dict(zip(each.jobs["job"].tolist(), each.jobs["start"].tolist())) for each in (run, first, last)]
    before = [job for job, start in starts[1].items() if start < middle(log)]
    assert before and all(starts[0][job] == starts[1][job] for job in before)
    assert starts[0] != starts[1] and starts[0] != starts[2] and run.label == "easy"
    # A component takes over the usage of another.
    usage = fg.replay(log, "multifactor", swap=[(middle(log), "multifactor")])[0]
    assert usage.takeovers[0].state and usage.schedule == fg.replay(log, "multifactor")[0].schedule


class HalfState(fg.Policy):
    def keys(self, now, jobs):
        return jobs.submit

    def save(self):
        return b""


class WrongState(Counting):
    def save(self):
        return "text"


class LargeState(Counting):
    def save(self):
        return bytes(16 * 1024 * 1024 + 1)


def test_res_29_what_is_no_state_is_told(log):
    with pytest.raises(fg.PolicyError, match="half-state: it has one of the methods save and restore"):
        fg.replay(log, HalfState)
    for kind, message in ((WrongState, "accepted is bytes"), (LargeState, "state-bytes exceeded")):
        with pytest.raises(fg.PolicyError, match=message) as raised:
            fg.replay(log, kind, swap=[(middle(log), Counting)])
        assert raised.value.during == "state.save"
    with pytest.raises(fg.OptionError, match="times in ascending order"):
        fg.replay(log, "easy", swap=[(5, "sjf"), (4, "easy")])
    with pytest.raises(fg.OptionError, match="found an object of Counting for 2 runs"):
        fg.replay(log, ["easy", "sjf"], swap=[(5, Counting())])
    with pytest.raises(fg.PolicyError, match="swap: found builtin-fcfs"):
        fg.replay(log, "easy", swap=[(5, "builtin-fcfs")])


class Breaks(fg.Policy):
    """Raises in its third pass."""

    settings = {"error": ZeroDivisionError}

    def __init__(self, **settings):
        super().__init__(**settings)
        self.passes = 0

    def run(self, p):
        self.passes += 1
        if self.passes == 3:
            raise self.error("enough")
        for c in p.candidates():
            if not p.start(c):
                break


def test_res_27_after_a_breach_the_built_in_policy_decides(log):
    policy = Breaks()
    run = fg.replay(log, policy, on_breach="fallback")[0]
    assert policy.passes == 3 and len(run.breaches) == 1
    breach = run.breaches[0]
    assert (breach.policy, breach.kind) == ("breaks", "trap") and "ZeroDivisionError: enough" in breach.message
    assert run.metrics["jobs"] == len(log) and run.label == "breaks"
    # It starts jobs in order, and so does the built-in policy.
    assert run.schedule == fg.replay(log, "builtin-fcfs")[0].schedule
    component, sound = fg.replay(log, [("broken", {"mode": "trap"}), "easy"], on_breach="fallback")
    assert [each.kind for each in component.breaches] == ["trap"] and sound.breaches == []
    # A successor is asked after it.
    both = fg.replay(log, Breaks, on_breach="fallback", swap=[(middle(log), "sjf")])[0]
    assert len(both.breaches) == 1 and both.takeovers[0].successor == "sjf"
    assert both.schedule != run.schedule


def test_res_27_an_interrupt_is_no_breach(log):
    with pytest.raises(KeyboardInterrupt):
        fg.replay(log, (Breaks, {"error": KeyboardInterrupt}), on_breach="fallback")
    with pytest.raises(fg.PolicyError, match="ZeroDivisionError: enough"):
        fg.replay(log, Breaks)
    with pytest.raises(fg.OptionError, match="on_breach: found `stop`, accepted is error or fallback"):
        fg.replay(log, "easy", on_breach="stop")
