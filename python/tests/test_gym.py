"""Training environments: spaces, masks, rewards, determinism, and the published sequences."""

import hashlib
import json
import os
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import fluxgate as fg
import fluxgate.gym as gym
from fluxgate.weights import export, logits, read_safetensors

ENVIRONMENTS = {
    "Pick": gym.Pick,
    "Backfill": gym.Backfill,
    "Inspect": gym.Inspect,
    "Reserve": gym.Reserve,
    "Weights": gym.Weights,
}
#: Environments in which an action is a number.
NUMBERED = [name for name in ENVIRONMENTS if name != "Weights"]


@pytest.fixture(scope="module")
def made():
    """A log for which the machine is too small at times."""
    return fg.Log.lublin99(1500, cores=64, seed=3)


def play(env, choose, **options):
    """An episode; the sum of rewards and the last info."""
    observation, info = env.reset(options=options or None)
    total = 0.0
    while True:
        observation, reward, over, cut, info = env.step(choose(observation, info.get("action_mask")))
        assert not cut
        total += reward
        if over:
            return total, info


def drawn(seed):
    """Allowed actions from a seed."""
    random = np.random.default_rng(seed)
    return lambda _, mask: random.random(4) if mask is None else random.choice(np.flatnonzero(mask))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_res_36_environments_pass_the_check_of_gymnasium(name, made):
    check_env(gymnasium.make(f"fluxgate/{name}-v0", log=made, length=60).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_res_36_environments_pass_the_check_of_stable_baselines(name, made):
    try:
        from stable_baselines3.common.env_checker import check_env as check
    except ImportError:
        print("skipped: stable-baselines3 is not installed")
        pytest.skip("stable-baselines3 is not installed")
    check(gymnasium.make(f"fluxgate/{name}-v0", log=made, length=60).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", NUMBERED)
def test_res_36_masks_agree(name, made):
    env = gymnasium.make(f"fluxgate/{name}-v0", log=made, length=60)
    _, info = env.reset(seed=1)
    while True:
        mask = env.unwrapped.action_masks()
        assert (mask == info["action_mask"]).all() and mask.any() and len(mask) == env.action_space.n
        _, _, over, _, info = env.step(int(np.flatnonzero(mask)[-1]))
        if over:
            break
    assert not env.unwrapped.action_masks().any()


def test_res_36_a_job_is_started_reserved_or_left():
    # One job holds two of four cores until 100; the next needs all; others need one, for 50 s and for 400 s.
    frame = {
        "submit": [0, 1, 2, 3],
        "run": [100, 50, 50, 400],
        "request": [100, 50, 50, 400],
        "cores": [2, 4, 1, 1],
    }
    log = fg.Log.from_frame(frame, cores=4)
    env = gym.Reserve(log, length=4, horizon=400, slots=4, window=3, metric="wait")
    shown, info = env.reset()
    # The first starts without a question: on an idle machine it cannot be left.
    assert info["time"] == 1 and info["action_mask"].tolist() == [False, True, True]
    assert env.jobs()["id"].tolist() == [2] and shown["rows"][1:].sum() == 0
    assert shown["plan"].tolist() == [0.5, 1, 1, 1]
    shown, _, _, _, info = env.step(1)
    # Behind its reservation from 100 to 150 the third may start, as it ends before; it is in the plan.
    assert info["time"] == 2 and env.jobs()["id"].tolist() == [2, 3]
    shown, _, _, _, info = env.step(1)
    assert info["action_mask"].tolist() == [True, False, True] and env.jobs()["id"].tolist() == [3]
    assert shown["plan"].tolist() == [0.5, 0, 1, 1]
    shown, _, _, _, info = env.step(0)
    # The fourth would delay it, and a pass has one reservation: nothing is asked, it waits for the reserved job.
    assert info["time"] == 3 and env.jobs()["id"].tolist() == [2, 4]
    shown, _, over, _, info = env.step(1)
    while not over:
        shown, _, over, _, info = env.step(int(info["action_mask"].argmax()))
    starts = {1: 0, 2: 100, 3: 2, 4: 150}
    waits = [starts[job] - submit for job, submit in zip((1, 2, 3, 4), frame["submit"])]
    assert info["metrics"]["wait_mean_s"] == np.mean(waits)
    # Left instead of reserved, the second waits for the fourth too.
    env.reset()
    over = False
    while not over:
        ids, mask = env.jobs()["id"], env.action_masks()
        _, _, over, _, info = env.step(2 if ids[0] == 2 and mask[2] else int(mask.argmax()))
    assert info["metrics"]["wait_max_s"] == 403 - 1
    without = gym.Reserve(log, length=4, reservations=0, ask_single=True)
    _, info = without.reset()
    assert info["action_mask"].tolist() == [True, False, False], "with ask_single the only action is asked for"


def test_res_36_reserving_the_first_is_easy(made):
    """Whatever fits starts, and what does not is reserved: the schedule of the policy easy."""
    env = gym.Reserve(made, length=300, window=512)
    _, info = play(env, lambda _, mask: int(mask.argmax()), start=200)
    expected = next(iter(fg.replay(made[200:500], "easy"))).metrics
    assert info["metrics"] == {name: expected[name] for name in info["metrics"]}
    # With many reservations: conservative.
    env = gym.Reserve(made, length=300, window=512, reservations=512)
    _, info = play(env, lambda _, mask: int(mask.argmax()), start=200)
    expected = next(iter(fg.replay(made[200:500], ("hybrid", {"depth": 512})))).metrics
    assert info["metrics"] == {name: expected[name] for name in info["metrics"]}
    few = gym.Reserve(made, length=300, window=2)
    _, info = play(few, lambda _, mask: int(mask.argmax()), start=200)
    assert info["decisions_beyond_rows"] > 0


def users_of(log):
    """The log with seven users."""
    columns = log.frame()
    return fg.Log.from_frame(
        {
            "id": columns["job"],
            "submit": columns["submit"],
            "run": columns["run"],
            "request": columns["limit"],
            "cores": columns["cores"],
            "user": [1 + job % 7 for job in columns["job"]],
        },
        cores=64,
    )


def test_res_36_constant_weights_are_the_policy_multifactor(made):
    log = users_of(made)
    settings = {"max-age": "6h", "half-life": "1d"}
    env = gym.Weights(log, length=400, period=3600, multifactor=settings)
    seen = set()
    for weights in ([1, 1, 0, 1], [0.25, 1, 0.5, 0], [0, 0, 1, 0]):
        _, info = play(env, lambda *_: weights, start=300)
        keys = {name: weight for name, weight in zip(gym.Weights.WEIGHTS, weights)}
        expected = next(iter(fg.replay(log[300:700], ("multifactor", {**settings, **keys})))).metrics
        assert info["metrics"] == {name: expected[name] for name in info["metrics"]}, weights
        assert len(env.actions) > 5 and info["invalid_actions"] == 0
        seen.add(info["metrics"]["wait_mean_s"])
    assert len(seen) == 3, "weights tell"
    # Other weights in turn are another schedule than any of them.
    turn = iter(range(1000))
    _, info = play(env, lambda *_: [[1, 1, 0, 1], [0, 0, 1, 0]][next(turn) % 2], start=300)
    assert info["metrics"]["wait_mean_s"] not in seen


def test_res_36_weights_are_asked_for_once_a_period(made):
    env = gym.Weights(made, length=300, period=7200)
    shown, info = env.reset(options={"start": 0})
    names = [each["name"] for each in gym.aggregates()]
    times, over = [info["time"]], False
    assert shown[names.index("free")] == 1 and shown[names.index("waiting")] == np.float32(1 / 33)
    while not over:
        shown, _, over, _, info = env.step([2.0, -1.0, 0.5, 0.5])
        assert env.observation_space.contains(shown)
        times.append(info["time"])
    assert (np.diff(times[:-1]) >= 7200).all() and len(times) > 3
    assert info["invalid_actions"] == len(env.actions) and env.actions[0] == [1.0, 0.0, 0.5, 0.5]
    assert "action_mask" not in info and len(env.action_masks()) == 0
    strict = gym.Weights(made, length=300, on_invalid="error")
    strict.reset()
    for wrong in ([2.0, 0, 0, 0], [0, 0, 0], [float("nan"), 0, 0, 0]):
        with pytest.raises(fg.OptionError, match="accepted is numbers from 0 to 1 for weight-age, "):
            strict.step(wrong)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_res_38_an_episode_is_replayed_from_its_actions(name, made):
    log = users_of(made)
    first, second = (ENVIRONMENTS[name](log, length=300) for _ in range(2))
    total, info = play(first, drawn(5), start=100)
    again, same = play(second, drawn(5), start=100)
    assert total == again and info["metrics"] == same["metrics"]
    assert second.replay(first.actions, start=100) == info["metrics"]
    other, changed = play(second, drawn(6), start=100)
    assert changed["metrics"] != info["metrics"]
    with pytest.raises(fg.OptionError, match="1 actions, after which the episode is not over"):
        second.replay(first.actions[:1], start=100)


def test_res_37_heuristics_played_are_those_replayed(made):
    """Each formula, picked row by row, gives every figure of the replay under the rules of RLScheduler."""
    keys = {
        "fcfs": lambda jobs: jobs["submit"],
        "sjf": lambda jobs: jobs["duration"],
        "smallest": lambda jobs: jobs["cores"],
    }
    for backfill, rules in (("none", ""), ("frozen", "backfill=submission")):
        env = gym.Pick(made, preset="rlscheduler", length=200, window=200, rows="first", backfill=backfill)
        for name, key in keys.items():
            _, info = env.reset(options={"start": 300})
            over = False
            while not over:
                _, reward, over, _, info = env.step(int(np.argmin(key(env.jobs()))))
            run = fg.replay(
                made[300:500], f"formula:score={name},origin=epoch", semantics="rlscheduler", rules=rules
            )
            expected = next(iter(run)).metrics
            assert info["metrics"] == {name: expected[name] for name in info["metrics"]}, (backfill, name)
            assert reward == pytest.approx(-expected["bounded_slowdown_10_mean"], rel=1e-12)


def test_res_37_observations_of_the_preset_by_hand():
    frame = {
        "submit": [0, 0, 0, 100],
        "run": [1000, 50, 60, 10],
        "request": [2000, 500, 250, 100],
        "cores": [3, 2, 1, 4],
    }
    log = fg.Log.from_frame(frame, cores=4, semantics="rlscheduler")
    env = gym.Pick(log, preset="rlscheduler", length=4)
    below, above, padding = np.float32(1 - 1e-5), np.float32(1e-5), [0, 1, 1, 1, 1, 1, 1, 0]
    # Each is alone when it is submitted; the second is committed, and starts when the first has ended.
    observation, info = env.reset()
    assert observation.shape == (128, 8) and info["action_mask"].sum() == 1
    assert (observation[0] == np.array([0, below, 0.75, 1, 1, 1, 1, below], np.float32)).all()
    observation, _, _, _, info = env.step(0)
    assert info["time"] == 0
    assert (observation[0] == np.array([0, 0.5, 0.5, 1, 1, 1, 1, above], np.float32)).all()
    observation, _, _, _, info = env.step(0)
    assert info["time"] == 1000 and info["action_mask"].sum() == 2
    rows = [[1000 / 43200, 0.25, 0.25, 1, 1, 1, 1, below], [900 / 43200, 0.1, below, 1, 1, 1, 1, above], padding]
    assert (observation[:3] == np.array(rows, np.float32)).all()


def lublin(name, sha256):
    """A published log, found by its hash."""
    for folder in os.environ.get("FLUXGATE_LOGS", "").split(os.pathsep):
        for path in Path(folder or "/nowhere").rglob("*"):
            if path.is_file() and name in path.name and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
                return fg.Log.read(path, semantics="rlscheduler")
    return None


def test_res_37_the_published_sequences():
    """Where the log is: the table's SJF and F1 on the ten sequences, played through the environment."""
    log = lublin("lublin_256", "a394ab3d81179ebcf645a1cbd593a60b6dff7f11a510e1e6285c45f43310c962")
    if log is None:
        return  # FLUXGATE_LOGS names no folder with it
    f1 = lambda jobs: np.log10(jobs["duration"]) * jobs["cores"] + 870 * np.log10(jobs["submit"])  # noqa: E731
    for key, published in ((lambda jobs: jobs["duration"], 277.35), (f1, 258.37)):
        env = gym.Pick(log, preset="rlscheduler", starts=gym.RLSCHEDULER_STARTS, window=1024, rows="first")
        scores = []
        for _ in gym.RLSCHEDULER_STARTS:
            env.reset()
            over = False
            while not over:
                _, reward, over, _, _ = env.step(int(np.argmin(key(env.jobs()))))
            scores.append(-reward)
        assert round(float(np.mean(scores)), 2) == published


@pytest.mark.parametrize("metric", ["bsld", "slowdown", "wait", "response", "utilisation"])
def test_res_41_rewards_step_by_step_sum_up_to_the_one_at_the_end(metric, made):
    ends, steps = (gym.Pick(made, length=150, metric=metric, stepwise=stepwise) for stepwise in (False, True))
    at_end, info = play(ends, drawn(1), start=10)
    summed, same = play(steps, drawn(1), start=10)
    assert same["metrics"] == info["metrics"]
    assert summed == pytest.approx(at_end, rel=1e-9)
    sign = 1 if metric == "utilisation" else -1
    assert at_end == pytest.approx(sign * info["metrics"][gym._METRICS[metric]], rel=1e-9)


def test_res_41_rewards_relative_to_a_policy(made):
    env = gym.Pick(made, length=150, relative_to="easy")
    total, info = play(env, drawn(1), start=10)
    easy = next(iter(fg.replay(made[10:160], "easy"))).metrics["bounded_slowdown_10_mean"]
    assert total == pytest.approx(easy - info["metrics"]["bounded_slowdown_10_mean"], rel=1e-9)
    env = gym.Pick(made, length=150, relative_to="easy", keep=(easy - 1e-6, easy + 1e-6), starts=None)
    with pytest.raises(fg.OptionError, match="keep: accepted with relative_to"):
        gym.Pick(made, keep=(1, 2))


def test_res_42_the_first_that_waits_is_never_delayed_unless_asked_for():
    # One job runs until 100; the next needs all cores; a third would run past 100.
    frame = {
        "submit": [0, 1, 2, 3],
        "run": [100, 50, 400, 90],
        "request": [100, 50, 400, 90],
        "cores": [2, 4, 1, 1],
    }
    log = fg.Log.from_frame(frame, cores=4)
    for guarded, allowed in ((True, {4}), (False, {3, 4})):
        env = gym.Backfill(log, length=4, guarded=guarded, ask_single=True)
        _, info = env.reset()
        seen = set()
        over = False
        while not over:
            ids = env.jobs()["id"]
            seen |= {int(ids[row]) for row in np.flatnonzero(info["action_mask"][:-1])}
            _, _, over, _, info = env.step(len(info["action_mask"]) - 1)
        assert seen == allowed


def test_res_42_rejections_in_a_row_are_bounded(made):
    for rejections in (0, 3):
        env = gym.Inspect(made, length=80, rejections=rejections)
        env.reset(options={"start": 0})
        over = False
        while not over:
            _, _, over, _, info = env.step(1)
        assert info["metrics"]["never_started"] == 0
        assert (len(env.actions) == 0) == (rejections == 0)


def test_res_47_decisions_beyond_the_rows_are_counted(made):
    few, many = (gym.Pick(made, length=300, window=window) for window in (4, 512))
    counts = [play(env, drawn(2), start=0)[1]["decisions_beyond_rows"] for env in (few, many)]
    assert counts[0] > 0 and counts[1] == 0


def test_res_39_steps_of_many_environments_are_those_of_one(made):
    vec = gym.make_vec(3, made, length=100, starts=[0, 200, 400])
    one = gym.Pick(made, length=100, starts=[0, 200, 400])
    vec.reset(seed=1)
    one.reset(seed=1)
    buffers = vec.observations, vec.masks
    for _ in range(400):
        actions = vec.masks.argmax(axis=1)
        observation, reward, over, _, info = one.step(actions[0])
        observations, rewards, ends, masks = vec.step(actions)
        assert (observations is buffers[0]) and (masks is buffers[1])
        assert rewards[0] == reward and ends[0] == over
        if over:
            observation, info = one.reset()
        assert (observations[0] == observation).all() and (masks[0] == info["action_mask"]).all()
    assert len(set(vec.envs[at].start for at in range(3))) == 1


def test_options_are_checked(made):
    cases = [
        ({"colour": 1}, "option colour: accepted are features"),
        ({"features": "x"}, "features: found 'x', accepted is rlscheduler-1, queue-1, gap-1"),
        ({"window": 0}, "window: found 0, accepted is 1 to 1024"),
        ({"rows": "all"}, "rows: found `all`, accepted is first, interleaved, split"),
        ({"mode": "pass", "backfill": "frozen"}, "backfill: found `frozen`, accepted is none, easy"),
        ({"metric": "speed"}, "metric: found `speed`, accepted is bsld"),
        ({"preset": "drl"}, "preset: found 'drl', accepted is 'rlscheduler'"),
        ({"length": 0}, "length: found 0, accepted is 1 to 1500"),
        ({"starts": [1400]}, "starts: found 1400, accepted is 0 to 1244"),
        ({"on_invalid": "x"}, "on_invalid: found 'x', accepted is first, error"),
    ]
    for options, message in cases:
        with pytest.raises(fg.OptionError) as raised:
            gym.Pick(made, **options).reset()
        assert str(raised.value).startswith(message), str(raised.value)
    others = [
        (gym.Reserve, {"slots": 0}, "slots: found 0, accepted is 1 to 1024"),
        (gym.Reserve, {"horizon": 0}, "horizon: found 0, accepted are seconds above 0"),
        (gym.Reserve, {"reservations": 1001}, "reservations: found 1001, accepted is 0 to 1000"),
        (gym.Reserve, {"mode": "pass"}, "option mode: accepted are features"),
        (gym.Weights, {"period": 0}, "period: found 0, accepted are seconds above 0"),
        (gym.Weights, {"multifactor": {"age": "1"}}, "multifactor: "),
        (gym.Weights, {"multifactor": {"weight-age": "1"}}, "multifactor: found `weight-age`"),
        (gym.Weights, {"window": 3}, "option window: accepted are period, multifactor"),
    ]
    for kind, options, message in others:
        with pytest.raises(fg.OptionError) as raised:
            kind(made, **options).reset()
        assert str(raised.value).startswith(message), str(raised.value)
    with pytest.raises(fg.OptionError, match="base: "):
        gym.Backfill(made, base="submit +").reset()
    env = gym.Pick(made, length=50, on_invalid="error")
    with pytest.raises(fg.OptionError, match="was not reset"):
        env.step(0)
    _, info = env.reset(options={"start": 0})
    with pytest.raises(fg.OptionError, match="action: found 127, accepted is 0"):
        env.step(127)
    play(env, drawn(1), start=0)
    with pytest.raises(fg.OptionError, match="the episode is over"):
        env.step(0)


def test_res_43_a_network_is_exported_and_read_again(tmp_path, made):
    env = gym.Pick(made, length=50, mode="pass", window=16)
    random = np.random.default_rng(1)
    layers = [(random.normal(size=(8, 10)), random.normal(size=8)), (random.normal(size=(1, 8)), random.normal(size=1))]
    export(layers, env, tmp_path / "w.safetensors", trained_on=["ab" * 32])
    tensors, said = read_safetensors(tmp_path / "w.safetensors")
    assert said["fluxgate.network"] == "kernel" and said["fluxgate.mode"] == "pass"
    assert said["fluxgate.scales"] == "cores=64" and said["fluxgate.trained-on"] == "ab" * 32
    assert (tensors["layers.0.weight"] == layers[0][0].astype(np.float32)).all()
    rows = random.normal(size=(5, 10)).astype(np.float32)
    assert logits(layers, rows).shape == (5,)
    # RES-49: by default the log of the environment, and the numbers of the first and the last of its jobs.
    made.write(tmp_path / "made.swf")
    read = fg.Log.read(tmp_path / "made.swf")
    export(layers, gym.Pick(read[100:400], length=50, mode="pass", window=16), tmp_path / "part.safetensors")
    _, said = read_safetensors(tmp_path / "part.safetensors")
    assert said["fluxgate.trained-on"] == f"{read.sha256}:101-400"
    with pytest.raises(fg.OptionError, match="layer 0: found shapes"):
        export([(np.zeros((2, 2)), np.zeros(3))], env, tmp_path / "x")
    with pytest.raises(fg.OptionError, match="found no layer"):
        export([], env, tmp_path / "x")


TRACE = Path(__file__).parent / "traces" / "pick-rlscheduler.json"


def numbers(seed):
    """Whole numbers below 2^31, the same everywhere."""
    while True:
        seed = (1_103_515_245 * seed + 12_345) % 2**31
        yield seed >> 8


def recorded_log():
    """A log for which 16 cores are too few at times, of whole numbers alone."""
    draw = numbers(11)
    submit, rows = 0, []
    for _ in range(320):
        submit += next(draw) % 900
        run = 1 + next(draw) % 9000
        rows.append((submit, run, run + next(draw) % 4000, 1 + next(draw) % 12, 1 + next(draw) % 5))
    names = "submit", "run", "request", "cores", "user"
    return fg.Log.from_frame(dict(zip(names, map(list, zip(*rows)))), cores=16, semantics="rlscheduler")


def digest(*arrays):
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


def traced(actions=None):
    """The trace of an episode: with these actions, or with some that are drawn."""
    env, draw = gym.Pick(recorded_log(), preset="rlscheduler", length=256, window=32, on_invalid="error"), numbers(5)
    observation, info = env.reset(options={"start": 20})
    trace = {"actions": [], "observations": [], "time": []}
    over = False
    while not over:
        mask = info["action_mask"]
        allowed = np.flatnonzero(mask)
        action = int(allowed[next(draw) % len(allowed)]) if actions is None else actions[len(trace["actions"])]
        trace["actions"].append(action)
        trace["observations"].append(digest(observation.astype("<f4"), mask)[:16])
        trace["time"].append(info["time"])
        observation, reward, over, _, info = env.step(action)
    return {**trace, "reward": reward, "wait_mean_s": info["metrics"]["wait_mean_s"]}


def test_res_37_a_recorded_trace():
    """Observations, masks, times and reward of recorded actions are those that were recorded. After a change of the preset
    that is meant: `python test_gym.py` writes the trace anew."""
    recorded = json.loads(TRACE.read_text())
    found = traced(recorded["actions"])
    steps = zip(recorded["observations"], found["observations"], recorded["time"], found["time"])
    differs = [step for step, (a, b, c, d) in enumerate(steps) if (a, c) != (b, d)]
    assert not differs, f"the observation before step {differs[0]} is another"
    assert found == recorded and len(found["actions"]) == 256 and len(set(found["observations"])) > 200


if __name__ == "__main__":
    TRACE.write_text(json.dumps(traced(), separators=(",", ":")).replace('],"', '],\n"') + "\n")
