"""What a policy in Python costs beside its component on the same log (RES-29): keys of one column, and passes of EASY with
several questions each. The schedules have to be the same. PYTHONPATH names the folder of the package."""

import sys
import time

import fluxgate as fg

calls = {"keys": 0, "questions": 0}


class Shortest(fg.Policy):
    def keys(self, now, jobs):
        calls["keys"] += 1
        return jobs.duration


class Easy(fg.Policy):
    def run(self, p):
        reserved = False
        for c in p.candidates():
            calls["questions"] += 1
            if not p.start(c) and not reserved:
                calls["questions"] += 1
                p.reserve(c)
                reserved = True
        calls["questions"] += 2


def seconds(log, policy):
    """Processor seconds of a replay, the least of three, and its schedule."""
    least, schedule = float("inf"), b""
    for _ in range(3):
        calls.update(keys=0, questions=0)
        begin = time.process_time()
        schedule = fg.replay(log, policy, check=False, threads=1)[0].schedule
        least = min(least, time.process_time() - begin)
    return least, schedule


def main():
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    log = fg.Log.lublin99(jobs, cores=256, seed=1)
    print(f"{'':24} {'calls':>9} {'replay s':>9} {'component s':>12} {'us a call more':>15} {'calls a second':>15}")
    for what, policy, component in ("keys", Shortest, "sjf"), ("questions", Easy, "easy"):
        native, expected = seconds(log, component)
        python, schedule = seconds(log, policy)
        assert schedule == expected, "the schedules differ"
        more = (python - native) / calls[what]
        print(f"{what:24} {calls[what]:9} {python:9.2f} {native:12.2f} {more * 1e6:15.2f} {1 / more:15,.0f}")


if __name__ == "__main__":
    main()
