//! An instance with two queues, and its scheduler as a process of its own with a configuration, as at a site.

use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::fixture::{Said, World, fluxgate};
use crate::patience::{self, Lines};

/// An instance with two queues, and `fluxgate sched --config-file` on it.
pub struct Site {
    /// The instance.
    pub world: World,
    sched: Child,
}

fn start(world: &World, args: &[&str]) -> Child {
    let file = world.dir.path().join("flux.toml");
    let mut command = fluxgate(["sched", "--uri", &world.uri(), "--config-file"]);
    let log = std::fs::OpenOptions::new().create(true).append(true).open(world.dir.path().join("sched-log"));
    command.arg(&file).args(args).stdout(Stdio::piped()).stderr(log.unwrap());
    let mut sched = command.spawn().expect("the binary can be started");
    // Without the line a test goes on, and looks at its log.
    Lines::of(&mut sched).reach("ready");
    sched
}

impl Site {
    /// An instance with these settings in its configuration, and the scheduler with these arguments.
    pub fn up(table: &str, args: &[&str]) -> Site {
        let queues = ["--queue", "batch", "--queue", "debug", "--no-sched", "--speed", "100"];
        let world = World::up(&[&["--nodes", "1", "--cores", "4"][..], &queues].concat());
        std::fs::write(world.dir.path().join("flux.toml"), table).unwrap();
        let sched = start(&world, args);
        Site { world, sched }
    }

    /// Stops the scheduler normally.
    pub fn stop(&mut self) {
        kill(Pid::from_raw(self.sched.id() as i32), Signal::SIGTERM).unwrap();
        patience::end(&mut self.sched);
    }

    /// Starts one after [`Site::stop`].
    pub fn start(&mut self, args: &[&str]) {
        self.sched = start(&self.world, args);
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
        patience::end(&mut self.sched);
    }
}

/// Settings with two queues, decided by EASY.
pub const TWO: &str =
    "[queues.batch]\n[queues.debug]\n[sched-fluxgate]\npolicy = \"easy\"\non-breach = \"fallback\"\n";
