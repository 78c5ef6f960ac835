//! What the tables of Flux beside `[sched-fluxgate]` say that answers to people depend on: who may see jobs of others
//! (`access.private-mode`, man5 flux-config-access), and what a job gets that is submitted to a queue (RFC 33).
//!
//! Must never refuse anything: these tables are Flux's own, and Flux has checked them.

use std::collections::BTreeMap;

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::{Jobspec, fsd};
use serde_json::{Value, json};

/// See the module text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FluxTables {
    /// Guests see their own jobs alone.
    pub private_mode: bool,
    /// The queue of jobs that name none.
    pub default_queue: Option<String>,
    /// The properties that a queue asks nodes for.
    requires: BTreeMap<String, Vec<String>>,
    /// Limits of jobs without one, seconds; by queue, the empty name for all.
    durations: BTreeMap<String, f64>,
}

/// A default of `policy.jobspec.defaults.system`.
fn default_of<'v>(table: &'v Value, key: &str) -> &'v Value {
    &table["policy"]["jobspec"]["defaults"]["system"][key]
}

fn duration(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| fsd::parse(value.as_str()?).ok()).filter(|seconds| *seconds > 0.0)
}

impl FluxTables {
    /// The tables of a whole configuration.
    pub fn read(config: &Value) -> FluxTables {
        let mut tables = FluxTables {
            private_mode: config["access"]["private-mode"].as_bool().unwrap_or(false),
            default_queue: default_of(config, "queue").as_str().map(str::to_owned),
            ..FluxTables::default()
        };
        let all = duration(default_of(config, "duration"));
        tables.durations.extend(all.map(|seconds| (String::new(), seconds)));
        for (name, queue) in config["queues"].as_object().into_iter().flatten() {
            let requires = queue["requires"].as_array().into_iter().flatten();
            let requires: Vec<String> = requires.filter_map(|p| Some(p.as_str()?.to_owned())).collect();
            if !requires.is_empty() {
                tables.requires.insert(name.clone(), requires);
            }
            let own = duration(default_of(queue, "duration"));
            tables.durations.extend(own.map(|seconds| (name.clone(), seconds)));
        }
        tables
    }

    /// The constraint that jobs of a queue get.
    pub fn constraint(&self, queue: &str) -> Constraint {
        let Some(requires) = self.requires.get(queue) else { return Constraint::All };
        Constraint::from_value(&json!({ "properties": requires })).unwrap_or(Constraint::All)
    }

    /// Gives a job that is only thought of what ingest would give it: queue, limit, and the constraint of its queue.
    pub fn complete(&self, job: &mut Jobspec) {
        if let (None, Some(queue)) = (job.queue(), &self.default_queue) {
            // A name is always accepted.
            let _ = job.set_system_attr("queue", queue.as_str().into());
        }
        let queue = job.queue().unwrap_or("").to_owned();
        if job.duration() <= 0.0
            && let Some(limit) = self.durations.get(&queue).or_else(|| self.durations.get(""))
        {
            let _ = job.set_system_attr("duration", (*limit).into());
        }
        let requires = self.constraint(&queue);
        if requires != Constraint::All && job.constraints() != Some(&requires) {
            job.add_constraint(requires);
        }
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::jobspec::Simple;

    use super::*;

    #[test]
    fn a_job_gets_what_its_queue_gives() {
        let config = json!({
            "access": {"private-mode": true},
            "policy": {"jobspec": {"defaults": {"system": {"queue": "batch", "duration": "1h"}}}},
            "queues": {"batch": {"requires": ["batch"]}, "debug": {
                "requires": ["debug"], "policy": {"jobspec": {"defaults": {"system": {"duration": "10m"}}}}}},
        });
        let tables = FluxTables::read(&config);
        assert!(tables.private_mode && !FluxTables::read(&json!({})).private_mode);
        let simple = Simple { slots: 1, command: vec!["a".to_owned()], ..Simple::default() };
        for (queue, limit, properties) in [(None, 3600.0, "batch"), (Some("debug"), 600.0, "debug")] {
            let mut job = Simple { queue: queue.map(str::to_owned), ..simple.clone() }.build();
            tables.complete(&mut job);
            tables.complete(&mut job);
            assert_eq!((job.queue(), job.duration()), (Some(properties), limit));
            assert_eq!(job.constraints().unwrap().to_value(), json!({"properties": [properties]}));
        }
        let mut own = Simple { duration: 5.0, ..simple }.build();
        FluxTables::default().complete(&mut own);
        assert_eq!((own.queue(), own.duration(), own.constraints()), (None, 5.0, None));
    }
}
