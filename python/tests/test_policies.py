"""Policies in Python, under the gate of the engine (RES-27, RES-29)."""

import numpy as np
import pytest

import fluxgate as fg


class Easy(fg.Policy):
    """EASY: the first job that does not fit gets a reservation, others pass it if they do not delay it."""

    def run(self, p):
        reserved = False
        for c in p.candidates():
            if not p.start(c) and not reserved:
                p.reserve(c)
                reserved = True


class ShortestFirst(fg.Policy):
    settings = {"power": 1.0}

    def keys(self, now, jobs):
        return jobs.duration**self.power


def test_res_29_a_python_policy_makes_the_schedule_of_the_component(log):
    result = fg.replay(log, ["easy", Easy])
    assert result.labels == ["easy", "easy#2"]
    assert result[0].schedule == result[1].schedule


def test_res_29_keys_are_the_order(log):
    result = fg.replay(log, [ShortestFirst, (ShortestFirst, {"power": 0.0}), "builtin-fcfs"])
    assert result.labels == ["shortest-first", "shortest-first:power=0.0", "builtin-fcfs"]
    assert result[1].schedule == result[2].schedule, "equal keys leave the order of submission"
    assert result[0].metrics["wait_mean_s"] < result[2].metrics["wait_mean_s"]
    assert result[0].policy_seconds > 0


def test_res_29_a_twin_of_sjf_in_python(log):
    class Twin(fg.Policy):
        def keys(self, now, jobs):
            return jobs.duration

    result = fg.replay(log, ["sjf", Twin])
    assert result["sjf"].schedule == result["twin"].schedule


def test_res_29_columns_are_arrays_that_cannot_be_written_to(log):
    seen = []

    class Looks(fg.Policy):
        def keys(self, now, jobs):
            columns = (jobs.id, jobs.submit, jobs.duration, jobs.priority, jobs.user, jobs.queue, jobs.nodes,
                       jobs.cores, jobs.gpus)
            seen.append((now, len(jobs), [(column.dtype.str, len(column), column.flags.writeable) for column in columns]))
            with pytest.raises(ValueError, match="read-only"):
                jobs.cores[0] = 1
            return np.zeros(len(jobs), dtype=np.float32)

    fg.replay(log[:50], Looks)
    assert sum(rows for _, rows, _ in seen) == 50
    assert {kind for kind, _, _ in seen[0][2]} == {"<u8", "<f8", "<u4"}
    assert all(length == rows and not writeable for _, rows, columns in seen for _, length, writeable in columns)


def test_res_29_events_are_observed(log):
    class Watches(fg.Policy):
        def __init__(self):
            self.events = []

        def observe(self, now, events):
            self.events += [events[i] for i in range(len(events))]

        def keys(self, now, jobs):
            return jobs.submit

    policy = Watches()
    part = log[:200]
    run = fg.replay(part, policy)[0]
    started = {job: moment for kind, job, moment, _ in policy.events if kind == "started"}
    assert started == dict(zip(run.jobs["job"].tolist(), run.jobs["start"].tolist()))
    assert sum(kind == "pending" for kind, *_ in policy.events) == 200


def test_a_pass_answers_questions(log):
    asked = []

    class Asks(fg.Policy):
        def run(self, p):
            assert p.machine == (64, 64, 0) and 0 <= p.free_cores <= 64 and p.queue == ""
            before = p.free_cores
            for c in p.candidates(3):
                fits, earliest = p.fits(c), p.earliest(c)
                assert (earliest == p.now) == fits
                if p.start(c):
                    assert p.free_cores == before - c.cores and p.refusal is None
                    before = p.free_cores
                else:
                    assert p.refusal == "busy"
                    asked.append(p.reserve(c))
                    assert asked[-1] == earliest
                    break
            p.rewind()
            again = p.next()
            assert again is None or "Candidate(id=" in repr(again)
            assert p.next_fitting() is None or p.waiting > 0
            p.wake_at(p.now + 3600)

    fg.replay(log[:300], Asks)
    assert len(asked) > 10


def test_res_27_an_exception_of_a_policy_has_its_cause_and_place(log):
    class Fails(fg.Policy):
        passes = 0

        def run(self, p):
            self.passes += 1
            if self.passes == 7:
                raise ZeroDivisionError("seven")
            for c in p.candidates():
                p.start(c)

    with pytest.raises(fg.PolicyError, match="seven") as caught:
        fg.replay(log, ["easy", Fails])
    error = caught.value
    assert (error.policy, error.kind, error.during, error.pass_number) == ("fails", "trap", "run", 7)
    assert isinstance(error.__cause__, ZeroDivisionError) and error.time > 0


def test_the_gate_holds_for_python_policies(log):
    kept = []

    class Twice(fg.Policy):
        def run(self, p):
            c = p.next()
            if c is not None and p.start(c):
                p.start(c)

    class Keeps(fg.Policy):
        def run(self, p):
            kept.append((p, p.next()))

    class Foreign(fg.Policy):
        def run(self, p):
            for _, c in kept:
                if c is not None:
                    p.start(c)

    class Swallows(fg.Policy):
        def run(self, p):
            c = p.next()
            if c is not None and p.start(c):
                try:
                    p.start(c)
                except fg.PolicyError:
                    pass

    for policy in (Twice, Swallows):
        with pytest.raises(fg.PolicyError, match="already started") as caught:
            fg.replay(log[:50], policy)
        assert caught.value.pass_number == 1
    fg.replay(log[:5], Keeps)
    with pytest.raises(RuntimeError, match="the pass is over"):
        kept[0][0].free_cores
    with pytest.raises(fg.PolicyError, match="was not offered in this pass"):
        fg.replay(log[:50], Foreign)


@pytest.mark.parametrize("keys, what", [
    (lambda jobs: [float("nan")] * len(jobs), "NaN"),
    (lambda jobs: [1.0], "keys for"),
    (lambda jobs: "no", "str|float"),
])
def test_bad_keys_are_breaches(keys, what):
    class Bad(fg.Policy):
        def keys(self, now, jobs):
            return keys(jobs)

    log = fg.Log.from_frame({"submit": [0, 0], "run": [5, 5], "cores": [1, 1]}, cores=8)
    with pytest.raises(fg.PolicyError, match=what):
        fg.replay(log, Bad)


def test_interrupts_of_a_policy_go_through(log):
    class Stops(fg.Policy):
        def keys(self, now, jobs):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fg.replay(log, Stops)


def test_settings_of_a_class_are_checked(log):
    with pytest.raises(fg.OptionError, match="no setting pover; settings are power"):
        fg.replay(log, (ShortestFirst, {"pover": 2}))
    with pytest.raises(fg.OptionError, match="accepted is a name"):
        fg.replay(log, 5)

    class Nothing(fg.Policy):
        pass

    with pytest.raises(fg.PolicyError, match="neither a method keys nor a method run"):
        fg.replay(log, Nothing)


def test_policies_are_listed_with_their_settings():
    known = fg.policies()
    assert {"builtin-fcfs", "easy", "hybrid", "formula"} <= set(known) and all(known.values())
    assert "depth" in fg.settings_of("hybrid") and fg.settings_of("builtin-fcfs") == {}


def test_rules_of_simulators_take_the_order_of_a_python_policy(log):
    class F1(fg.Policy):
        def keys(self, now, jobs):
            return np.log10(jobs.duration) * jobs.cores + 870 * np.log10(np.maximum(jobs.submit, 0.1))

    part = log[:400]
    rules = "backfill=submission"
    result = fg.replay(part, [F1, "builtin-fcfs"], semantics="rlscheduler", rules=rules)
    assert result[0].schedule != result[1].schedule
    with pytest.raises(fg.PolicyError, match="gives no order"):
        fg.replay(part, Easy, semantics="rlscheduler")


def test_res_30_a_port_is_compared_with_its_model(log):
    assert fg.same("easy", Easy, log) is None

    class Almost(Easy):
        """Forgets the reservation of jobs of the whole machine."""

        def run(self, p):
            reserved = False
            for c in p.candidates():
                if not p.start(c) and not reserved:
                    if c.cores < 64:
                        p.reserve(c)
                    reserved = True

    found = fg.same("easy", Almost, log)
    result = fg.replay(log, ["easy", Almost])
    starts = [dict(zip(run.jobs["job"].tolist(), run.jobs["start"].tolist())) for run in result]
    differ = [min(starts[0][job], starts[1][job]) for job in starts[0] if starts[0][job] != starts[1][job]]
    assert found.time == min(differ) and found.started_a != found.started_b
    rows = list(found.candidates.rows())
    assert rows and {row["job"] for row in rows if row["a"]} == set(found.started_a)
    assert all(row["submit"] <= found.time <= starts[0][row["job"]] for row in rows)
    assert "waiting jobs easy started" in str(found) and (found.a, found.b) == ("easy", "almost")
