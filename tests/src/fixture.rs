//! The real binary in a folder of its own.
//!
//! No function here sleeps: a world is ready when it reports so, and a test waits for a state that it can query.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use fluxgate_formats::JobId;
use fluxgate_policy::{Limits, Loader};
pub use fluxgate_testing::{SHIPPED, policies, root, shared};
use fluxgate_wire::proto::errno;
use fluxgate_wire::rpc::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::patience::{self, Lines, PATIENCE};

/// A temporary folder with no access for other users, as an instance requires.
pub fn folder() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a folder can be made")
}

/// The binary under test: FLUXGATE_BIN, or where `cargo xtask build` puts it.
pub fn binary() -> PathBuf {
    std::env::var_os("FLUXGATE_BIN").map_or_else(|| root().join("target/debug/fluxgate"), PathBuf::from)
}

/// A loader that keeps what it compiles where the binary under test does: each component is compiled once for all tests.
pub fn loader(limits: Limits) -> Loader {
    Loader::new(limits, Some(&cache().join("fluxgate/compiled"))).expect("wasm runs here")
}

/// The default limits with this much fuel for each call, so that burning all of it takes little time.
pub fn little_fuel(fuel: u64) -> Limits {
    Limits {
        fuel_instantiate: fuel,
        fuel_describe: fuel,
        fuel_configure: fuel,
        fuel_keys: fuel,
        fuel_run: fuel,
        fuel_observe: fuel,
        fuel_scores: fuel,
        fuel_save: fuel,
        fuel_restore: fuel,
        ..Limits::default()
    }
}

/// The caches of all tests.
fn cache() -> PathBuf {
    root().join("target/test-cache")
}

/// Prints a text for `--nocapture`.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The binary with arguments, without the environment of the test process.
pub fn fluxgate<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(binary());
    command.args(args).env_remove("FLUX_URI").env_remove("FLUXGATE_DIR").env("FLUXGATE_POLICIES", policies());
    command.env("XDG_CACHE_HOME", cache());
    command.env("XDG_STATE_HOME", root().join("target/test-state"));
    command.stdin(Stdio::null());
    command
}

/// The output of a finished command.
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

    /// Checks that it failed with this exit code and that its output contains each of these texts.
    pub fn fails(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "expected {word:?} in {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
    }
}

/// Runs a command to its end.
pub fn run(command: Command) -> Said {
    Said::of(patience::output(command))
}

/// Runs `fluxgate` with arguments to its end.
pub fn cli(args: &[&str]) -> Said {
    run(fluxgate(args))
}

/// The values of `fluxgate up --dialect`.
pub const DIALECTS: [&str; 2] = ["current", "founding"];

/// Runs a scenario once for each revision of the scheduler protocol: it gets these arguments and the dialect, and
/// starts its worlds with them.
pub fn for_both_dialects(args: &[&str], scenario: impl Fn(&[&str])) {
    for dialect in DIALECTS {
        // Names the dialect in the output of a failing test.
        let _ = writeln!(std::io::stderr(), "dialect {dialect}");
        scenario(&[args, &["--dialect", dialect]].concat());
    }
}

/// An embedded instance with its scheduler.
pub struct World {
    /// Its folder.
    pub dir: tempfile::TempDir,
    child: Child,
    line: Mutex<Line>,
}

/// The connection of a test to its instance.
struct Line {
    runtime: Runtime,
    client: Option<Client>,
}

/// Masks of job states (RFC 21).
const PENDING: u64 = 2 | 4 | 8;
const RUNNING: u64 = 16 | 32;
const INACTIVE: u64 = 64;

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
        // From here on, dropping the world always ends the process and waits for it.
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut world = World { dir, child, line: Mutex::new(Line { runtime, client: None }) };
        let mut lines = Lines::of(&mut world.child);
        assert!(lines.reach("ready"), "the instance ended before it was ready:\n{}", world.log());
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

    /// Runs a command on it.
    pub fn cli(&self, args: &[&str]) -> Said {
        let mut command = fluxgate(args);
        command.env("FLUXGATE_DIR", self.dir.path());
        run(command)
    }

    /// The log of instance and scheduler.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("test-log")).unwrap_or_default()
    }

    /// The jobs in a state (`active`, `pending`, `running`, `inactive`), with all attributes.
    pub fn list(&self, state: &str) -> Vec<Value> {
        let states = match state {
            "active" => PENDING | RUNNING,
            "pending" => PENDING,
            "running" => RUNNING,
            "inactive" => INACTIVE,
            _ => panic!("no state {state}"),
        };
        let request = json!({"max_entries": 0, "attrs": ["all"], "constraint": {"states": [states]}});
        let answer = self.rpc("job-list.list", request).expect("the instance lists its jobs");
        answer["jobs"].as_array().expect("a list of jobs").clone()
    }

    /// Ids of jobs in a state, as F58.
    pub fn jobs(&self, state: &str) -> Vec<String> {
        let id = |job: &Value| JobId(job["id"].as_u64().expect("an id")).to_f58();
        self.list(state).iter().map(id).collect()
    }

    /// True if the annotation of a pending job gives this reason (RFC 27).
    pub fn told(&self, reason: &str) -> bool {
        let given = |job: &Value| job["annotations"]["sched"]["reason_pending"].as_str().map(str::to_owned);
        self.list("pending").iter().filter_map(given).any(|given| given.contains(reason))
    }

    /// The active and loaded policies, as the scheduler lists them; null while there is no scheduler.
    pub fn policies(&self) -> Value {
        self.rpc("sched-fluxgate.policy-list", json!({})).unwrap_or(Value::Null)
    }

    /// The comparison of a shadow with the active policy of a queue, or with the default one.
    pub fn diff(&self, name: &str, queue: Option<&str>) -> Value {
        self.rpc("sched-fluxgate.policy-diff", json!({"name": name, "queue": queue})).expect("a shadow")
    }

    /// The scheduler's answer to why a job waits, as JSON text; empty while there is none.
    pub fn why(&self, id: &str) -> String {
        let id = JobId::parse(id).expect("an id");
        self.rpc("sched-fluxgate.explain", json!({"id": id.0}))
            .map_or_else(|_| String::new(), |why| why.to_string())
    }

    /// Queries over the connection until the condition holds. A condition must not start a process.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&World) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}\n{}", self.log());
        }
    }

    /// Waits until no job is active: for the end of each active job's event log.
    pub fn until_done(&self) {
        loop {
            let active = self.list("active");
            if active.is_empty() {
                return;
            }
            let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            let client = line.client.as_ref().expect("it was made to list the jobs");
            for job in active {
                let ended = async {
                    let question = json!({"id": job["id"]});
                    let mut log = client.stream("job-info.eventlog-watch", question).expect("a stream");
                    while log.next().await.is_some_and(|event| event.is_ok()) {}
                };
                let ended = line.runtime.block_on(async { timeout(PATIENCE, ended).await });
                assert!(ended.is_ok(), "job {} does not end within {PATIENCE:?}\n{}", job["id"], self.log());
            }
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

    /// Kills the scheduler without warning, and waits until another one serves.
    pub fn kill_scheduler(&self) {
        let old = self.scheduler().expect("a scheduler runs");
        kill(old, Signal::SIGKILL).expect("it can be killed");
        self.until("another scheduler serves", |world| {
            world.scheduler().is_some_and(|pid| pid != old)
                && world.policies() != Value::Null
                && world.stats()["ready"] == true
        });
    }

    /// Kills the instance without warning; the folder stays.
    pub fn kill_instance(mut self) -> tempfile::TempDir {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL).expect("it can be killed");
        patience::end(&mut self.child);
        let dir = folder();
        let kept = std::mem::replace(&mut self.dir, dir);
        drop(self);
        kept
    }

    /// Calls a service of the instance, over one connection that is made by the first call and again after it was lost.
    pub fn rpc(&self, topic: &str, payload: Value) -> Result<Value, String> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let Line { runtime, client } = &mut *line;
        runtime.block_on(async {
            if client.is_none() {
                let connected = timeout(PATIENCE, Client::connect(&self.uri())).await;
                let connected = connected.unwrap_or_else(|_| self.hangs("no connection"));
                *client = Some(connected.map_err(|e| e.to_string())?.0);
            }
            let answer = client.as_ref().expect("it was made").rpc(topic, payload);
            let answer = timeout(PATIENCE, answer).await.unwrap_or_else(|_| self.hangs(topic));
            if answer.as_ref().is_err_and(|error| error.errnum == errno::ECANCELED) {
                *client = None;
            }
            answer.map_err(|e| e.to_string())
        })
    }

    fn hangs(&self, what: &str) -> ! {
        panic!("{what}: no answer within {PATIENCE:?}{}\n{}", patience::stuck(self.child.id()), self.log())
    }

    /// The scheduler's counters, null while there is none.
    pub fn stats(&self) -> Value {
        self.rpc("sched-fluxgate.stats-get", json!({})).unwrap_or(Value::Null)
    }

    /// The instance's audit of its own records.
    pub fn audit(&self) -> Value {
        self.rpc("fluxgate-instance.audit", json!({})).expect("the instance audits")
    }

    /// Asserts that no job was lost or run twice and no core held twice, by the instance's records.
    pub fn assert_clean(&self) {
        let audit = self.audit();
        assert!(audit["lost"] == 0 && audit["run_twice"] == 0, "{audit}\n{}", self.log());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A scheduler ends with the connection; the instance is asked to end, then killed.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let pid = Pid::from_raw(self.child.id() as i32);
            let _ = kill(pid, Signal::SIGTERM);
            patience::end(&mut self.child);
        }
    }
}
