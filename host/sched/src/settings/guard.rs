//! The settings that bound policies: the bounds of components, the action after a breach.
//!
//! Must never know how any of it is enforced.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::{Config as EngineConfig, OnBreach};
use fluxgate_policy::Limits;
use serde_json::{Map, Value, json};

use super::value::{Given, kind};
use super::{Key, PERIOD_MAX};

/// The demands of a site on a component, beside that it is a valid one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// True if it must carry a manifest.
    pub manifest: bool,
    /// True if it must be signed with a trusted key.
    pub signature: bool,
    /// Folder of the public keys of trusted signers; `None` for no trusted key. With it a signature that is there must be good, demanded
    /// or not.
    pub keys: Option<PathBuf>,
}

/// Settings for policies that misbehave. [`Guard::default`] is the guard of a site that sets nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    /// Bounds of every component.
    pub limits: Limits,
    /// As [`EngineConfig::annotation_keys_per_job_max`].
    pub annotation_keys_per_job_max: u64,
    /// As [`EngineConfig::annotations_per_pass_max`].
    pub annotations_per_pass_max: u64,
    /// The behaviour after a policy failed.
    pub on_breach: OnBreach,
    /// Seconds for which a policy stays out after its first failure, twice as long after each further one; 0: it does not come back by
    /// itself. Default 30.
    pub quarantine: f64,
    /// Most seconds for which it stays out, at least [`Guard::quarantine`]. Default 3,600.
    pub quarantine_max: f64,
    /// Number of failures in a row, 0 to 100, after which it still comes back by itself. Default 3.
    pub quarantine_tries: u64,
    /// Rule for a policy on probation: most seconds of a pass; three passes in a row that take longer break it. 0 is no rule, the
    /// default of all such rules.
    pub probation_pass_time_max: f64,
    /// Rule for a policy on probation: most fuel units of a pass; 0 is no rule.
    pub probation_fuel_max: u64,
    /// Rule for a policy on probation: longest mean wait, in seconds, of the jobs that it started; 0 is no rule.
    pub probation_wait_max: f64,
    /// Rule for a policy on probation: fewest jobs started per hour while jobs wait; 0 is no rule.
    pub probation_starts_per_hour_min: u64,
    /// Condition for the promotion of a shadow: fewest passes that it made. Default 100.
    pub promote_passes_min: u64,
    /// Condition for a promotion: most jobs, in percent, that it would have started at another time. Default 100.
    pub promote_differences_max: u64,
    /// Condition for a promotion: longest wait of jobs with it, in percent of the wait that they had; 0, the default, is no bound.
    pub promote_wait_max: u64,
}

impl Default for Guard {
    fn default() -> Self {
        let engine = EngineConfig::default();
        Guard {
            limits: Limits::default(),
            annotation_keys_per_job_max: engine.annotation_keys_per_job_max,
            annotations_per_pass_max: engine.annotations_per_pass_max,
            on_breach: engine.on_breach,
            quarantine: 30.0,
            quarantine_max: 3_600.0,
            quarantine_tries: 3,
            probation_pass_time_max: 0.0,
            probation_fuel_max: 0,
            probation_wait_max: 0.0,
            probation_starts_per_hour_min: 0,
            promote_passes_min: 100,
            promote_differences_max: 100,
            promote_wait_max: 0,
        }
    }
}

const ON_BREACH: [(&str, OnBreach); 2] = [("fallback", OnBreach::Fallback), ("hold", OnBreach::Suspend)];

fn as_table(limits: &Limits) -> Map<String, Value> {
    match serde_json::to_value(limits) {
        Ok(Value::Object(table)) => table,
        _ => Map::new(),
    }
}

impl Guard {
    /// Set a key of this part.
    pub(super) fn set(&mut self, key: &Key, given: Given<'_>) -> Result<()> {
        match key.name {
            "annotation-keys-per-job-max" => {
                self.annotation_keys_per_job_max = given.whole(key, 0, 65_536)?;
            }
            "annotations-per-pass-max" => self.annotations_per_pass_max = given.whole(key, 0, 10_000_000)?,
            "limits" => {
                let Given::Json(Value::Object(table)) = given else { return Err(given.refused(key)) };
                for (name, value) in table {
                    self.limit(name, Given::Json(value))?;
                }
            }
            "on-breach" => {
                let name = given.text(key, 64)?;
                let known = ON_BREACH.iter().find(|(known, _)| *known == name);
                self.on_breach = known.ok_or_else(|| given.refused(key))?.1;
            }
            "quarantine" => self.quarantine = given.seconds(key, PERIOD_MAX)?,
            "quarantine-max" => self.quarantine_max = given.seconds(key, PERIOD_MAX)?,
            "quarantine-tries" => self.quarantine_tries = given.whole(key, 0, 100)?,
            "probation-pass-time-max" => self.probation_pass_time_max = given.seconds(key, PERIOD_MAX)?,
            "probation-fuel-max" => self.probation_fuel_max = given.whole(key, 0, 1_000_000_000_000)?,
            "probation-wait-max" => self.probation_wait_max = given.seconds(key, PERIOD_MAX)?,
            "probation-starts-per-hour-min" => {
                self.probation_starts_per_hour_min = given.whole(key, 0, 1_000_000_000)?;
            }
            "promote-passes-min" => self.promote_passes_min = given.whole(key, 0, 1_000_000_000)?,
            "promote-differences-max" => self.promote_differences_max = given.whole(key, 0, 100)?,
            "promote-wait-max" => self.promote_wait_max = given.whole(key, 0, 1_000_000)?,
            other => bail!("{other}: described, but not settable"),
        }
        Ok(())
    }

    /// Set one bound of components.
    pub(super) fn limit(&mut self, name: &str, given: Given<'_>) -> Result<()> {
        let mut table = as_table(&self.limits);
        let known = || as_table(&Limits::default()).keys().cloned().collect::<Vec<_>>().join(", ");
        let place =
            table.get_mut(name).ok_or_else(|| anyhow!("{name}: unknown limit; known are {}", known()))?;
        let number = match given {
            Given::Json(value) => value.as_u64(),
            Given::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
            Given::Text(_) => None,
        };
        let found = || match given {
            Given::Json(value) => kind(value).to_owned(),
            Given::Text(text) => format!("{text:?}"),
        };
        *place = number
            .map(Value::from)
            .ok_or_else(|| anyhow!("{name}: expected a whole number, found {}", found()))?;
        let limits: Limits =
            serde_json::from_value(Value::Object(table)).with_context(|| format!("limit {name}"))?;
        limits.check()?;
        self.limits = limits;
        Ok(())
    }

    /// One value as JSON, as a table would have it.
    pub(super) fn value(&self, key: &str) -> Value {
        match key {
            "annotation-keys-per-job-max" => json!(self.annotation_keys_per_job_max),
            "annotations-per-pass-max" => json!(self.annotations_per_pass_max),
            "limits" => {
                // Only the bounds that differ: the default of the others may change.
                let default = as_table(&Limits::default());
                let set = as_table(&self.limits)
                    .into_iter()
                    .filter(|(name, value)| default.get(name) != Some(value));
                Value::Object(set.collect())
            }
            "on-breach" => {
                json!(ON_BREACH.iter().find(|(_, value)| *value == self.on_breach).map(|(name, _)| *name))
            }
            "quarantine" => json!(self.quarantine),
            "quarantine-max" => json!(self.quarantine_max),
            "quarantine-tries" => json!(self.quarantine_tries),
            "probation-pass-time-max" => json!(self.probation_pass_time_max),
            "probation-fuel-max" => json!(self.probation_fuel_max),
            "probation-wait-max" => json!(self.probation_wait_max),
            "probation-starts-per-hour-min" => json!(self.probation_starts_per_hour_min),
            "promote-passes-min" => json!(self.promote_passes_min),
            "promote-differences-max" => json!(self.promote_differences_max),
            "promote-wait-max" => json!(self.promote_wait_max),
            _ => Value::Null,
        }
    }
}
