"""Replays: the bytes of the command line, tables, errors, progress, interrupts, observers (RES-19, RES-24 to RES-27,
RES-31)."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import fluxgate as fg


def without_seconds(document):
    for run in document["runs"]:
        del run["seconds"], run["policy_seconds"]
    return document


@pytest.mark.parametrize("policy", ["builtin-fcfs", "easy", "hybrid:depth=4", "formula:score=f4"])
def test_res_25_the_same_bytes_as_the_command_line(cli, file, tmp_path, policy):
    schedule = tmp_path / "schedule.csv"
    told = cli("replay", file, "--policy", policy, "--json", "--quiet", "--schedule", schedule,
               "--policies", os.environ.get("FLUXGATE_POLICIES") or fg.policy.folder())
    result = fg.replay(fg.Log.read(file), policy)
    assert result[0].schedule == schedule.read_bytes()
    # Also the spelling of every number: the texts are compared line by line.
    lines = [[line for line in text.splitlines() if "seconds\":" not in line or "core_seconds" in line]
             for text in (told.decode(), result.json())]
    assert lines[0] == lines[1]
    assert without_seconds(json.loads(told)) == without_seconds(json.loads(result.json()))


def test_res_25_selection_and_rules_are_those_of_the_command_line(cli, file):
    told = cli("replay", file, "--policy", "formula:score=f1", "--json", "--quiet", "--semantics", "rlscheduler",
               "--rules", "backfill=submission", "--load", "1.5", "--estimates", "exact", "--uncounted", "16",
               "--machine", "16x8", "--policies", os.environ.get("FLUXGATE_POLICIES") or fg.policy.folder())
    log = fg.Log.read(file, semantics="rlscheduler").load(1.5).estimates("exact")
    result = fg.replay(log, ("formula", {"score": "f1"}), machine="16x8", semantics="rlscheduler",
                       rules="backfill=submission", uncounted=16)
    assert without_seconds(json.loads(told)) == without_seconds(json.loads(result.json()))


def test_several_policies_do_not_depend_on_threads(log):
    asked = ["easy", "sjf", ("hybrid", {"depth": 2}), "easy"]
    one, two = (fg.replay(log, asked, threads=threads) for threads in (1, 3))
    assert one.labels == ["easy", "sjf", "hybrid:depth=2", "easy#2"]
    assert [run.schedule for run in one] == [run.schedule for run in two]
    assert one["easy"].schedule == one["easy#2"].schedule != one["sjf"].schedule
    with pytest.raises(KeyError, match="runs are easy"):
        one["fcfs"]


def test_jobs_and_metrics_are_of_one_schedule(log):
    run = fg.replay(log, "easy", timeline=True)[0]
    jobs = run.jobs
    assert len(jobs) == run.metrics["jobs"] == len(log)
    assert np.isclose(jobs["wait"].mean(), run.metrics["wait_mean_s"])
    assert np.isclose(jobs["bsld"].mean(), run.metrics["bounded_slowdown_10_mean"])
    assert np.isclose(run.values("bsld", tau=60).mean(), run.metrics["bounded_slowdown_60_mean"])
    assert np.array_equal(jobs["response"], jobs["end"] - jobs["submit"])
    assert (jobs["start"][1:] >= jobs["start"][:-1]).all()
    assert jobs["backfilled"].mean() == run.metrics["backfilled_share"]
    assert isinstance(jobs["ranks"][0], str)
    timeline = run.timeline
    spans = np.diff(timeline["time"])
    area = (timeline["used"][:-1] * spans).sum()
    # After the last change nothing runs or waits but the last jobs.
    assert area <= run.metrics["core_seconds"] and area > 0.9 * run.metrics["core_seconds"]
    assert timeline["queued"].max() <= run._run.peak_waiting


def test_res_24_tables_are_arrow_streams(log):
    pyarrow = pytest.importorskip("pyarrow")
    jobs = fg.replay(log, "easy")[0].jobs
    table = pyarrow.table(jobs)
    table.validate(full=True)
    assert table.column_names == list(jobs.columns) and table.num_rows == len(jobs)
    for name in jobs.columns:
        assert table[name].to_pylist() == list(np.asarray(jobs[name]).tolist()), name
    # Numbers are where they were.
    assert table["wait"].chunk(0).buffers()[1].address == jobs["wait"].ctypes.data
    wait = jobs["wait"].copy()
    del jobs
    assert np.array_equal(table["wait"].to_numpy(), wait), "the arrays live as long as the stream's consumer"
    for _ in range(3):
        pyarrow.table(fg.Table({"a": np.arange(3), "b": ["x", "", "z"], "c": np.array([True, False, True])}))
    assert pyarrow.table(fg.Table({"a": np.zeros(0)})).num_rows == 0
    fg.Table({"a": np.zeros(2)}).__arrow_c_stream__()  # one that is not read


def test_res_24_tables_as_frames_and_html(log):
    pandas = pytest.importorskip("pandas")
    result = fg.replay(log, ["easy", "sjf"])
    frame = result["easy"].jobs.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["wait"].mean() == result["easy"].jobs["wait"].mean()
    summary = result.summary()
    assert summary["policy"] == ["easy", "sjf"] and summary["jobs"].tolist() == [len(log)] * 2
    assert "<td>easy</td>" in result._repr_html_()
    # Too wide for a line: a line for each figure.
    assert repr(summary).splitlines()[0].split() == ["policy", "easy", "sjf"]
    assert repr(result["easy"].jobs).splitlines()[0].split()[:2] == ["job", "user"]
    assert list(fg.Table({"a": np.array([1, 2])}).rows()) == [{"a": 1}, {"a": 2}]
    assert "<b>" not in fg.Table({"<b>": ["<i>"]})._repr_html_()
    names = set(fg.definitions()["name"])
    assert "utilisation" in names


def test_res_26_the_interpreter_is_free_during_a_replay(log):
    seen = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            seen.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()

    def seen_inside():
        begin = time.monotonic()
        fg.replay(log, ["conservative", "conservative"])
        end = time.monotonic()
        return sum(begin < moment < end for moment in seen)

    # A replay that held the interpreter would let the thread go on at its begin and at its end. On a busy machine the thread
    # may miss a short replay.
    free = any(seen_inside() >= 3 for _ in range(500))
    stop.set()
    thread.join()
    assert free


def test_res_26_progress_is_told(log):
    told = []
    fg.replay(log, ["easy", "sjf"], progress=lambda rows, jobs: told.append((rows, jobs)))
    assert told[-1] == ([("easy", len(log)), ("sjf", len(log))], len(log))

    def refuse(rows, jobs):
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        fg.replay(log, "easy", progress=refuse)


def test_res_19_an_observer_is_told_the_lines_of_a_hook(cli, file, tmp_path):
    lines = tmp_path / "events.jsonl"
    cli("replay", file, "--policy", "easy", "--quiet", "--hook", lines,
        "--policies", os.environ.get("FLUXGATE_POLICIES") or fg.policy.folder())
    log, told = fg.Log.read(file), []
    result = fg.replay(log, "easy", observer=lambda run, event: told.append((run, event)))
    assert [event for _, event in told] == [json.loads(line) for line in lines.read_text().splitlines()]
    assert {run for run, _ in told} == {"easy"}
    starts = {event["job"]: event["time"] for _, event in told if event["event"] == "start"}
    jobs = result[0].jobs
    assert starts == dict(zip(jobs["job"].tolist(), jobs["start"].tolist()))
    assert all(isinstance(event["time"], float) for _, event in told if "time" in event)
    # It changes nothing, and each run has its own events in their order.
    assert result[0].schedule == fg.replay(log, "easy")[0].schedule
    both = []
    fg.replay(log, ["easy", "sjf"], threads=2, observer=lambda run, event: both.append((run, event)))
    assert [event for run, event in both if run == "easy"] == [event for _, event in told]
    assert {run for run, _ in both} == {"easy", "sjf"}


def test_res_19_what_an_observer_raises_ends_the_replay(log):
    told = []

    def refuse(run, event):
        told.append(event)
        if event["event"] == "start":
            raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        fg.replay(log, "easy", observer=refuse)
    assert [event["event"] for event in told].count("start") == 1


def test_res_26_progress_is_shown(capfd, log):
    fg.replay(log, "easy", progress=True)
    assert str(len(log)) in capfd.readouterr().err


INTERRUPTED = """
import os, signal, sys, threading, time
import fluxgate as fg

# A background process of a shell inherits that it ignores the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
log = fg.Log.lublin99(200_000, cores=128, seed=1).load(3.0)
class Slow(fg.Policy):
    def keys(self, now, jobs):
        return jobs.submit
policy = {policy}
at = []
def progress(rows, jobs):
    if not at:
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
try:
    fg.replay(log, policy, progress=progress)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - at[0])
"""


@pytest.mark.parametrize("policy", ["'conservative'", "Slow"])
def test_res_26_an_interrupt_ends_a_replay(policy):
    program = textwrap.dedent(INTERRUPTED).format(policy=policy)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.startswith("interrupted"), done.stdout + done.stderr


def test_res_27_what_is_not_accepted_is_told(log, tmp_path):
    with pytest.raises(fg.PolicyError, match="known are builtin-fcfs, .*easy"):
        fg.replay(log, "easiest")
    with pytest.raises(fg.PolicyError, match="depht"):
        fg.replay(log, ("hybrid", {"depht": 4}))
    broken = tmp_path / "x.wasm"
    broken.write_bytes(b"no component")
    with pytest.raises(fg.PolicyError, match="not a WebAssembly component") as caught:
        fg.replay(log, broken)
    assert caught.value.policy == str(broken)
    with pytest.raises(fg.OptionError, match="semantics"):
        fg.replay(log, "easy", semantics="slurm")
    with pytest.raises(fg.OptionError, match="rules"):
        fg.replay(log, "easy", rules="commit=perhaps")
    with pytest.raises(fg.OptionError, match="no jobs to replay"):
        fg.replay(log[0:0], "easy")
    with pytest.raises(fg.OptionError, match="uncounted"):
        fg.replay(log, "easy", uncounted=len(log))
    with pytest.raises(fg.OptionError, match="watts"):
        fg.replay(log, "easy", watts=(300, 100))
    with pytest.raises(fg.OptionError, match="places=True"):
        fg.replay(log, "easy", places=False)[0].schedule
    for kind in (fg.PolicyError, fg.OptionError, fg.LogError, fg.MachineError, fg.ScheduleError):
        assert issubclass(kind, fg.Error)


def test_res_27_a_breach_names_policy_pass_and_kind(log):
    with pytest.raises(fg.PolicyError) as caught:
        fg.replay(log, ("broken", {"mode": "trap"}))
    error = caught.value
    assert error.policy.startswith("broken") and error.kind == "trap" and error.pass_number >= 1


def test_jobs_that_cannot_run_are_listed():
    log = fg.Log.from_frame({"submit": [0, 1], "run": [5, 5], "cores": [1, 9]}, cores=8)
    run = fg.replay(log, "easy")[0]
    assert [job for job, _ in run.denied] == [2] and run.metrics["denied"] == 1
    assert run.never_started == []


def test_energy_outages_and_reservations_are_read(log, tmp_path):
    outages = tmp_path / "outages.csv"
    first = log.frame()["submit"][0]
    outages.write_text(f"time,ranks,change\n{first + 10},0-9,drain\n")
    run = fg.replay(log, "easy", watts=(100, 350), outages=outages)[0]
    assert run.metrics["energy_kwh"] > 0
    assert run.schedule != fg.replay(log, "easy")[0].schedule
    with pytest.raises(fg.Error, match="none.csv"):
        fg.replay(log, "easy", outages=tmp_path / "none.csv")


def test_reports_are_those_of_the_command_line(cli, file, tmp_path):
    result = fg.replay(fg.Log.read(file, limit=200), ["easy", "sjf"])
    result.report(tmp_path / "a")
    cli("replay", file, "--limit", 200, "--policy", "easy", "--policy", "sjf", "--quiet", "--report", tmp_path / "b",
        "--policies", os.environ.get("FLUXGATE_POLICIES") or fg.policy.folder())
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in ("metrics.csv", "classes.csv", "curves.csv", "jobs.easy.jsonl", "jobs.sjf.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_res_31_a_comparison_is_that_of_the_report(log, tmp_path):
    result = fg.replay(log, ["easy", "sjf"])
    result.report(tmp_path)
    runs = json.loads((tmp_path / "report.json").read_text())["runs"]
    for metric, key in (("bsld", "bounded_slowdown_more"), ("wait", "wait_s_more")):
        found, told = result.compare("sjf", "easy", metric=metric), runs[1]["comparison"][key]
        assert (found.difference, found.low, found.high) == (told["mean"], told["low"], told["high"])
    assert found.weeks >= 5 and 0 <= found.weeks_won <= found.weeks
    assert "95 % interval" in str(found)
    same = result.compare("easy", "easy")
    assert (same.difference, same.low, same.high, same.weeks_won) == (0, 0, 0, 0) and not same.decided


def test_res_31_runs_of_different_jobs_are_not_compared(log):
    def of(policy, **more):
        return fg.replay(log, policy, **more)

    result = of(["easy", KeepsWideJobs])
    with pytest.raises(fg.CompareError, match="only under easy, such as job"):
        result.compare("keeps-wide-jobs", "easy")
    few = fg.replay(fg.Log.lublin99(20, cores=8), ["easy", "sjf"]).compare("sjf", "easy")
    assert np.isnan(few.low) and not few.decided and "too few weeks" in str(few)


class KeepsWideJobs(fg.Policy):
    """Starts no job of more than half of the machine."""

    def run(self, p):
        for c in p.candidates():
            if c.cores <= 32:
                p.start(c)
