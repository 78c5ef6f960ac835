//! An instance with two queues, and its scheduler as a process of its own with a configuration, as at a site.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::fixture::{Said, World, fluxgate};

/// An instance with two queues, and `fluxgate sched --config-file` on it.
pub struct Site {
    /// The instance.
    pub world: World,
    sched: Child,
    /// Keeps the pipe of the scheduler open.
    _out: BufReader<std::process::ChildStdout>,
}

fn start(world: &World, args: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let file = world.dir.path().join("flux.toml");
    let mut command = fluxgate(["sched", "--uri", &world.uri(), "--config-file"]);
    let log = std::fs::OpenOptions::new().create(true).append(true).open(world.dir.path().join("sched-log"));
    command.arg(&file).args(args).stdout(Stdio::piped()).stderr(log.unwrap());
    let mut sched = command.spawn().expect("the binary can be started");
    let mut out = BufReader::new(sched.stdout.take().unwrap());
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 && line != "ready\n" {
        line.clear();
    }
    (sched, out)
}

impl Site {
    /// An instance with these settings in its configuration, and the scheduler with these arguments.
    pub fn up(table: &str, args: &[&str]) -> Site {
        let queues = ["--queue", "batch", "--queue", "debug", "--no-sched", "--speed", "100"];
        let world = World::up(&[&["--nodes", "1", "--cores", "4"][..], &queues].concat());
        std::fs::write(world.dir.path().join("flux.toml"), table).unwrap();
        let (sched, out) = start(&world, args);
        Site { world, sched, _out: out }
    }

    /// Stops the scheduler normally.
    pub fn stop(&mut self) {
        kill(Pid::from_raw(self.sched.id() as i32), Signal::SIGTERM).unwrap();
        self.sched.wait().unwrap();
    }

    /// Starts one after [`Site::stop`].
    pub fn start(&mut self, args: &[&str]) {
        (self.sched, self._out) = start(&self.world, args);
    }

    /// Stops the scheduler normally, and starts another.
    pub fn restart(&mut self, args: &[&str]) {
        self.stop();
        self.start(args);
    }

    /// Writes another configuration, which is not read yet.
    pub fn write(&self, table: &str) {
        std::fs::write(self.world.dir.path().join("flux.toml"), table).unwrap();
    }

    /// The output of the command line.
    pub fn cli(&self, args: &[&str]) -> Said {
        self.world.cli(args)
    }

    /// The log of the schedulers.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.world.dir.path().join("sched-log")).unwrap()
    }

    /// The active policies: the default one, that of `batch`, that of `debug`; for the last two, whether it is the
    /// queue's own.
    pub fn who(&self) -> Value {
        let list = self.world.policies();
        let queue = |name: &str| {
            let mut queues = list["queues"].as_array().into_iter().flatten();
            let found = queues.find(|queue| queue["name"] == name);
            found.map_or(Value::Null, |queue| json!([queue["policy"], queue["own"]]))
        };
        json!([list["active"], queue("batch"), queue("debug")])
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.sched.kill();
        let _ = self.sched.wait();
    }
}

/// Settings with two queues, decided by EASY.
pub const TWO: &str =
    "[queues.batch]\n[queues.debug]\n[sched-fluxgate]\npolicy = \"easy\"\non-breach = \"fallback\"\n";
