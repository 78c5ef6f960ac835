"""Jobs that follow others, draws and failures: the bytes of the command line (RES-13, RES-14, RES-16, RES-17)."""

import json
import os
import random

import numpy as np
import pytest

import fluxgate as fg


def without_seconds(text):
    document = json.loads(text)
    for run in document["runs"]:
        del run["seconds"], run["policy_seconds"]
    return document


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A log of three weeks on 8 nodes of 4 cores, with waits, users, and jobs that follow others."""
    draws = random.Random(7)
    lines = ["; UnixStartTime: 1000000000", "; MaxNodes: 8", "; MaxProcs: 32"]
    submit = 0
    for job in range(1, 901):
        submit += draws.randrange(0, 4000)
        run, cores, user = draws.randrange(1, 20000), draws.choice([1, 2, 4, 8, 16]), draws.randrange(1, 9)
        after, think = (draws.randrange(max(1, job - 5), job), draws.randrange(0, 3000)) if job > 1 and job % 3 == 0 else (-1, -1)
        fields = [job, submit, draws.randrange(0, 900), run, cores, -1, -1, cores, run + draws.randrange(0, 5000), -1, 1, user]
        lines.append(" ".join(map(str, [*fields, -1, -1, -1, -1, after, think])))
    path = tmp_path_factory.mktemp("logs") / "following.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def outages(tmp_path_factory):
    path = tmp_path_factory.mktemp("outages") / "outages.csv"
    rows = [f"{1000000000 + 50_000 * at},{at % 8},{what}" for at in range(1, 24) for what in ["fail"]]
    rows += [f"{1000000000 + 50_000 * at + 20_000},{at % 8},return" for at in range(1, 24)]
    rows.sort(key=lambda row: int(row.split(",")[0]))
    path.write_text("time,ranks,change\n" + "\n".join(rows) + "\n")
    return path


CASES = {
    "dependencies": {"dependencies": "respect"},
    "feedback": {"feedback": "sessions"},
    "gap": {"feedback": "sessions:300"},
    "end": {},
    "requeue": {"on_failure": "requeue"},
    "checkpoint": {"on_failure": "checkpoint:600"},
    "both": {"on_failure": "requeue", "dependencies": "respect"},
}


@pytest.mark.parametrize("case", CASES)
def test_res_13_14_17_the_same_bytes_as_the_command_line(cli, file, outages, tmp_path, case):
    options = dict(CASES[case])
    if case in ("end", "requeue", "checkpoint", "both"):
        options["outages"] = outages
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    schedule = tmp_path / "schedule.csv"
    told = cli("replay", file, "--policy", "easy", "--json", "--quiet", "--schedule", schedule, *flags,
               "--policies", os.environ.get("FLUXGATE_POLICIES") or fg.policy.folder())
    log = fg.Log.read(file)
    result = fg.replay(log, "easy", **options)
    assert result[0].schedule == schedule.read_bytes()
    assert without_seconds(result.json()) == without_seconds(told)
    assert result[0].schedule != fg.replay(log, "easy")[0].schedule, "the option changes the schedule"
    assert (result.following is None) == (case in ("end", "requeue", "checkpoint"))


@pytest.mark.parametrize("what", ["weeks", "users"])
def test_res_16_draws_are_those_of_the_command_line(cli, file, tmp_path, what):
    schedule = tmp_path / "s.csv"
    told = cli("replay", file, "--policy", "easy", "--policy", "sjf", "--json", "--quiet", "--schedule", schedule,
               "--resample", what, "--draws", 3, "--seed", 5,
               "--policies", os.environ.get("FLUXGATE_POLICIES") or fg.policy.folder())
    result = fg.replay(fg.Log.read(file), ["easy", "sjf"], resample=what, draws=3, seed=5)
    assert without_seconds(result.json()) == without_seconds(told)
    assert result.labels == [f"{policy} draw-{n}" for policy in ("easy", "sjf") for n in (1, 2, 3)]
    for run in result:
        assert run.schedule == (tmp_path / f"s.{run.policy}.{run.part}.csv").read_bytes(), run.label
    over = result.over_draws()
    waits = [run.metrics["wait_mean_s"] for run in result][:3]
    row = next(row for row in over.rows() if row["policy"] == "easy" and row["metric"] == "wait_mean_s")
    assert (row["mean"], row["min"], row["max"]) == (pytest.approx(np.mean(waits)), min(waits), max(waits))
    assert row["min"] <= row["low"] <= row["high"] <= row["max"] and row["min"] < row["max"]
    other = fg.replay(fg.Log.read(file), "easy", resample=what, draws=1, seed=6)
    assert other[0].schedule != result[0].schedule
    # The draws of two policies are the same jobs.
    assert result.compare("sjf draw-2", "easy draw-2").weeks >= 1


class Shortest(fg.Policy):
    """Counts its calls, so that one that was used twice would tell."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.calls = 0

    def keys(self, now, jobs):
        self.calls += 1
        return jobs.duration + 0.0 * self.calls


def test_res_16_each_draw_has_a_policy_of_its_own(file):
    log = fg.Log.read(file)
    drawn = fg.replay(log, [Shortest, "easy"], resample="weeks", draws=2)
    assert drawn.labels == ["shortest draw-1", "shortest draw-2", "easy draw-1", "easy draw-2"]
    with pytest.raises(fg.OptionError, match="found an object of Shortest, accepted with resample are names"):
        fg.replay(log, Shortest(), resample="weeks")


def test_res_14_columns_know_who_follows_whom(file):
    frame = {"submit": [0, 10, 400], "run": [100, 50, 10], "wait": [0, 0, 0], "cores": [1, 1, 1], "user": [1, 1, 1]}
    log = fg.Log.from_frame(frame, cores=1)
    # The third came 300 s after the end of both; on one core the second ends at 150, so the third comes at 450.
    plain, users = fg.replay(log, "easy")[0].jobs, fg.replay(log, "easy", feedback="sessions")[0].jobs
    assert plain["submit"].tolist() == [0, 10, 400] and users["submit"].tolist() == [0, 10, 450]


def test_res_13_what_is_not_accepted_is_told(file, tmp_path):
    log = fg.Log.read(file)
    cases = [
        ({"dependencies": "yes"}, "dependencies: found `yes`, accepted is ignore or respect"),
        ({"feedback": "batches"}, "feedback: found `batches`, accepted is sessions or sessions:GAP"),
        ({"on_failure": "retry"}, "on_failure: found `retry`, accepted is end, requeue or checkpoint:SECONDS"),
        ({"resample": "days"}, "resample: found `days`, accepted is weeks or users"),
        ({"resample": "weeks", "draws": 0}, "draws: found 0, accepted is 1 to 65535"),
        ({"resample": "weeks", "draws": 70_000}, "draws: found 70000, accepted is 1 to 65535"),
        ({"resample": "weeks", "feedback": "sessions"}, "resample: accepted without dependencies and feedback"),
        ({"dependencies": "respect", "feedback": "sessions"}, "feedback: accepted without dependencies"),
        ({"dependencies": "respect", "uncounted": 3}, "uncounted: accepted without dependencies and feedback"),
    ]
    for options, message in cases:
        with pytest.raises(fg.OptionError) as raised:
            fg.replay(log, "easy", **options)
        assert str(raised.value).startswith(message), str(raised.value)
    drawn = fg.replay(log, "easy", resample="weeks", draws=1)
    for refused, message in (
        (lambda: drawn.report(tmp_path / "report"), "a report: found runs of draws"),
        (lambda: fg.replay(log, "easy").over_draws(), "no workload was drawn"),
        (lambda: fg.same("easy", "sjf", log, resample="weeks"), "resample: found in same"),
        (lambda: fg.sweep(log, "easy", resample="weeks"), "resample: found in a sweep"),
    ):
        with pytest.raises(fg.OptionError, match=message):
            refused()


def test_res_13_a_sweep_tells_logs_apart_that_differ_in_who_follows_whom(tmp_path):
    frame = {"submit": [0, 10], "run": [100, 50], "cores": [1, 1]}
    logs = {
        "free": fg.Log.from_frame(frame, cores=2),
        "follows": fg.Log.from_frame({**frame, "after": [None, 1], "think": [None, 5]}, cores=2),
    }
    out = tmp_path / "sweep.jsonl"
    ends = [fg.sweep(logs[name], "easy", dependencies="respect", out=out)["utilisation"][0] for name in logs]
    assert ends[0] != ends[1]
