//! The settings that an administrator makes: the `[sched-fluxgate]` table of a Flux configuration, and the
//! same keys as `KEY=VALUE` arguments.
//!
//! Arguments win over the table, the table over the defaults. A set of settings is checked as a whole before
//! any of it is used: either all of it is good, or it is refused with the key, the value found and the
//! accepted ones. Every key is described once, in [`KEYS`].
//!
//! This module must never apply anything, and must never know the protocol or the graph.

mod faults;
mod flux;
mod guard;
mod keys;
mod queue;
mod reservations;
mod resources;
mod value;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::Config as EngineConfig;
use fluxgate_graph::{Placement, RecordFormat, SiteRules};
use fluxgate_wire::session::{AUDIT_PERIOD, Mode, SessionConfig, WATCH_PERIOD};
use serde_json::{Map, Value, json};
use tracing::level_filters::LevelFilter;

use faults::Refusal;
pub use faults::{Fault, faults};
pub use flux::FluxTables;
pub use guard::{Guard, Rules};
pub(crate) use keys::FIXED;
pub use keys::{KEYS, Key};
use keys::{argument_names, key, names};
use queue::Queue;
pub use queue::QueuePolicy;
pub use reservations::{Lost, Makers, Reservations};
use value::Given;
pub(crate) use value::shortened;

/// Name of the table in a Flux configuration.
pub const TABLE: &str = "sched-fluxgate";
/// The policy of a site that names none.
pub const POLICY_DEFAULT: &str = "easy";
/// Largest configuration file that is read, in bytes.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Most keys of `policy-config`.
const POLICY_KEYS_MAX: usize = 256;
/// Longest name of a queue, in bytes.
const QUEUE_BYTES_MAX: usize = 256;
/// Most queues with settings of their own.
const QUEUES_MAX: usize = 1024;
/// Seconds between two forecasts where a site says nothing.
const ESTIMATES: f64 = 60.0;
/// Longest period in seconds: a year.
const PERIOD_MAX: f64 = 366.0 * 86_400.0;

/// The source of a setting, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Source {
    /// The setting was not made.
    #[default]
    Default,
    /// The `[sched-fluxgate]` table.
    Table,
    /// An argument of the module, or a flag.
    Argument,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Default => "default",
            Source::Table => "table",
            Source::Argument => "argument",
        })
    }
}

/// The least serious level of lines that are logged, by the names of Flux (syslog).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// The system is unusable.
    Emerg,
    /// Action is needed at once.
    Alert,
    /// A critical condition.
    Crit,
    /// An error.
    Err,
    /// A warning.
    Warning,
    /// Normal, but significant.
    Notice,
    /// Of interest.
    #[default]
    Info,
    /// Of use when looking for a fault.
    Debug,
}

impl LogLevel {
    const ALL: [(&'static str, LogLevel); 8] = [
        ("emerg", LogLevel::Emerg),
        ("alert", LogLevel::Alert),
        ("crit", LogLevel::Crit),
        ("err", LogLevel::Err),
        ("warning", LogLevel::Warning),
        ("notice", LogLevel::Notice),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        LogLevel::ALL.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }

    /// The level of this program's own log, which has fewer levels.
    pub fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Emerg | LogLevel::Alert | LogLevel::Crit | LogLevel::Err => LevelFilter::ERROR,
            LogLevel::Warning => LevelFilter::WARN,
            LogLevel::Notice | LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// An argument that flux-core's own schedulers take for their tests.
const NOPARTIAL: &str = "test-hello-nopartial";

/// All settings. [`Settings::default`] has those of a site that sets nothing. Periods are in seconds, at most 366 days.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of a policy, or the path of a `.wasm` file. Default: `easy`.
    pub policy: String,
    /// Settings of that policy; checked against its description when it is loaded.
    pub policy_config: BTreeMap<String, String>,
    /// Folder with policies; `None` is the default one.
    pub policies: Option<PathBuf>,
    /// The rules to which components have to keep.
    pub rules: Rules,
    /// File of the audit trail; `None` is the default place.
    pub audit_trail: Option<PathBuf>,
    /// Most requests that the job manager may have outstanding (RFC 27 ready), 1..=2147483647; `None` is
    /// unlimited.
    pub queue_depth: Option<u32>,
    /// The placement of jobs for which neither jobspec nor policy nor queue names one.
    pub placement: Placement,
    /// As [`EngineConfig::record_format`].
    pub record_format: RecordFormat,
    /// As [`EngineConfig::site_rules`].
    pub site_rules: SiteRules,
    /// Settings of single queues, by name.
    queues: BTreeMap<String, Queue>,
    /// The queues that there are, if the configuration says so.
    queues_there: Option<BTreeSet<String>>,
    /// The parents of virtual queues, by queue (RFC 33).
    pub virtual_queues: BTreeMap<String, String>,
    /// The other tables of the configuration of Flux.
    pub flux: FluxTables,
    /// As [`EngineConfig::annotate`].
    pub annotate: bool,
    /// As [`EngineConfig::annotate_reason`].
    pub annotate_reason: bool,
    /// Seconds between two forecasts of the starts of waiting jobs; 0 is never. Default 60.
    pub estimates: f64,
    /// See [`LogLevel`].
    pub log_level: LogLevel,
    /// As [`EngineConfig::candidates_per_pass_max`].
    pub candidates_per_pass_max: u64,
    /// As [`EngineConfig::decisions_per_pass_max`].
    pub decisions_per_pass_max: u64,
    /// As [`EngineConfig::reservations_max`].
    pub reservations_max: u64,
    /// As [`EngineConfig::queues_max`].
    pub queues_max: u64,
    /// As [`EngineConfig::annotation_bytes_per_job_max`].
    pub annotation_bytes_per_job_max: u64,
    /// As [`EngineConfig::annotation_bytes_per_pass_max`].
    pub annotation_bytes_per_pass_max: u64,
    /// The settings of reservations of administrators.
    pub reservations: Reservations,
    /// The settings that bound policies.
    pub guard: Guard,
    /// Folder in which policies keep their states over a restart; `None` keeps them in memory only.
    pub policy_state: Option<PathBuf>,
    /// Folder of the journal; `None` is no journal.
    pub journal: Option<PathBuf>,
    /// Most bytes of the journal, 1 MiB to 1 TiB. Default 256 MiB.
    pub journal_size: u64,
    /// Seconds between two looks at the job manager's view of the scheduler; 0 is never.
    pub watch_period: f64,
    /// Seconds between two audits of the ledger; 0 is never.
    pub audit_period: f64,
    /// True if hello says that partially released jobs are understood (RFC 27). Default true; changed by an argument only.
    pub hello_partial: bool,
    /// Where each key comes from; a key that is not in here has its default.
    sources: BTreeMap<&'static str, Source>,
}

impl Default for Settings {
    fn default() -> Self {
        let engine = EngineConfig::default();
        Settings {
            policy: POLICY_DEFAULT.to_owned(),
            policy_config: BTreeMap::new(),
            policies: None,
            rules: Rules::default(),
            audit_trail: None,
            queue_depth: None,
            placement: engine.placement,
            record_format: engine.record_format,
            site_rules: engine.site_rules,
            queues: BTreeMap::new(),
            queues_there: None,
            virtual_queues: BTreeMap::new(),
            flux: FluxTables::default(),
            annotate: engine.annotate,
            annotate_reason: engine.annotate_reason,
            estimates: ESTIMATES,
            log_level: LogLevel::default(),
            candidates_per_pass_max: engine.candidates_per_pass_max,
            decisions_per_pass_max: engine.decisions_per_pass_max,
            reservations_max: engine.reservations_max as u64,
            queues_max: engine.queues_max as u64,
            annotation_bytes_per_job_max: engine.annotation_bytes_per_job_max,
            annotation_bytes_per_pass_max: engine.annotation_bytes_per_pass_max,
            reservations: Reservations::default(),
            guard: Guard::default(),
            policy_state: None,
            journal: None,
            journal_size: fluxgate_journal::options::BYTES_DEFAULT,
            watch_period: WATCH_PERIOD.as_secs_f64(),
            audit_period: AUDIT_PERIOD.as_secs_f64(),
            hello_partial: true,
            sources: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// The settings of a `[sched-fluxgate]` table over the defaults; `null` is an empty table.
    ///
    /// # Errors
    /// The first key that is unknown or has a value that is not accepted, or queues that do not fit together.
    pub fn from_table(table: &Value) -> Result<Settings> {
        let mut settings = Settings::default();
        let table = match table {
            Value::Null => return Ok(settings),
            Value::Object(table) => table,
            other => {
                let found = value::kind(other).to_owned();
                return Err(Refusal::Value { expected: "a table".to_owned(), found })
                    .with_context(|| format!("[{TABLE}]"));
            }
        };
        // First the policy, then its settings: see `set`.
        for first in [true, false] {
            for (name, value) in table.iter().filter(|(name, _)| (*name == "policy") == first) {
                settings
                    .set(name, Given::Json(value), Source::Table)
                    .with_context(|| format!("[{TABLE}] {name}"))?;
            }
        }
        settings.check_queues().with_context(|| format!("[{TABLE}]"))?;
        Ok(settings)
    }

    /// The settings in a whole Flux configuration: its `[sched-fluxgate]` table, if it has one.
    ///
    /// # Errors
    /// As [`Settings::from_table`]; and if the configuration is no object.
    pub fn from_config(config: &Value) -> Result<Settings> {
        match config {
            Value::Null => Ok(Settings::default()),
            Value::Object(tables) => {
                let mut settings = Settings::from_table(tables.get(TABLE).unwrap_or(&Value::Null))?;
                settings.queues_there = Settings::queues_in(tables);
                settings.virtual_queues = Settings::virtual_queues_in(tables);
                settings.flux = FluxTables::read(config);
                settings.check_queues().with_context(|| format!("[{TABLE}]"))?;
                Ok(settings)
            }
            other => bail!("configuration: expected an object, found {}", value::kind(other)),
        }
    }

    /// These settings with `KEY=VALUE` arguments over them, as a broker hands them to a module. A later
    /// argument wins over an earlier one.
    ///
    /// # Errors
    /// The first argument that is unknown or has a value that is not accepted, or queues that do not fit together.
    pub fn with_args<S: AsRef<str>>(mut self, args: &[S]) -> Result<Settings> {
        let policy = |arg: &&str| {
            let name = arg.split_once('=').map_or(*arg, |(name, _)| name);
            name == "policy" || name.starts_with("queues.") && name.ends_with(".policy")
        };
        for first in [true, false] {
            for arg in args.iter().map(AsRef::as_ref).filter(|arg| policy(arg) == first) {
                self.argument(arg).with_context(|| format!("argument {:?}", shortened(arg)))?;
            }
        }
        self.check_queues()?;
        Ok(self)
    }

    fn argument(&mut self, arg: &str) -> Result<()> {
        if arg == NOPARTIAL {
            self.hello_partial = false;
            return Ok(());
        }
        let Some((name, text)) = arg.split_once('=') else {
            bail!("expected KEY=VALUE or {NOPARTIAL}, with KEY one of {}", argument_names());
        };
        if let Some(key) = name.strip_prefix("policy.") {
            self.sources.insert("policy-config", Source::Argument);
            return self.policy_setting(key, text.to_owned());
        }
        if let Some(rest) = name.strip_prefix("queues.") {
            self.sources.insert("queues", Source::Argument);
            return self.queue_argument(rest, text);
        }
        if let Some(key) = name.strip_prefix("reservations.") {
            self.sources.insert("reservations", Source::Argument);
            return self.reservations.set(key, Given::Text(text));
        }
        if let Some(key) = name.strip_prefix("resources.") {
            self.sources.insert("resources", Source::Argument);
            return resources::set(&mut self.site_rules, key, Given::Text(text));
        }
        if let Some(limit) = name.strip_prefix("limits.") {
            self.sources.insert("limits", Source::Argument);
            return self.guard.limit(limit, Given::Text(text));
        }
        match (name, text.strip_prefix("limited=")) {
            ("mode", Some(depth)) => self.set("queue-depth", Given::Text(depth), Source::Argument),
            ("mode", None) if text == "unlimited" => {
                self.set("queue-depth", Given::Text(text), Source::Argument)
            }
            ("mode", None) => bail!("mode: expected unlimited or limited=N, found {text:?}"),
            ("queues", _) => bail!(
                "expected queues.QUEUE.placement=NAME for the placement of a queue, queues.QUEUE.policy=NAME for its policy"
            ),
            ("reservations", _) => {
                bail!(
                    "expected reservations.KEY=VALUE, with KEY one of create, margin, lost, banks, start-queues, wait-for-nodes"
                )
            }
            ("resources", _) => {
                bail!("expected resources.by-unit=TYPE,... or resources.nodes-below.ATTRIBUTE=PROPERTY")
            }
            ("limits", _) => bail!("expected limits.LIMIT=NUMBER for a bound of components"),
            ("policy-config", _) => bail!("expected policy.KEY=VALUE for a setting of the policy"),
            _ => self.set(name, Given::Text(text), Source::Argument),
        }
    }

    /// Set one key. Another policy than the one so far begins with no settings: those of a
    /// weaker source belong to the policy of that source.
    fn set(&mut self, name: &str, given: Given<'_>, source: Source) -> Result<()> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            match source {
                Source::Argument => bail!(Refusal::Key { known: argument_names() }),
                _ => bail!(Refusal::Key { known: names() }),
            }
        };
        match key.name {
            "policy" => {
                let policy = given.text(key, 4096)?.to_owned();
                if policy.contains('/') {
                    given.absolute(key)?;
                }
                if policy != self.policy {
                    self.policy_config.clear();
                    self.sources.remove("policy-config");
                }
                self.policy = policy;
            }
            "policy-config" => {
                let Given::Json(Value::Object(table)) = given else { return Err(given.refused(key)) };
                for (name, text) in queue::config(table)? {
                    self.policy_setting(&name, text)?;
                }
            }
            "policies" => self.policies = Some(given.absolute(key)?),
            "require-manifest" => self.rules.manifest = given.flag(key)?,
            "require-signature" => self.rules.signature = given.flag(key)?,
            "audit-trail" => self.audit_trail = Some(given.absolute(key)?),
            "trusted-keys" => self.rules.keys = Some(given.absolute(key)?),
            "queue-depth" => {
                self.queue_depth = match given {
                    Given::Text("unlimited") => None,
                    Given::Json(Value::String(text)) if text == "unlimited" => None,
                    given => Some(given.whole(key, 1, i32::MAX as u64)? as u32),
                }
            }
            "placement" => {
                self.placement =
                    Placement::from_name(given.text(key, 64)?).ok_or_else(|| given.refused(key))?;
            }
            "record-format" => {
                self.record_format =
                    RecordFormat::from_name(given.text(key, 64)?).ok_or_else(|| given.refused(key))?;
            }
            "queues" => {
                let Given::Json(Value::Object(table)) = given else { return Err(given.refused(key)) };
                self.queue_table(table)?;
            }
            "reservations" => {
                let Given::Json(Value::Object(table)) = given else { return Err(given.refused(key)) };
                self.reservations.set_table(table)?;
            }
            "resources" => {
                let Given::Json(Value::Object(table)) = given else { return Err(given.refused(key)) };
                resources::set_table(&mut self.site_rules, table)?;
            }
            "annotate" => self.annotate = given.flag(key)?,
            "annotate-reason" => self.annotate_reason = given.flag(key)?,
            "estimates" => self.estimates = given.seconds(key, PERIOD_MAX)?,
            "log-level" => {
                let name = given.text(key, 64)?.to_lowercase();
                let level = LogLevel::ALL.iter().find(|(known, _)| *known == name);
                self.log_level = level.ok_or_else(|| given.refused(key))?.1;
            }
            "candidates-per-pass-max" => {
                self.candidates_per_pass_max = given.whole(key, 1, 1_000_000_000)?;
            }
            "decisions-per-pass-max" => self.decisions_per_pass_max = given.whole(key, 1, 10_000_000)?,
            "reservations-max" => self.reservations_max = given.whole(key, 0, 1_000_000)?,
            "queues-max" => self.queues_max = given.whole(key, 1, 65_536)?,
            "annotation-bytes-per-job-max" => {
                self.annotation_bytes_per_job_max = given.whole(key, 0, 1 << 20)?;
            }
            "annotation-bytes-per-pass-max" => {
                self.annotation_bytes_per_pass_max = given.whole(key, 0, 64 << 20)?;
            }
            "policy-state" => self.policy_state = Some(given.absolute(key)?),
            "journal" => self.journal = Some(given.absolute(key)?),
            "journal-size" => {
                self.journal_size = given.bytes(key, fluxgate_journal::options::BYTES_MIN, 1 << 40)?;
            }
            "watch-period" => self.watch_period = given.seconds(key, PERIOD_MAX)?,
            "audit-period" => self.audit_period = given.seconds(key, PERIOD_MAX)?,
            _ => self.guard.set(key, given)?,
        }
        self.sources.insert(key.name, source);
        Ok(())
    }

    fn policy_setting(&mut self, key: &str, value: String) -> Result<()> {
        if key.is_empty() {
            bail!("expected policy.KEY=VALUE, found no KEY");
        }
        self.policy_config.insert(key.to_owned(), value);
        if self.policy_config.len() > POLICY_KEYS_MAX {
            bail!("at most {POLICY_KEYS_MAX} settings of a policy are possible");
        }
        Ok(())
    }

    /// Keeps the former settings that a running scheduler cannot change: the queue depth, the journal and its size, and the
    /// rules about resources.
    pub fn keep_fixed_of(&mut self, before: &Settings) {
        self.queue_depth = before.queue_depth;
        (self.journal, self.journal_size) = (before.journal.clone(), before.journal_size);
        self.site_rules.clone_from(&before.site_rules);
        for key in FIXED.into_iter().chain(["queue-depth"]) {
            match before.sources.get(key) {
                Some(source) => self.sources.insert(key, *source),
                None => self.sources.remove(key),
            };
        }
    }

    /// The mode that RFC 27 ready tells the job manager, by the queue depth.
    pub fn mode(&self) -> Mode {
        self.queue_depth.map_or(Mode::Unlimited, Mode::Limited)
    }

    /// The periods in which the job manager is watched and the ledger audited; zero is never.
    pub fn periods(&self) -> (Duration, Duration) {
        let period = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        (period(self.watch_period), period(self.audit_period))
    }

    /// The session's part of the settings.
    pub fn session(&self) -> SessionConfig {
        let (watch, audit) = self.periods();
        SessionConfig {
            mode: self.mode(),
            partial_ok: self.hello_partial,
            watch,
            audit,
            ..SessionConfig::default()
        }
    }

    /// The engine's part of the settings.
    pub fn engine(&self) -> EngineConfig {
        EngineConfig {
            candidates_per_pass_max: self.candidates_per_pass_max,
            decisions_per_pass_max: self.decisions_per_pass_max,
            reservations_max: usize::try_from(self.reservations_max).unwrap_or(usize::MAX),
            queues_max: usize::try_from(self.queues_max).unwrap_or(usize::MAX),
            annotation_bytes_per_job_max: self.annotation_bytes_per_job_max,
            annotation_bytes_per_pass_max: self.annotation_bytes_per_pass_max,
            annotation_keys_per_job_max: self.guard.annotation_keys_per_job_max,
            annotations_per_pass_max: self.guard.annotations_per_pass_max,
            on_breach: self.guard.on_breach,
            placement: self.placement,
            record_format: self.record_format,
            site_rules: self.site_rules.clone(),
            queue_placements: self.queue_placements(),
            queue_bounds: self.queue_bounds(),
            annotate: self.annotate,
            annotate_reason: self.annotate_reason,
            ..EngineConfig::default()
        }
    }

    /// The source of a key; [`Source::Default`] for an unknown one.
    pub fn source(&self, key: &str) -> Source {
        self.sources.get(key).copied().unwrap_or_default()
    }

    /// One value as JSON, as a table would have it; `null` for an unknown key.
    pub fn value(&self, key: &str) -> Value {
        match key {
            "policy" => json!(self.policy),
            "policy-config" => json!(self.policy_config),
            "policies" => json!(self.policies),
            "require-manifest" => json!(self.rules.manifest),
            "require-signature" => json!(self.rules.signature),
            "audit-trail" => json!(self.audit_trail),
            "trusted-keys" => json!(self.rules.keys),
            "queue-depth" => self.queue_depth.map_or_else(|| json!("unlimited"), |depth| json!(depth)),
            "placement" => json!(self.placement.name()),
            "record-format" => json!(self.record_format.name()),
            "resources" => resources::value(&self.site_rules),
            "queues" => self.queues_value(),
            "reservations" => self.reservations.value(),
            "annotate" => json!(self.annotate),
            "annotate-reason" => json!(self.annotate_reason),
            "estimates" => json!(self.estimates),
            "log-level" => json!(self.log_level.name()),
            "candidates-per-pass-max" => json!(self.candidates_per_pass_max),
            "decisions-per-pass-max" => json!(self.decisions_per_pass_max),
            "reservations-max" => json!(self.reservations_max),
            "queues-max" => json!(self.queues_max),
            "annotation-bytes-per-job-max" => json!(self.annotation_bytes_per_job_max),
            "annotation-bytes-per-pass-max" => json!(self.annotation_bytes_per_pass_max),
            "policy-state" => json!(self.policy_state),
            "journal" => json!(self.journal),
            "journal-size" => json!(self.journal_size),
            "watch-period" => json!(self.watch_period),
            "audit-period" => json!(self.audit_period),
            other => self.guard.value(other),
        }
    }

    /// All settings as a JSON object by key, each with `value`, `source`, `accepts` and `meaning`.
    pub fn show(&self) -> Value {
        let shown = KEYS.iter().map(|key| {
            let entry = json!({
                "value": self.value(key.name),
                "source": self.source(key.name).to_string(),
                "accepts": key.accepts,
                "meaning": key.meaning,
            });
            (key.name.to_owned(), entry)
        });
        Value::Object(shown.collect::<Map<String, Value>>())
    }
}

/// The text of a Flux configuration file (TOML) as the object that a broker would make of it.
///
/// # Errors
/// The text is longer than [`CONFIG_BYTES_MAX`], or no TOML (the error has the line).
pub fn parse_config(text: &str) -> Result<Value> {
    if text.len() as u64 > CONFIG_BYTES_MAX {
        bail!("more than {CONFIG_BYTES_MAX} bytes");
    }
    let config: toml::Table = toml::from_str(text).map_err(|error| anyhow!("{error}"))?;
    Ok(serde_json::to_value(config)?)
}
