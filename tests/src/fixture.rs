//! The real binary in a folder of its own.
//!
//! Nothing here sleeps: a world is ready when it says so, and a test waits for what it can ask for.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long anything may take before a test gives up. Generous: it is only reached when something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The workspace's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace is there")
}

/// A temporary folder that nobody else can look into, as an instance wants it.
pub fn folder() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a folder can be made")
}

/// The binary under test: FLUXGATE_BIN, or where `cargo xtask build` puts it.
pub fn binary() -> PathBuf {
    std::env::var_os("FLUXGATE_BIN").map_or_else(|| root().join("target/debug/fluxgate"), PathBuf::from)
}

/// The folder of policy components: FLUXGATE_POLICIES, or where `cargo xtask policies` puts them.
pub fn policies() -> PathBuf {
    std::env::var_os("FLUXGATE_POLICIES").map_or_else(|| root().join("target/policies"), PathBuf::from)
}

/// The policies of this house, by name.
pub const SHIPPED: [&str; 17] = [
    "bandwidth-aware",
    "broken",
    "conservative",
    "easy",
    "easy-plus-plus",
    "fcfs",
    "hybrid",
    "ljf",
    "multifactor",
    "packing",
    "power-capped",
    "priority",
    "sjf",
    "smallest-first",
    "sparing",
    "topology",
    "xf",
];

/// A file of the shared data, or `None` with a printed line where it is not there.
pub fn shared(path: &str) -> Option<PathBuf> {
    let base = std::env::var_os("FLUXGATE_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let file = base.join(path);
    if file.exists() {
        return Some(file);
    }
    note(&format!("skipped: no {path} beside the project"));
    None
}

/// Say something to whoever runs the tests with `--nocapture`.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The binary with arguments, without the surroundings of whoever runs the tests.
pub fn fluxgate<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(binary());
    command.args(args).env_remove("FLUX_URI").env_remove("FLUXGATE_DIR").env("FLUXGATE_POLICIES", policies());
    command.env("XDG_CACHE_HOME", root().join("target/test-cache"));
    command.env("XDG_STATE_HOME", root().join("target/test-state"));
    command.stdin(Stdio::null());
    command
}

/// What a finished command said.
#[derive(Debug)]
pub struct Said {
    /// Exit code, -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Said {
    fn of(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output of a command that must have succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The same as JSON.
    pub fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("not JSON: {e}: {out}"))
    }

    /// Check that it failed with this exit code, saying each of these.
    pub fn fails(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "expected {word:?} in {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
    }
}

/// Run a command to its end.
pub fn run(mut command: Command) -> Said {
    Said::of(command.output().expect("the binary can be started; run `cargo xtask build`"))
}

/// Run `fluxgate` with arguments to its end.
pub fn cli(args: &[&str]) -> Said {
    run(fluxgate(args))
}

/// What `fluxgate up --dialect` takes.
pub const DIALECTS: [&str; 2] = ["current", "founding"];

/// Play a scenario once for each revision of the scheduler protocol: it gets these arguments and the dialect, and
/// starts its worlds with them.
pub fn for_both_dialects(args: &[&str], scenario: impl Fn(&[&str])) {
    for dialect in DIALECTS {
        // Where a test fails this says in which of them.
        let _ = writeln!(std::io::stderr(), "dialect {dialect}");
        scenario(&[args, &["--dialect", dialect]].concat());
    }
}

/// An embedded instance with its scheduler.
pub struct World {
    /// Its folder.
    pub dir: tempfile::TempDir,
    child: Child,
}

impl World {
    /// `fluxgate up` with these arguments.
    pub fn up(args: &[&str]) -> World {
        World::up_in(folder(), args)
    }

    /// The same in a folder that may have been used before.
    pub fn up_in(dir: tempfile::TempDir, args: &[&str]) -> World {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.path().join("test-log"))
            .expect("a log can be written");
        let mut command = fluxgate(["up"]);
        command.args(args).arg("--dir").arg(dir.path()).stdout(Stdio::piped()).stderr(log);
        let child = command.spawn().expect("the binary can be started; run `cargo xtask build`");
        // Whatever happens from here on, dropping the world ends the process and waits for it.
        let mut world = World { dir, child };
        let out = world.child.stdout.take().expect("a pipe was asked for");
        let ready = BufReader::new(out).lines().any(|line| line.expect("the pipe can be read") == "ready");
        assert!(ready, "the instance ended before it was ready:\n{}", world.log());
        world
    }

    /// The dialect that its instance speaks.
    pub fn dialect(&self) -> String {
        let info = self.rpc("fluxgate-instance.info", Value::Null).expect("the instance answers");
        info["dialect"].as_str().expect("the dialect's name").to_owned()
    }

    /// Address of its socket.
    pub fn uri(&self) -> String {
        format!("local://{}/local-0", self.dir.path().display())
    }

    /// Run a command on it.
    pub fn cli(&self, args: &[&str]) -> Said {
        let mut command = fluxgate(args);
        command.env("FLUXGATE_DIR", self.dir.path());
        run(command)
    }

    /// What instance and scheduler logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("test-log")).unwrap_or_default()
    }

    /// Ids of jobs in a state (`pending`, `running`, `inactive`), as F58.
    pub fn jobs(&self, state: &str) -> Vec<String> {
        let list = self.cli(&["jobs", "--json", "--count", "0", "--filter", state]).json();
        let jobs = list["jobs"].as_array().expect("a list of jobs");
        jobs.iter().map(|job| job["f58"].as_str().expect("an id").to_owned()).collect()
    }

    /// Ask until it is so.
    pub fn until(&self, what: &str, mut so: impl FnMut(&World) -> bool) {
        let begin = Instant::now();
        while !so(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}\n{}", self.log());
            std::thread::yield_now();
        }
    }

    /// Process id of the scheduler: the instance's child.
    pub fn scheduler(&self) -> Option<Pid> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        // Any thread of the instance may have started it.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let all = tasks
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
            .chain(std::fs::read_to_string(children))
            .collect::<String>();
        all.split_whitespace()
            .filter_map(|pid| pid.parse::<i32>().ok())
            .find(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.split(|b| *b == 0).any(|arg| arg == b"sched")
            })
            .map(Pid::from_raw)
    }

    /// Kill the scheduler without warning, and wait until another one serves.
    pub fn kill_scheduler(&self) {
        let old = self.scheduler().expect("a scheduler runs");
        kill(old, Signal::SIGKILL).expect("it can be killed");
        self.until("another scheduler serves", |world| {
            world.scheduler().is_some_and(|pid| pid != old)
                && world.cli(&["policy", "list", "--json"]).code == 0
                && world.stats()["ready"] == true
        });
    }

    /// Kill the instance without warning; the folder stays.
    pub fn kill_instance(mut self) -> tempfile::TempDir {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL).expect("it can be killed");
        self.child.wait().expect("it ends");
        let dir = folder();
        let kept = std::mem::replace(&mut self.dir, dir);
        drop(self);
        kept
    }

    /// Ask a service of the instance.
    pub fn rpc(&self, topic: &str, payload: Value) -> Result<Value, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (client, _requests) =
                fluxgate_wire::rpc::Client::connect(&self.uri()).await.map_err(|e| e.to_string())?;
            client.rpc(topic, payload).await.map_err(|e| e.to_string())
        })
    }

    /// The scheduler's counters, null while there is none.
    pub fn stats(&self) -> Value {
        self.rpc("sched-fluxgate.stats-get", serde_json::json!({})).unwrap_or(Value::Null)
    }

    /// The instance's audit of its own records.
    pub fn audit(&self) -> Value {
        self.rpc("fluxgate-instance.audit", serde_json::json!({})).expect("the instance audits")
    }

    /// No job lost or run twice, no core held twice, as the instance's records say.
    pub fn assert_clean(&self) {
        let audit = self.audit();
        assert!(audit["lost"] == 0 && audit["run_twice"] == 0, "{audit}\n{}", self.log());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A scheduler dies with the connection; the instance is told to end, then made to.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
            let begin = Instant::now();
            while self.child.try_wait().is_ok_and(|s| s.is_none()) && begin.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
