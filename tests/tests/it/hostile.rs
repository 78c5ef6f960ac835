//! The hostile matrix: every misdeed at every moment, and a table of the outcomes.
//!
//! In each cell the same day passes on a small site: a good policy decides, `broken` is swapped in at [`COMES`], and
//! a good one again at [`GOES`]. Whatever `broken` does, every job must start once, at the same time and place as on
//! a day without it: the good policy stays active, or the built-in one, which has the same order, decides in the same
//! pass.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use fluxgate_engine::{
    Action, Config, Engine, Event, PolicyError, PolicyNotice, Shadow, ShadowError, SwapError,
};
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::Simple;
use fluxgate_policy::{Compiled, Limits, LoadError, Loader, Meter, Snapshot, WasmPolicy};
use fluxgate_sim::machine::Machine;
use fluxgate_tests::fixture::{little_fuel, policies, root};

/// The times at which `broken`, and then a good policy, is swapped in.
const COMES: u64 = 40;
const GOES: u64 = 155;

/// The day: job, submission, queue, cores of 8, seconds, priority. At the first swap a job starts, and a job waits in
/// each queue; and so at 60, when `broken` gives its first keys as the active policy.
const DAY: [(u64, f64, &str, u32, f64, u32); 10] = [
    (1, 0.0, "", 6, 100.0, 16),
    (2, 0.0, "batch", 1, 40.0, 16),
    (3, 5.0, "", 4, 50.0, 16),
    (4, 5.0, "batch", 3, 40.0, 16),
    (5, 40.0, "", 1, 200.0, 20),
    (6, 60.0, "", 1, 30.0, 30),
    (7, 70.0, "batch", 2, 30.0, 16),
    (8, 110.0, "", 1, 20.0, 16),
    (9, 110.0, "batch", 1, 20.0, 16),
    (10, 155.0, "", 1, 20.0, 16),
];

/// Megabytes of an instance, and of one allocation of `broken`.
const MEMORY_MIB: u64 = 16;
const HOARD_MIB: u64 = 9;
/// Fuel of any call.
const FUEL: u64 = 20_000_000;
/// Bound on the growth of the process over all cells; one instance has [`MEMORY_MIB`].
const GROWTH_MIB: u64 = 192;

/// The columns: name, `when` and `after` of `broken`, and the export that misbehaves.
const MOMENTS: [(&str, &str, &str, &str); 11] = [
    ("load", "first-pass", "0", "policy.describe"),
    ("configure", "configure", "0", "policy.configure"),
    ("warm-up", "keys", "0", "ordering.keys"),
    ("keys", "keys", "1", "ordering.keys"),
    ("observe", "observe", "1", "observing.observe"),
    ("pass", "mid-pass", "0", "scheduling.run"),
    ("annotate", "annotate", "0", "scheduling.run"),
    ("save", "save", "0", "state.save"),
    ("restore", "restore", "0", "state.restore"),
    ("ranking", "rank", "0", "ranking.scores"),
    ("shadow", "mid-pass", "0", "scheduling.run"),
];

/// The rows: misdeed, mode of `broken`, and permitted outcomes.
const MISDEEDS: [(&str, &str, &[&str]); 17] = [
    ("trap", "trap", &["trap"]),
    ("endless loop", "loop", &["fuel"]),
    ("slow drip", "drip", &["right"]),
    ("memory bomb", "memory", &["memory"]),
    ("allocation in `describe`", "hoard", &["memory"]),
    ("stack overflow, the machine's", "recursion", &["stack-bytes"]),
    ("stack overflow, its own", "stack", &["trap"]),
    (
        "huge output",
        "output",
        &[
            "description",
            "refused",
            "copy-bytes",
            "state-bytes",
            "annotation_bytes_per_job_max",
            "annotation_keys_per_job_max",
            "trap",
            "cold",
        ],
    ),
    ("huge log", "log-bomb", &["fuel"]),
    ("NaN", "nan-key", &["bad-value"]),
    ("equal keys", "equal-keys", &["right"]),
    ("unknown job", "unknown-job", &["bad-decision", "trap"]),
    ("foreign job", "foreign-job", &["bad-decision", "trap"]),
    ("finished job", "finished-job", &["bad-decision", "trap"]),
    ("the same twice", "duplicate", &["bad-decision", "trap", "right"]),
    ("reserved and started", "contradiction", &["bad-decision", "trap"]),
    ("lying state", "lie", &["cold"]),
];

/// Why a misdeed does not exist at a moment.
fn meaningless(mode: &str, moment: &str) -> bool {
    match moment {
        // A policy that hands over its state gives no further keys.
        "save" => matches!(mode, "nan-key" | "equal-keys"),
        // A shadow gets and gives no state.
        "shadow" => mode == "lie",
        _ => false,
    }
}

/// The stage that detected the misdeed, and the error; in the order of a component's life.
#[derive(Debug, Clone, PartialEq)]
enum Came {
    /// The component was not loaded.
    Refused(&'static str),
    /// It was loaded, and failed before it became active.
    Stays(&'static str),
    /// It was active, and failed.
    Out(&'static str),
    /// It was a shadow, and failed.
    Ended(&'static str),
    /// Its state or that of its predecessor was not taken over.
    Cold,
    /// No error.
    Right,
}

impl Came {
    fn word(&self) -> &'static str {
        match self {
            Came::Refused(word) | Came::Stays(word) | Came::Out(word) | Came::Ended(word) => word,
            Came::Cold => "cold",
            Came::Right => "right",
        }
    }

    /// True if this outcome belongs to the moment.
    fn is_of(&self, moment: &str) -> bool {
        match self {
            Came::Refused(_) => matches!(moment, "load" | "configure"),
            // A misdeed from the start is detected at the first call.
            Came::Stays(_) => matches!(moment, "load" | "configure" | "warm-up" | "restore" | "ranking"),
            Came::Out(_) => matches!(moment, "keys" | "observe" | "pass" | "annotate" | "save"),
            Came::Ended(_) => moment == "shadow",
            Came::Cold => moment != "shadow",
            Came::Right => true,
        }
    }
}

/// Compiles `broken`, with or without a misdeed written into it.
struct Host {
    loader: Loader,
    bytes: Vec<u8>,
    plain: Compiled,
    /// Rounds of a drip that use nine tenths of [`FUEL`].
    turns: u64,
}

impl Host {
    fn new() -> Host {
        let limits = Limits {
            memory_bytes: MEMORY_MIB << 20,
            fuel_keys_row: 0,
            fuel_observe_event: 0,
            fuel_scores_row: 0,
            copy_bytes: 4 << 20,
            state_bytes: 1 << 20,
            ..little_fuel(FUEL)
        };
        let loader = Loader::new(limits, None).unwrap();
        let bytes = std::fs::read(policies().join("broken.wasm")).expect("run `cargo xtask policies`");
        let plain = loader.compile(&bytes).unwrap();
        let mut host = Host { loader, bytes, plain, turns: 0 };
        let used = |turns| {
            let policy = host.instance(&host.plain, "drip", ("configure", "0"), turns).unwrap();
            call(&policy.meter().snapshot(), "policy.configure")
        };
        host.turns = FUEL / 10 * 9 * 100_000 / (used(100_000) - used(0));
        host
    }

    /// `broken` with this misdeed in `describe`.
    fn written(&self, misdeed: &str) -> Result<Compiled, LoadError> {
        let mark = b"misdeed in describe: ";
        let mut bytes = self.bytes.clone();
        let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(mark)).collect();
        let [at] = found[..] else { panic!("{} places to write a misdeed", found.len()) };
        let text = format!("{misdeed:43}");
        bytes[at + mark.len()..][..43].copy_from_slice(text.as_bytes());
        self.loader.compile(&bytes)
    }

    fn instance(
        &self,
        compiled: &Compiled,
        mode: &str,
        (when, after): (&str, &str),
        work: u64,
    ) -> Result<WasmPolicy, LoadError> {
        let work = work.to_string();
        let settings = [("mode", mode), ("when", when), ("after", after), ("work", work.as_str())];
        compiled.instantiate(&settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
    }

    fn good(&self) -> Box<WasmPolicy> {
        Box::new(self.plain.instantiate(&Default::default()).unwrap())
    }

    /// `broken` for a cell.
    fn bad(&self, mode: &str, moment: &str) -> Result<WasmPolicy, LoadError> {
        let (_, when, after, _) = MOMENTS.into_iter().find(|(name, ..)| *name == moment).unwrap();
        let written = match (mode, moment) {
            ("drip", "load") => format!("drip {}", self.turns),
            ("hoard", "load") => format!("hoard {}", 2 * HOARD_MIB),
            // One allocation is in `describe`, the other at the moment: the limit applies to both.
            ("hoard", _) => format!("hoard {HOARD_MIB}"),
            (mode, "load") => mode.to_owned(),
            _ => String::new(),
        };
        let own;
        let compiled = match written.as_str() {
            "" => &self.plain,
            text => {
                own = self.written(text)?;
                &own
            }
        };
        let (mode, work) = match (mode, moment) {
            (_, "load") => ("none", 0),
            ("hoard", _) => (mode, HOARD_MIB),
            _ => (mode, self.turns),
        };
        self.instance(compiled, mode, (when, after), work)
    }
}

/// The most fuel of one call of an export.
fn call(snapshot: &Snapshot, export: &str) -> u64 {
    snapshot.calls.iter().find(|call| call.export == export).map_or(0, |call| call.fuel_max)
}

fn reason(error: &LoadError) -> &'static str {
    match error {
        LoadError::Failed(error) => error.limit(),
        other => other.kind(),
    }
}

/// The role of a bad policy in a day.
enum Part {
    Decides(Box<WasmPolicy>),
    Shadows(Box<WasmPolicy>),
    Refused(&'static str),
    /// None: a good policy.
    None,
}

/// A start: time, job, and resources.
type Start = (f64, u64, String);

struct Site {
    engine: Engine,
    /// Events to come, by time and insertion order.
    agenda: BTreeMap<(u64, u64), Event>,
    serial: u64,
    starts: Vec<Start>,
    shadow: Option<Shadow>,
    came: Came,
}

impl Site {
    fn new() -> Site {
        let resources = Machine::uniform(2, 8).unwrap().resources;
        let engine = Engine::new(resources, Config::default());
        let (agenda, starts) = (BTreeMap::new(), Vec::new());
        let mut site = Site { engine, agenda, serial: 0, starts, shadow: None, came: Came::Right };
        for (id, t_submit, queue, slots, duration, priority) in DAY {
            let queue = (!queue.is_empty()).then(|| queue.to_owned());
            let simple =
                Simple { slots, duration, queue, command: vec!["true".to_owned()], ..Simple::default() };
            let (id, jobspec) = (JobId(id), Arc::new(simple.build()));
            site.put(t_submit, Event::Alloc { id, priority, userid: 1000, t_submit, jobspec });
        }
        site
    }

    fn put(&mut self, at: f64, event: Event) {
        self.serial += 1;
        self.agenda.insert((at as u64, self.serial), event);
    }

    fn came(&mut self, came: Came) {
        if matches!(self.came, Came::Right | Came::Cold) {
            self.came = came;
        }
    }

    /// Carries out actions; true if the active policy failed.
    fn carry_out(&mut self, actions: Vec<Action>, now: f64) -> bool {
        let mut failed = false;
        for action in actions {
            match action {
                Action::Start { id, r, .. } => {
                    self.starts.push((now, id.0, r.to_value().to_string()));
                    let duration = DAY[id.0 as usize - 1].4;
                    self.step(Event::Committed { id }, now);
                    self.put(now + duration, Event::Free { id, ranks: None, last: true });
                }
                Action::Notice(PolicyNotice::Failed { error, .. }) => {
                    failed = true;
                    self.failed(Came::Out, &error);
                }
                Action::Notice(PolicyNotice::SwapFailed { error, .. }) => self.failed(Came::Stays, &error),
                Action::Notice(PolicyNotice::Swapped { state, .. }) if !state && now > 0.0 => {
                    self.came(Came::Cold);
                }
                Action::Deny { id, note } => panic!("job {id} is denied: {note}"),
                _ => {}
            }
        }
        failed
    }

    fn failed(&mut self, who: fn(&'static str) -> Came, error: &PolicyError) {
        assert!(error.to_string().len() < 2000, "a bounded message: {error}");
        self.came(who(error.limit()));
    }

    fn step(&mut self, event: Event, now: f64) {
        let copy = event.clone();
        let actions = self.engine.step(event, now);
        if let Some(shadow) = &mut self.shadow {
            shadow.step(copy, now);
        }
        self.carry_out(actions, now);
    }

    fn swap(&mut self, policy: Box<WasmPolicy>, now: f64) {
        match self.engine.swap(policy) {
            Ok(actions) => {
                self.carry_out(actions, now);
            }
            Err(SwapError::Failed { error, .. }) => self.failed(Came::Stays, &error),
            Err(error) => panic!("swaps come one by one: {error}"),
        }
    }

    fn pass(&mut self, now: f64) {
        let before = self.engine.stats().builtin_passes;
        let actions = self.engine.pass(now);
        let passed = self.engine.decisions(&actions);
        if let Some(shadow) = &mut self.shadow
            && let Err(error) = shadow.pass(now, &passed)
        {
            match error {
                ShadowError::Failed(error) => self.failed(Came::Ended, &error),
                ShadowError::LostTrack { .. } => panic!("{error}"),
            }
            self.shadow = None;
        }
        if self.carry_out(actions, now) {
            assert!(
                self.engine.stats().builtin_passes > before,
                "the built-in policy decides in the same pass"
            );
        }
    }

    fn day(host: &Host, part: Part) -> Site {
        let mut site = Site::new();
        let mut part = Some(part);
        site.swap(host.good(), 0.0);
        while let Some(&(at, _)) = site.agenda.keys().next() {
            let now = at as f64;
            if at == COMES
                && let Some(Part::Shadows(bad)) = part.take_if(|part| matches!(part, Part::Shadows(_)))
            {
                let mut shadow = Shadow::new(site.engine.shadow_base(), bad, None);
                shadow.take(site.engine.shadow_jobs(None, DAY.len()));
                site.shadow = Some(shadow);
            }
            while let Some(entry) = site.agenda.first_entry().filter(|entry| entry.key().0 == at) {
                let event = entry.remove();
                site.step(event, now);
            }
            if at == COMES {
                match part.take() {
                    Some(Part::Decides(bad)) => site.swap(bad, now),
                    Some(Part::None) => site.swap(host.good(), now),
                    Some(Part::Refused(word)) => site.came(Came::Refused(word)),
                    Some(Part::Shadows(_)) | None => {}
                }
            }
            if at == GOES {
                site.swap(host.good(), now);
            }
            for _ in 0..10 {
                if site.engine.needs_pass(now) {
                    site.pass(now);
                }
            }
            assert!(!site.engine.needs_pass(now), "passes come to an end");
        }
        site
    }
}

/// One cell: no job is lost, started twice, started otherwise or beyond bounds.
fn cell(host: &Host, reference: &[Start], mode: &str, moment: &str) -> Came {
    let bad = host.bad(mode, moment);
    let meter: Option<Arc<Meter>> = bad.as_ref().ok().map(WasmPolicy::meter);
    let part = match bad {
        Ok(bad) if moment == "shadow" => Part::Shadows(Box::new(bad)),
        Ok(bad) => Part::Decides(Box::new(bad)),
        Err(error) => {
            assert!(error.to_string().len() < 2000, "{mode} at {moment}: a bounded message: {error}");
            Part::Refused(reason(&error))
        }
    };
    let site = Site::day(host, part);
    let what = || format!("{mode} at {moment}: {:?}", site.came);
    assert_eq!(site.starts, reference, "{}", what());
    assert_eq!((site.engine.pending(), site.engine.running()), (0, 0), "{}", what());
    let out = matches!(site.came, Came::Out(_));
    assert_eq!(site.engine.stats().policy_failures, u64::from(out), "{}", what());
    assert_eq!(site.engine.policy_name(), "broken", "{}: the good one decides in the end", what());
    if let Some(snapshot) = meter.map(|meter| meter.snapshot()) {
        assert!(snapshot.memory <= MEMORY_MIB << 20, "{}: {snapshot:?}", what());
        let calls: u64 = snapshot.calls.iter().map(|call| call.calls).sum();
        let Limits { log_burst, log_refill, .. } = Limits::default();
        let most = u64::from(log_burst) + calls * u64::from(log_refill);
        assert!(snapshot.log_written <= most, "{}: {snapshot:?}", what());
        if mode == "drip" {
            let (.., export) = MOMENTS.into_iter().find(|(name, ..)| *name == moment).unwrap();
            let fuel = call(&snapshot, export);
            assert!((FUEL / 10 * 8..=FUEL).contains(&fuel), "{}: just under the limit: {fuel}", what());
        }
    }
    site.came
}

/// A figure of this process from the kernel, MiB.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn every_misdeed_at_every_moment_is_contained() {
    let host = Host::new();
    let reference = Site::day(&host, Part::None);
    assert_eq!(reference.came, Came::Right);
    let mut ids: Vec<u64> = reference.starts.iter().map(|(_, id, _)| *id).collect();
    ids.sort_unstable();
    assert_eq!(ids, DAY.map(|(id, ..)| id), "each of them starts, once");
    let before = status("VmRSS:");

    let mut table = String::from("| misdeed |");
    MOMENTS.iter().for_each(|(moment, ..)| write!(table, " {moment} |").unwrap());
    table += &format!("\n|--|{}", "--|".repeat(MOMENTS.len()));
    for (misdeed, mode, kinds) in MISDEEDS {
        write!(table, "\n| {misdeed} |").unwrap();
        for (moment, ..) in MOMENTS {
            if meaningless(mode, moment) {
                table += " - |";
                continue;
            }
            let came = cell(&host, &reference.starts, mode, moment);
            assert!(came.is_of(moment), "{mode} at {moment}: {came:?}");
            assert!(kinds.contains(&came.word()), "{mode} at {moment}: {came:?}, expected one of {kinds:?}");
            write!(table, " {} |", came.word()).unwrap();
        }
    }
    let grown = status("VmHWM:").saturating_sub(before);
    assert!(grown < GROWTH_MIB, "the process grew by {grown} MiB");

    insta::assert_snapshot!("matrix", table);
    let page = std::fs::read_to_string(root().join("docs/containment.md")).unwrap();
    assert!(page.contains(&table), "docs/containment.md shows another table than this:\n{table}");
}
