//! The replays of an experiment, in order, each with the identity of its result.
//!
//! Must never know how a policy is executed.

use fluxgate_formats::jobspec::JobAttributes;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Experiment, Made, Settings};
use crate::workload::Job;

/// A replay of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Index of its policy.
    pub policy: usize,
    /// The settings that the experiment gives its policy.
    pub settings: Settings,
    /// Index of its part.
    pub part: usize,
    /// Its seed.
    pub seed: u64,
}

/// The identity of a result. A result is not taken for a replay that differs in any of these fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Identity<'a> {
    /// The policy with its own settings.
    pub policy: &'a str,
    /// The digest of the policy's component; empty for the built-in policy.
    pub code: &'a str,
    /// The settings that the experiment gives it.
    pub settings: &'a Settings,
    /// The name of the part.
    pub part: &'a str,
    /// The seed.
    pub seed: u64,
    /// The [`fingerprint`] of the jobs.
    pub jobs: &'a str,
    /// The machine, as [`Made::described`].
    pub machine: String,
    /// The options of the experiment as an object: machine, semantics, rules, jobs that do not count, and check.
    pub options: Value,
    /// The version of the program.
    pub version: &'a str,
}

impl Experiment {
    /// All replays: by policy, settings, part and seed.
    pub fn replays(&self) -> Vec<Replay> {
        let mut all = Vec::new();
        let combinations = self.combinations();
        for policy in 0..self.policies.len() {
            for settings in &combinations {
                for part in 0..self.parts.len() {
                    let one = |seed: &u64| Replay { policy, settings: settings.clone(), part, seed: *seed };
                    all.extend(self.seeds.iter().map(one));
                }
            }
        }
        all
    }

    /// True if the jobs of the part with this index differ from seed to seed.
    pub fn seed_changes(&self, part: usize) -> bool {
        let drawn = matches!(self.estimates(), Ok(crate::transform::Estimates::Perturbed(_)));
        drawn || self.parts.get(part).is_some_and(super::Workpart::has_seed)
    }

    /// The identity of the result of a replay. `code` is the digest of its component, `jobs` the [`fingerprint`] of its jobs.
    ///
    /// # Panics
    /// If the replay is of another experiment, with more policies or parts.
    pub fn identity<'a>(
        &'a self,
        replay: &'a Replay,
        (code, jobs): (&'a str, &'a str),
        made: &Made,
        version: &'a str,
    ) -> Identity<'a> {
        Identity {
            policy: &self.policies[replay.policy],
            code,
            settings: &replay.settings,
            part: &self.parts[replay.part].name,
            seed: replay.seed,
            jobs,
            machine: made.described.clone(),
            options: json!({
                "machine": self.machine,
                "semantics": self.semantics,
                "rules": self.rules,
                "uncounted": self.uncounted,
                "check": self.check,
            }),
            version,
        }
    }
}

/// A hash of the jobs of a replay and of their attributes, in 32 hexadecimal digits. Of complete requests only the numbers are in
/// it.
pub fn fingerprint(jobs: &[Job], attributes: &[JobAttributes]) -> String {
    let mut hasher = Sha256::new();
    for job in jobs {
        let Job {
            id,
            submit,
            cores,
            limit,
            run,
            runs_on,
            user,
            nodes,
            queue,
            jobspec,
            memory_kb,
            attributes,
        } = job;
        for number in [id.0, submit.to_bits(), limit.to_bits(), run.to_bits(), *memory_kb] {
            hasher.update(number.to_le_bytes());
        }
        for number in [*cores, *user, *nodes, *queue, *jobspec, *attributes, u32::from(*runs_on)] {
            hasher.update(number.to_le_bytes());
        }
    }
    for known in attributes {
        hasher.update(format!("{known:?}\n"));
    }
    digits(&hasher.finalize())
}

/// The first half of a SHA-256 in hexadecimal digits.
pub(super) fn digits(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
