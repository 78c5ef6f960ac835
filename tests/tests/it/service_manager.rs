//! What a service manager is told of a scheduler that it started: sd_notify(3).

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use fluxgate_tests::fixture::{World, fluxgate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Time after which a message is missing.
const PATIENCE: Duration = Duration::from_secs(240);

/// Reads messages until one has a line that begins so; that message.
fn until(socket: &UnixDatagram, wanted: &str) -> String {
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {wanted}: {error}"));
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if message.lines().any(|line| line.starts_with(wanted)) {
            return message;
        }
    }
}

#[test]
fn feat_95_the_loop_that_schedules_tells_the_service_manager() {
    let world = World::up(&["--nodes", "1", "--cores", "2", "--no-sched"]);
    let path = world.dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let file = world.dir.path().join("flux.toml");
    std::fs::write(&file, "[sched-fluxgate]\npolicy = \"easy\"\n").unwrap();
    let mut command = fluxgate(["sched", "--connect", &world.uri(), "--config-file"]);
    command.arg(&file).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut sched = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();

    until(&socket, "READY=1");
    until(&socket, "STATUS=policy easy, 0 waiting, 0 running");
    (0..3).for_each(|_| drop(until(&socket, "WATCHDOG=1")));
    for _ in 0..2 {
        world.cli(&["submit", "-n", "2", "-t", "1h", "--simulate", "1h"]).ok();
    }
    until(&socket, "STATUS=policy easy, 1 waiting, 1 running");

    std::fs::write(&file, "[sched-fluxgate]\npolicy = \"sjf\"\n").unwrap();
    kill(Pid::from_raw(sched.id() as i32), Signal::SIGHUP).unwrap();
    let reloading = until(&socket, "RELOADING=1");
    assert!(reloading.lines().any(|line| line.starts_with("MONOTONIC_USEC=")), "{reloading}");
    until(&socket, "READY=1");
    until(&socket, "STATUS=policy sjf, 1 waiting, 1 running");
    // A configuration that is refused ends the reload, too.
    std::fs::write(&file, "[sched-fluxgate]\npolicy = 7\n").unwrap();
    kill(Pid::from_raw(sched.id() as i32), Signal::SIGHUP).unwrap();
    until(&socket, "RELOADING=1");
    until(&socket, "READY=1");

    kill(Pid::from_raw(sched.id() as i32), Signal::SIGTERM).unwrap();
    until(&socket, "STOPPING=1");
    assert!(sched.wait().unwrap().success());
}
