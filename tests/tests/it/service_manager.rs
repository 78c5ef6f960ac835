//! A scheduler under a service manager: its messages by sd_notify(3), and its end when it is asked to end.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;

use fluxgate_tests::fixture::{World, fluxgate};
use fluxgate_tests::patience::{self, PATIENCE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::containment::bomb;

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

/// A socket of a service manager.
fn notify_socket(world: &World) -> (PathBuf, UnixDatagram) {
    let path = world.dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    (path, socket)
}

#[test]
fn feat_95_the_loop_that_schedules_tells_the_service_manager() {
    let world = World::up(&["--nodes", "1", "--cores", "2", "--no-sched"]);
    let (path, socket) = notify_socket(&world);
    let file = world.dir.path().join("flux.toml");
    std::fs::write(&file, "[sched-fluxgate]\npolicy = \"easy\"\n").unwrap();
    let mut command = fluxgate(["sched", "--uri", &world.uri(), "--config-file"]);
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
    assert!(patience::end(&mut sched).success());
}

/// Seconds of processor time of a process, all threads.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<u64> = stat.rsplit(')').next().unwrap_or("").split(' ').flat_map(str::parse).collect();
    // After the state and ten numbers: utime and stime, in hundredths of a second.
    fields.get(10..12).map_or(0.0, |times| (times[0] + times[1]) as f64 / 100.0)
}

/// The process that compiles for this one.
fn compiler(pid: u32) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    children.collect::<String>().split(' ').find_map(|pid| pid.parse().ok().filter(|pid| compiles(*pid)))
}

fn compiles(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == fluxgate_policy::apart::ARGUMENT.as_bytes())
}

#[test]
fn a_signal_ends_a_scheduler_in_the_middle_of_a_pass_and_of_compiling() {
    let world = World::up(&["--nodes", "1", "--cores", "2", "--no-sched"]);
    let (file, component) = (world.dir.path().join("flux.toml"), world.dir.path().join("bomb.wasm"));
    // By its limits it would go on for days.
    let limits =
        "limits = { fuel-run = 1000000000000000, fuel-pass = 1000000000000000, deadline-ms = 86400000 }";
    std::fs::write(&file, format!("[sched-fluxgate]\npolicy = \"broken\"\n{limits}\n")).unwrap();
    std::fs::write(&component, bomb()).unwrap();
    let mut command = fluxgate(["sched", "--connect", &world.uri(), "--config-file"]);
    command.arg(&file).args(["--config", "mode=loop", "--config", "when=mid-pass"]);
    let (path, socket) = notify_socket(&world);
    command.env("NOTIFY_SOCKET", &path);
    let mut sched = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(&socket, "READY=1");

    let mut load = fluxgate(["policy", "load"]);
    load.arg(&component).env("FLUXGATE_DIR", world.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = load.spawn().unwrap();
    let mut compiler_pid = None;
    world.until("it compiles", |_| {
        compiler_pid = compiler(sched.id());
        compiler_pid.is_some()
    });
    let before = cpu_seconds(sched.id());
    world.cli(&["submit", "-n", "2", "-t", "1h", "--simulate", "1h"]).ok();
    world.until("a pass turns in a circle", |world| {
        drop(world.list("pending"));
        cpu_seconds(sched.id()) > before + 0.5
    });
    kill(Pid::from_raw(sched.id() as i32), Signal::SIGTERM).unwrap();
    let mut status = None;
    world.until("it ends", |world| {
        drop(world.list("pending"));
        status = sched.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{status:?}");
    world.until("what compiles for it ends with it", |world| {
        drop(world.list("pending"));
        !compiles(compiler_pid.unwrap())
    });
    assert!(!patience::end(&mut load).success());
}
