//! A scheduler under a service manager: its messages by sd_notify(3), and its end when it is asked to end.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fluxgate_testing::{Need, skipped};
use fluxgate_tests::fixture::{Said, World, cli, fluxgate, run};
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

/// A unit of the service manager of this machine, which is gone with this value, and its folders with it.
struct Unit {
    name: String,
}

impl Unit {
    /// Where the service manager looks for units until the machine is started again.
    const FOLDER: &str = "/run/systemd/system";
    /// Its cache and its state.
    const FOLDERS: [&str; 2] = ["/var/cache/fluxgate-test", "/var/lib/fluxgate-test"];

    fn of(text: &str) -> Unit {
        let unit = Unit { name: format!("fluxgate-test-{}.service", std::process::id()) };
        std::fs::write(Path::new(Unit::FOLDER).join(&unit.name), text).unwrap();
        unit.manager(&["daemon-reload"]).ok();
        unit
    }

    fn manager(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new("systemctl");
        command.args(arguments);
        run(command)
    }

    fn asks(&self, what: &str) -> Said {
        self.manager(&[what, &self.name])
    }

    /// A property of the unit, as `systemctl show` tells it.
    fn shows(&self, property: &str) -> String {
        let said = self.manager(&["show", "--value", "--property", property, &self.name]);
        said.ok().trim().to_owned()
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        drop(self.asks("stop"));
        drop(std::fs::remove_file(Path::new(Unit::FOLDER).join(&self.name)));
        drop(self.manager(&["daemon-reload"]));
        Unit::FOLDERS.iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
    }
}

/// The installed unit with all its restrictions, but for the owner and the address of this instance.
#[test]
fn feat_95_systemd_starts_reloads_restarts_and_stops_the_installed_unit() {
    if !Path::new(Unit::FOLDER).is_dir() || !nix::unistd::geteuid().is_root() {
        return skipped(Need::Program, "systemd does not run here, or takes no unit of this user");
    }
    // Units see a /tmp of their own.
    let private = std::fs::Permissions::from_mode(0o700);
    let dir = tempfile::Builder::new().permissions(private).tempdir_in("/var/lib").unwrap();
    let world = World::up_in(dir, &["--nodes", "1", "--cores", "2", "--no-sched"]);
    let prefix = world.dir.path().join("p");
    cli(&["install", "--prefix", prefix.to_str().unwrap()]).ok();
    let text = std::fs::read_to_string(prefix.join("lib/systemd/system/fluxgate-sched.service")).unwrap();
    let others = [
        ("User=flux", "User=root"),
        ("Group=flux", "Group=root"),
        ("FLUX_URI=local:///run/flux/local", &format!("FLUX_URI={}", world.uri())),
        ("CacheDirectory=fluxgate", "CacheDirectory=fluxgate-test"),
        ("XDG_CACHE_HOME=/var/cache/fluxgate", "XDG_CACHE_HOME=/var/cache/fluxgate-test"),
        ("StateDirectory=fluxgate", "StateDirectory=fluxgate-test/fluxgate"),
        ("XDG_STATE_HOME=/var/lib", "XDG_STATE_HOME=/var/lib/fluxgate-test"),
    ];
    let text = others.iter().fold(text, |text, (ours, other)| {
        assert_eq!(text.matches(&format!("{ours}\n")).count(), 1, "{ours}");
        text.replace(&format!("{ours}\n"), &format!("{other}\n"))
    });
    let unit = Unit::of(&text);

    // It is started as soon as the job manager is served.
    unit.asks("start").ok();
    assert_eq!(unit.shows("ActiveState"), "active");
    world.until("the service manager has the numbers of jobs", |world| {
        drop(world.list("running"));
        unit.shows("StatusText") == "policy easy, 0 waiting, 0 running"
    });
    world.cli(&["submit", "-t", "1h", "--simulate", "1h"]).ok();
    world.until("the job runs", |world| world.list("running").len() == 1);
    unit.asks("reload").ok();

    // The service manager starts the next scheduler, which takes the job over.
    let first = unit.shows("MainPID");
    kill(Pid::from_raw(first.parse().unwrap()), Signal::SIGKILL).unwrap();
    world.until("another scheduler is there", |world| {
        drop(world.list("running"));
        unit.shows("ActiveState") == "active" && !["0", &first].contains(&unit.shows("MainPID").as_str())
    });
    assert_eq!(world.list("running").len(), 1);
    unit.asks("stop").ok();
    assert_eq!((unit.shows("ActiveState"), unit.shows("Result")), ("inactive".into(), "success".into()));
    for folder in ["/var/cache/fluxgate-test", "/var/lib/fluxgate-test/fluxgate"] {
        let mode = std::fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{folder}");
    }
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
