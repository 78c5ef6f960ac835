"""Sweeps and searches (RES-33, RES-34)."""

import json

import numpy as np
import pytest

import fluxgate as fg


class Power(fg.Policy):
    settings = {"power": 1.0}

    def keys(self, now, jobs):
        return jobs.duration * jobs.cores**self.power


def small(seed):
    return fg.Log.lublin99(300, cores=32, seed=seed).load(2.0)


def test_res_33_every_combination_has_a_row():
    table = fg.sweep(small, "hybrid", {"depth": [1, 4]}, seeds=[1, 2])
    assert table["policy"] == ["hybrid"] * 4
    assert table["setting_depth"] == ["1", "1", "4", "4"] and table["seed"].tolist() == [1, 2, 1, 2]
    alone = fg.replay(small(2), ("hybrid", {"depth": 4}))[0].metrics
    assert table["wait_mean_s"][3] == alone["wait_mean_s"]
    parts = fg.sweep({"first": small(1)[:150], "second": small(1)[150:]}, ["easy", Power])
    assert parts["part"] == ["first", "second", "first", "second"]
    assert parts["policy"] == ["easy", "easy", "power", "power"]


def test_res_33_a_sweep_that_was_killed_goes_on(tmp_path):
    out, computed = tmp_path / "sweep.jsonl", []

    def stop(done, all_of_them):
        computed.append(done)
        if done == 3:
            raise KeyboardInterrupt

    space = {"power": [0.0, 0.5, 1.0, 1.5]}
    with pytest.raises(KeyboardInterrupt):
        fg.sweep(small, Power, space, seeds=[1, 2], out=out, threads=1, progress=stop)
    lines = out.read_text().splitlines()
    assert len(lines) == 3
    # Killed in the middle of a line.
    out.write_text("\n".join(lines) + "\n" + lines[0][:40])
    again = []
    table = fg.sweep(small, Power, space, seeds=[1, 2], out=out, threads=2, progress=lambda done, _: again.append(done))
    assert again[0] == 3 and again[-1] == 8 and len(table) == 8
    assert len(out.read_text().splitlines()) == 8
    whole = fg.sweep(small, Power, space, seeds=[1, 2])
    assert np.array_equal(table["wait_mean_s"], whole["wait_mean_s"])
    third = []
    fg.sweep(small, Power, space, seeds=[1, 2], out=out, progress=lambda done, _: third.append(done))
    assert third == [8], "nothing is computed again"
    out.write_text("{}\n")
    with pytest.raises(fg.OptionError, match="line 1: not a result of a sweep"):
        fg.sweep(small, Power, space, out=out)


def test_res_33_results_of_other_code_or_logs_are_not_taken(tmp_path):
    out = tmp_path / "sweep.jsonl"
    counts = []

    def count(done, _):
        counts.append(done)

    fg.sweep(small(1), Power, out=out)
    fg.sweep(small(2), Power, out=out, progress=count)

    class Other(fg.Policy):
        name = "power"

        def keys(self, now, jobs):
            return -jobs.duration

    fg.sweep(small(1), Other, out=out, progress=count)
    fg.sweep(small(1), Power, out=out, machine="64", progress=count)
    assert counts == [0, 1] * 3
    assert len(out.read_text().splitlines()) == 4
    assert all(json.loads(line)["metrics"]["jobs"] == 300 for line in out.read_text().splitlines())


def test_res_15_a_sweep_tells_logs_apart_that_differ_in_groups(tmp_path):
    frame = {"submit": [0, 10], "run": [100, 50], "cores": [1, 1]}
    groups = [{}, {"group": [6, 7]}, {"group": [7, 6]}, {"group": [6, 7]}]
    out, lines = tmp_path / "sweep.jsonl", []
    for group in groups:
        fg.sweep(fg.Log.from_frame({**frame, **group}, cores=2), "easy", out=out)
        lines.append(len(out.read_text().splitlines()))
    assert lines == [1, 2, 3, 3], "a component may ask for the groups of jobs"


def test_res_33_designs_follow_from_their_seed():
    space = {"a": [1, 2, 3], "b": ["x", "y"]}
    assert len(fg.grid(space)) == 6 and fg.grid(space)[1] == {"a": 1, "b": "y"}
    drawn = fg.design(space, 4, seed=3)
    assert drawn == fg.design(space, 4, seed=3) and len(drawn) == 4
    assert all(each in fg.grid(space) for each in drawn) and len({str(each) for each in drawn}) == 4
    assert sorted(map(str, fg.design(space, 99))) == sorted(map(str, fg.grid(space)))


@pytest.mark.parametrize("method", ["random", "halving"])
def test_res_34_a_search_tells_the_held_out_part(method):
    log = small(1)
    found = fg.optimise(log, Power, {"power": (-2.0, 2.0)}, trials=9, method=method, seed=4,
                        objective=["bounded_slowdown_10_mean", "wait_max_s"])
    again = fg.optimise(log, Power, {"power": (-2.0, 2.0)}, trials=9, method=method, seed=4,
                        objective=["bounded_slowdown_10_mean", "wait_max_s"], threads=1)
    assert found.best == again.best and list(found.trials.rows()) == list(again.trials.rows())
    last = [row for row in found.trials.rows() if row["round"] == found.trials["round"].max()]
    least = min(last, key=lambda row: row["bounded_slowdown_10_mean"])
    assert least["setting_power"] == found.best["power"] and least["jobs"] == 210
    assert [len([row for row in found.trials.rows() if row["round"] == n]) for n in (1, 2, 3)] == (
        [9, 0, 0] if method == "random" else [9, 3, 1])
    assert found.held_out["settings"] == ["default", "best"]
    held = fg.replay(log[210:], (Power, found.best))[0].metrics
    assert found.held_out["wait_max_s"][1] == held["wait_max_s"]
    assert set(found.trials["seed"].tolist()) == {4}
    rows = list(found.pareto.rows())
    for row in rows:
        assert not any(other["bounded_slowdown_10_mean"] < row["bounded_slowdown_10_mean"]
                       and other["wait_max_s"] < row["wait_max_s"] for other in last)
    assert found.result.compare(*reversed(found.result.labels)).metric == "bsld"


def test_res_34_a_search_without_a_held_out_part_is_refused():
    for share in (0, 1):
        with pytest.raises(fg.OptionError, match="between 0 and 1"):
            fg.optimise(small(1), Power, {"power": [1.0]}, held_out=share)
    with pytest.raises(fg.OptionError, match="too short"):
        fg.optimise(small(1)[:5], Power, {"power": [1.0]})
    with pytest.raises(fg.OptionError, match="objective: found 'beauty', accepted are jobs"):
        fg.optimise(small(1), Power, {"power": [1.0]}, trials=1, objective="beauty")


def test_res_34_optuna_searches_with_a_held_out_part():
    try:
        import optuna
    except ImportError:
        print("skipped: optuna is not installed")
        pytest.skip("optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    log = small(1)
    objective = fg.Objective(log, Power, {"power": (-2.0, 2.0)}, seed=4)
    found = []
    for _ in range(2):
        study = objective.study()
        study.optimize(objective, n_trials=6)
        found.append(objective.found(study))
    first, again = found
    assert first.best == again.best and list(first.trials.rows()) == list(again.trials.rows())
    least = min(first.trials.rows(), key=lambda row: row["bounded_slowdown_10_mean"])
    assert least["setting_power"] == first.best["power"] == study.best_params["power"]
    run = fg.replay(log[:210], (Power, first.best))[0]
    assert least["bounded_slowdown_10_mean"] == run.metrics["bounded_slowdown_10_mean"] and least["jobs"] == 210
    held = fg.replay(log[210:], (Power, first.best))[0].metrics
    assert first.held_out["bounded_slowdown_10_mean"][1] == held["bounded_slowdown_10_mean"]
    assert set(first.trials["seed"].tolist()) == {4} and len(first.trials) == 6
    several = fg.Objective(log, Power, {"power": [-1.0, 0.0, 1.0]}, objective=["wait_mean_s", "wait_max_s"])
    study = several.study()
    study.optimize(several, n_trials=4)
    assert 1 <= len(several.found(study).pareto) <= 4
    with pytest.raises(fg.OptionError, match="found no trial that was completed"):
        several.found(several.study())
    with pytest.raises(fg.OptionError, match="between 0 and 1"):
        fg.Objective(log, Power, {"power": [1.0]}, held_out=1)
