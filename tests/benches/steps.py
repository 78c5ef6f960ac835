"""Steps of `fluxgate/Pick-v0` a second, 128 rows of 8 features (RES-39): one environment, and 64 that step together on one core and on
all cores of this process. The first job that may be picked is picked. PYTHONPATH names the folder of the package."""

import os
import subprocess
import sys
import time

import numpy as np

import fluxgate as fg
import fluxgate.gym

TOGETHER = 64


def spent(work):
    """Steps, processor seconds and seconds of this work."""
    begin = time.perf_counter(), time.process_time()
    steps = work()
    return steps, time.process_time() - begin[1], time.perf_counter() - begin[0]


def one(log, steps):
    env = fluxgate.gym.Pick(log, preset="rlscheduler", length=1024, copy=False)
    _, info = env.reset(seed=1)
    for _ in range(steps):
        _, _, over, _, info = env.step(int(np.argmax(info["action_mask"])))
        if over:
            _, info = env.reset()
    return steps


def together(log, rounds):
    envs = fluxgate.gym.make_vec(TOGETHER, log, preset="rlscheduler", length=1024)
    _, masks = envs.reset(seed=1)
    for _ in range(rounds):
        _, _, _, masks = envs.step(masks.argmax(axis=1))
    return rounds * TOGETHER


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    cores = sorted(os.sched_getaffinity(0))
    if len(sys.argv) < 3:
        print(f"{'':24} {'steps a processor second':>26} {'a second':>10}")
        # Threads keep the cores that they began with, so that each row is a process.
        for row in (1, 1), (TOGETHER, 1), (TOGETHER, len(cores)):
            subprocess.run([sys.executable, __file__, str(steps), *map(str, row)], check=True)
        return
    envs, used = map(int, sys.argv[2:])
    os.sched_setaffinity(0, cores[:used])
    log = fg.Log.lublin99(10_000, cores=256, seed=1)
    work = (lambda: one(log, steps)) if envs == 1 else (lambda: together(log, steps // TOGETHER))
    count, processor, seconds = spent(work)
    print(f"{f'{envs}, {used} cores':24} {count / processor:26,.0f} {count / seconds:10,.0f}")


if __name__ == "__main__":
    main()
