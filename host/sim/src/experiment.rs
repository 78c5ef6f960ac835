//! Experiments: policies with many settings, on parts of logs or on workloads of a model, for several seeds. An experiment is
//! a TOML text:
//!
//! ```toml
//! policies = ["hybrid", "easy-plus-plus"]
//! seeds = [1, 2, 3]               # of estimates, and of workloads of a model; [1] by default
//! samples = 10                    # this many combinations of settings, drawn with the first seed; all by default
//! estimates = "perturbed:3"       # as logged by default
//! machine = "256"                 # by default that of the header
//! semantics = "fluxgate"
//! rules = "backfill=none"
//! uncounted = 100
//! check = true                    # by the independent judge
//!
//! [space]                         # the values of each setting
//! depth = [1, 2, 4]
//!
//! [[part]]
//! name = "spring"
//! log = "KTH.swf.gz"              # beside this file
//! map = "width=larger"
//! jobs = "1981+1024"              # or from and until, seconds in the time of the log
//! load = 1.2
//!
//! [[part]]
//! name = "made"
//! model = "lublin99"
//! count = 1000
//! cores = 64
//! ```
//!
//! Every combination is a replay. [`plan`] lists them, [`results`] keeps their figures.
//!
//! This module does not know how a policy is executed. (`sweep` is the check of schedules.)

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use fluxgate_formats::jobspec::JobAttributes;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::bootstrap::Numbers;
use crate::machine::Machine;
use crate::model;
use crate::parts::{Sequence, sequences};
use crate::rules::{Rules, Semantics};
use crate::swf::Header;
use crate::transform::{Estimates, Transform};
use crate::words;
use crate::workload::{Job, Options, Workload};

pub mod plan;
pub mod results;

/// Largest file of an experiment, in bytes.
pub const BYTES_MAX: u64 = 1 << 20;

/// Most replays of an experiment.
pub const REPLAYS_MAX: usize = 100_000;

/// Most jobs of a workload of a model.
pub const MADE_MAX: usize = 10_000_000;

/// The models of which workloads can be made.
const MODELS: [&str; 2] = ["lublin99", "downey97"];

/// A description of replays; see the [module](self).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Policies, by name or .wasm file, also with settings of their own: hybrid:depth=4. At least one.
    pub policies: Vec<String>,
    /// Seeds of estimates and of workloads of a model, at least one; 1 by default.
    #[serde(default = "first_seed")]
    pub seeds: Vec<u64>,
    /// Number of combinations of settings that are drawn, 1 or more; `None` for all.
    pub samples: Option<usize>,
    /// The requested durations of jobs, as [`words::estimates`] reads them; `None` for those of the log.
    pub estimates: Option<String>,
    /// The machine, in words or as a file; `None` for that of the log's header or of the model.
    pub machine: Option<String>,
    /// A name of [`Semantics`]; empty for those of this simulator.
    #[serde(default)]
    pub semantics: String,
    /// Rules that differ from these.
    #[serde(default)]
    pub rules: String,
    /// Number of the first jobs of each part that are in no metric.
    #[serde(default)]
    pub uncounted: usize,
    /// True if schedules are checked by the independent judge; true by default.
    #[serde(default = "yes")]
    pub check: bool,
    /// The values of each setting of the policies, by name; at least one each.
    #[serde(default)]
    pub space: BTreeMap<String, Vec<toml::Value>>,
    /// The parts, at least one, with different names.
    #[serde(rename = "part")]
    pub parts: Vec<Workpart>,
}

/// A part of a log, or a workload of a model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workpart {
    /// Its name in the table.
    pub name: String,
    /// The log, a path that is relative to the folder of the experiment; `None` with a model.
    pub log: Option<String>,
    /// How lines become jobs, as [`words::mapped`] reads it.
    #[serde(default)]
    pub map: String,
    /// Jobs by index and length, see [`Sequence`]; `None` for all.
    pub jobs: Option<String>,
    /// Only jobs submitted at this time or later, seconds in the time base of the workload.
    pub from: Option<f64>,
    /// Only jobs submitted before this time, in seconds likewise.
    pub until: Option<f64>,
    /// Factor of the arrival rate, finite and above 0; `None` for 1.
    pub load: Option<f64>,
    /// Name of the model instead of a log: `lublin99` or `downey97`.
    pub model: Option<String>,
    /// Number of jobs of the model, 1 to [`MADE_MAX`]; 0 with a log.
    #[serde(default)]
    pub count: usize,
    /// Number of cores of the machine of the model, 1 or more; 0 with a log.
    #[serde(default)]
    pub cores: u32,
}

fn first_seed() -> Vec<u64> {
    vec![1]
}

fn yes() -> bool {
    true
}

/// Settings of a policy, by name.
pub type Settings = BTreeMap<String, String>;

/// The jobs of a part for a seed, and their machine.
#[derive(Debug, Clone)]
pub struct Made {
    /// By submission and id.
    pub jobs: Vec<Job>,
    /// Attributes of jobs, by [`Job::attributes`].
    pub attributes: Arc<[JobAttributes]>,
    /// The machine.
    pub machine: Machine,
    /// The identity of the machine: its nodes and cores and, for a machine in a file, a hash of the file.
    pub described: String,
}

impl Experiment {
    /// Reads and checks an experiment.
    ///
    /// # Errors
    /// The first field that is not accepted, what was found and what is accepted.
    pub fn parse(text: &str) -> Result<Experiment, String> {
        let experiment: Experiment = toml::from_str(text).map_err(|error| error.to_string())?;
        experiment.check()?;
        Ok(experiment)
    }

    fn check(&self) -> Result<(), String> {
        let filled = [
            ("policies", self.policies.is_empty()),
            ("seeds", self.seeds.is_empty()),
            ("part", self.parts.is_empty()),
        ];
        if let Some((field, _)) = filled.iter().find(|(_, empty)| *empty) {
            return Err(format!("{field}: found none, accepted is at least 1"));
        }
        if self.samples == Some(0) {
            return Err("samples: found 0, accepted is 1 or more".to_owned());
        }
        self.estimates().map_err(|wrong| format!("estimates: {wrong}"))?;
        self.rules()?;
        for (setting, values) in &self.space {
            if values.is_empty() {
                return Err(format!("space, {setting}: found no value, accepted is at least 1"));
            }
            values
                .iter()
                .try_for_each(|value| self::value(value).map(drop))
                .map_err(|wrong| format!("space, {setting}: {wrong}"))?;
        }
        let mut names = BTreeSet::new();
        for part in &self.parts {
            if !names.insert(&part.name) {
                return Err(format!("part {}: found a second one of this name", part.name));
            }
            part.check().map_err(|wrong| format!("part {}: {wrong}", part.name))?;
        }
        let replays = [self.combinations_count(), self.policies.len(), self.seeds.len(), self.parts.len()];
        let replays = replays.iter().fold(1_usize, |all, count| all.saturating_mul(*count));
        if replays > REPLAYS_MAX {
            return Err(format!("found {replays} replays, accepted are at most {REPLAYS_MAX}"));
        }
        Ok(())
    }

    /// The requested durations of jobs.
    ///
    /// # Errors
    /// The text found and what is accepted.
    pub fn estimates(&self) -> Result<Estimates, String> {
        self.estimates.as_deref().map_or(Ok(Estimates::Logged), words::estimates)
    }

    /// Its semantics.
    ///
    /// # Errors
    /// There are none of this name; the message lists all names.
    pub fn semantics(&self) -> Result<Semantics, String> {
        if self.semantics.is_empty() { Ok(Semantics::default()) } else { Semantics::named(&self.semantics) }
    }

    /// Its rules.
    ///
    /// # Errors
    /// An unknown name or value of semantics or of a rule.
    pub fn rules(&self) -> Result<Rules, String> {
        let mut rules = self.semantics().map_err(|wrong| format!("semantics: {wrong}"))?.rules();
        rules.set_all(&self.rules).map_err(|wrong| format!("rules: {wrong}"))?;
        Ok(rules)
    }

    fn grid_count(&self) -> usize {
        self.space.values().fold(1_usize, |all, values| all.saturating_mul(values.len()))
    }

    fn combinations_count(&self) -> usize {
        self.samples.map_or(usize::MAX, |samples| samples).min(self.grid_count())
    }

    /// Every combination of the values of settings, the last setting by name changing first; with `samples` this many different
    /// ones of them, drawn with the first seed, in the same order.
    pub fn combinations(&self) -> Vec<Settings> {
        let (total, count) = (self.grid_count(), self.combinations_count());
        let numbers: BTreeSet<usize> = match count < total {
            false => (0..total).collect(),
            true => {
                let mut draws = Numbers(self.seeds.first().copied().unwrap_or(1));
                // Floyd's algorithm: each set of this many numbers is as likely as each other.
                let mut chosen = BTreeSet::new();
                for most in total - count..total {
                    let drawn = draws.below(most + 1);
                    if !chosen.insert(drawn) {
                        chosen.insert(most);
                    }
                }
                chosen
            }
        };
        numbers.into_iter().map(|number| self.combination(number)).collect()
    }

    fn combination(&self, mut number: usize) -> Settings {
        let mut settings = Settings::new();
        for (setting, values) in self.space.iter().rev() {
            // Values were checked.
            settings.insert(setting.clone(), value(&values[number % values.len()]).unwrap_or_default());
            number /= values.len();
        }
        settings
    }

    /// The jobs and the machine of a part for a seed; `folder` is that of the experiment.
    ///
    /// # Errors
    /// The log or the machine cannot be read, jobs ask for whole nodes of unequal cores, or the part has no job that counts.
    pub fn make(&self, part: &Workpart, seed: u64, folder: &Path) -> Result<Made, String> {
        let options = Options { attributes: true, ..self.semantics()?.options() };
        let mut workload = part.workload(options, seed, folder)?;
        let attributes = std::mem::take(&mut workload.attributes).into();
        let transform = Transform {
            from: part.from,
            until: part.until,
            load: part.load,
            estimates: self.estimates()?,
            seed,
        };
        transform.apply(&mut workload.jobs);
        let (machine, described) =
            self.machine(&workload.header, folder).map_err(|error| format!("machine: {error}"))?;
        if workload.jobs.iter().any(|job| job.nodes > 0) {
            let cores = machine.cores_per_node().map_err(|error| format!("map: {error}"))?;
            workload.jobs.iter_mut().for_each(|job| job.on_nodes_of(cores));
        }
        let jobs = match part.sequence()? {
            None => workload.jobs,
            Some(sequence) => {
                let parts = sequences(&workload.jobs, &[sequence]).map_err(|error| error.to_string())?;
                parts.into_iter().flat_map(|part| part.jobs).collect()
            }
        };
        if jobs.len() <= self.uncounted {
            let least = self.uncounted + 1;
            return Err(format!("found {} jobs, accepted are at least {least}", jobs.len()));
        }
        Ok(Made { jobs, attributes, machine, described })
    }

    fn machine(&self, header: &Header, folder: &Path) -> Result<(Machine, String), String> {
        let counts =
            |machine: &Machine| format!("{} nodes, {} cores", machine.cores.len(), machine.total_cores());
        let words =
            self.machine.as_deref().map_or_else(|| Some(Machine::from_header(header)), Machine::in_words);
        if let Some(machine) = words {
            let machine = machine.map_err(|error| error.to_string())?;
            let described = counts(&machine);
            return Ok((machine, described));
        }
        let path = folder.join(self.machine.as_deref().unwrap_or_default());
        let machine = Machine::load(&path).map_err(|error| error.to_string())?;
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let described = format!("{}, file {}", counts(&machine), plan::digits(&Sha256::digest(bytes)));
        Ok((machine, described))
    }
}

impl Workpart {
    fn sequence(&self) -> Result<Option<Sequence>, String> {
        let sequence = self.jobs.as_deref().map(str::parse).transpose();
        sequence.map_err(|wrong: String| format!("jobs: {wrong}"))
    }

    fn check(&self) -> Result<(), String> {
        if self.log.is_some() == self.model.is_some() {
            return Err("found both or none of log and model, accepted is one of them".to_owned());
        }
        words::mapped(Options::default(), &self.map).map_err(|wrong| format!("map: {wrong}"))?;
        self.sequence()?;
        if let Some(load) = self.load.filter(|load| !load.is_finite() || *load <= 0.0) {
            return Err(format!("load: found {load}, accepted is a number above 0"));
        }
        if let Some(model) = &self.model {
            if !MODELS.contains(&model.as_str()) {
                return Err(format!("model: found `{model}`, accepted is {}", MODELS.join(" or ")));
            }
            if self.count == 0 || self.count > MADE_MAX {
                return Err(format!("count: found {}, accepted are 1 to {MADE_MAX} jobs", self.count));
            }
            if self.cores == 0 || self.cores > model::CORES_MAX {
                return Err(format!("cores: found {}, accepted are 1 to {}", self.cores, model::CORES_MAX));
            }
            if !self.map.is_empty() {
                return Err("map: found with a model, accepted with a log".to_owned());
            }
        } else if self.count > 0 || self.cores > 0 {
            return Err("count, cores: found with a log, accepted with a model".to_owned());
        }
        Ok(())
    }

    /// True if the seed of a replay changes its jobs.
    fn has_seed(&self) -> bool {
        self.model.is_some()
    }

    fn workload(&self, options: Options, seed: u64, folder: &Path) -> Result<Workload, String> {
        if let Some(log) = &self.log {
            let options = words::mapped(options, &self.map).map_err(|wrong| format!("map: {wrong}"))?;
            let path = folder.join(log);
            let loaded = Workload::load(&path, &options).map_err(|error| error.to_string())?;
            return match loaded.jobs.iter().any(|job| job.jobspec > 0) {
                true => Err("map: found ask=jobspec, accepted is ask=cores".to_owned()),
                false => Ok(loaded),
            };
        }
        let jobs = match self.model.as_deref() {
            Some("downey97") => model::downey97(self.count, self.cores, seed),
            _ => model::lublin99(self.count, self.cores, seed),
        };
        let header = Header { max_procs: Some(self.cores), ..Header::default() };
        Ok(Workload { header, jobs, ..Workload::default() })
    }
}

/// The value of a setting as a policy takes it.
fn value(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(format!("{number:?}")),
        toml::Value::Boolean(truth) => Ok(truth.to_string()),
        other => Err(format!("found {other}, accepted are texts, numbers, true and false")),
    }
}

#[cfg(test)]
mod tests;
