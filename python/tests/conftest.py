"""What the tests share: a small log as a file and as an object, and the command line."""

import os
import subprocess

import pytest

import fluxgate as fg


@pytest.fixture(scope="session")
def log():
    """A log of some six weeks for 64 cores, with estimates that are not exact and users."""
    made = fg.Log.lublin99(3000, cores=64, seed=5).estimates("perturbed:4", seed=2)
    columns = made.frame()
    users = [1 + job % 7 for job in columns["job"]]
    frame = {
        "id": columns["job"],
        "submit": columns["submit"] * 3,
        "run": columns["run"],
        "request": columns["limit"],
        "cores": columns["cores"],
        "user": users,
    }
    return fg.Log.from_frame(frame, cores=64)


@pytest.fixture(scope="session")
def file(log, tmp_path_factory):
    """The same as a file."""
    path = tmp_path_factory.mktemp("logs") / "made.swf"
    log.write(path)
    return path


@pytest.fixture(scope="session")
def cli():
    """Runs the command line; the package's own policies are those of both."""
    binary = os.environ.get("FLUXGATE_BIN")
    if binary is None:
        pytest.skip("FLUXGATE_BIN names no command line")

    def run(*arguments):
        done = subprocess.run([binary, *map(str, arguments)], capture_output=True, check=True)
        return done.stdout

    return run
