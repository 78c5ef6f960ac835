//! The tables of Flux beside `[sched-fluxgate]` on which answers to people depend: who may see jobs of others
//! (`access.private-mode`, man5 flux-config-access), and what a job that is submitted to a queue gets (RFC 33).
//!
//! Must never refuse anything: these tables are Flux's own, and Flux has checked them.

use std::collections::BTreeMap;

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::{Jobspec, fsd};
use serde_json::{Value, json};

/// The tables of a Flux configuration on which answers to people depend; see the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FluxTables {
    /// True if guests see their own jobs alone (`access.private-mode`).
    pub private_mode: bool,
    /// The queue of jobs that name none; `None` for the anonymous one.
    pub default_queue: Option<String>,
    /// The properties that a queue asks nodes for.
    requires: BTreeMap<String, Vec<String>>,
    /// Limits of jobs without one, seconds; by queue, the empty name for all.
    durations: BTreeMap<String, f64>,
    /// The queues that there are, with the limits of their jobs; the empty name for jobs of all.
    limits: BTreeMap<String, Most>,
}

/// The most that a job may ask for (`policy.limits`, man5 flux-config-policy).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Most {
    duration: f64,
    nodes: u64,
    cores: u64,
}

impl Most {
    fn of(table: &Value, all: Most) -> Most {
        let limits = &table["policy"]["limits"];
        let size = &limits["job-size"]["max"];
        // -1 is no limit.
        let count = |key: &str, all: u64| match size[key].as_i64() {
            Some(most) => u64::try_from(most).unwrap_or(u64::MAX),
            None => all,
        };
        let long = match &limits["duration"] {
            Value::Null => all.duration,
            given => duration(given).unwrap_or(f64::INFINITY),
        };
        Most { duration: long, nodes: count("nnodes", all.nodes), cores: count("ncores", all.cores) }
    }
}

/// A default of `policy.jobspec.defaults.system`.
fn default_of<'v>(table: &'v Value, key: &str) -> &'v Value {
    &table["policy"]["jobspec"]["defaults"]["system"][key]
}

fn duration(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| fsd::parse(value.as_str()?).ok()).filter(|seconds| *seconds > 0.0)
}

impl FluxTables {
    /// The tables of a whole configuration; missing ones count as empty.
    pub fn read(config: &Value) -> FluxTables {
        let mut tables = FluxTables {
            private_mode: config["access"]["private-mode"].as_bool().unwrap_or(false),
            default_queue: default_of(config, "queue").as_str().map(str::to_owned),
            ..FluxTables::default()
        };
        let all = duration(default_of(config, "duration"));
        tables.durations.extend(all.map(|seconds| (String::new(), seconds)));
        let unlimited = Most { duration: f64::INFINITY, nodes: u64::MAX, cores: u64::MAX };
        let all = Most::of(config, unlimited);
        if all != unlimited {
            tables.limits.insert(String::new(), all);
        }
        for (name, queue) in config["queues"].as_object().into_iter().flatten() {
            let requires = queue["requires"].as_array().into_iter().flatten();
            let requires: Vec<String> = requires.filter_map(|p| Some(p.as_str()?.to_owned())).collect();
            if !requires.is_empty() {
                tables.requires.insert(name.clone(), requires);
            }
            tables.limits.insert(name.clone(), Most::of(queue, all));
            let own = duration(default_of(queue, "duration"));
            tables.durations.extend(own.map(|seconds| (name.clone(), seconds)));
        }
        tables
    }

    /// The constraint that jobs of a queue get (RFC 33 `requires`); [`Constraint::All`] without one.
    pub fn constraint(&self, queue: &str) -> Constraint {
        let Some(requires) = self.requires.get(queue) else { return Constraint::All };
        Constraint::from_value(&json!({ "properties": requires })).unwrap_or(Constraint::All)
    }

    /// A job as it would be in another queue: the constraint of that queue replaces the one of its own queue. `None` if there is no
    /// such queue, if the job is in it, or if the constraint of the job does not have that of its queue.
    pub fn moved(&self, job: &Jobspec, to: &str) -> Option<Jobspec> {
        let from = job.queue().or(self.default_queue.as_deref()).unwrap_or("");
        if from == to || to.is_empty() || !self.limits.contains_key(to) {
            return None;
        }
        let mut own = job.constraints().map_or_else(|| json!({}), Constraint::to_value);
        if let Some(requires) = self.requires.get(from)
            && !take_out(&mut own, requires)
        {
            return None;
        }
        let mut moved = job.clone();
        moved.set_system_attr("queue", to.into()).ok()?;
        moved.set_system_attr("constraints", own).ok()?;
        let requires = self.constraint(to);
        if requires != Constraint::All {
            moved.add_constraint(requires);
        }
        Some(moved)
    }

    /// True if this queue takes a job of at least `nodes` nodes and `cores` cores with a limit of `limit` seconds, infinite for none
    /// (`policy.limits`). A queue that is not configured takes the jobs that the instance takes.
    pub fn takes(&self, queue: &str, nodes: u32, cores: u32, limit: f64) -> bool {
        let most = self.limits.get(queue).or_else(|| self.limits.get(""));
        most.is_none_or(|most| {
            limit <= most.duration && u64::from(nodes) <= most.nodes && u64::from(cores) <= most.cores
        })
    }

    /// Completes a job that is not submitted as ingest would: with the default queue, the default limit, and the constraint of its queue.
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

/// Takes the properties of a queue out of a constraint, in whichever way ingest added them; false if they are not there.
fn take_out(constraint: &mut Value, requires: &[String]) -> bool {
    if let Some(list) = constraint.get_mut("properties").and_then(Value::as_array_mut) {
        let there = |name: &String| list.iter().any(|one| one.as_str() == Some(name));
        if !requires.iter().all(there) {
            return false;
        }
        list.retain(|one| one.as_str().is_none_or(|one| !requires.iter().any(|name| name == one)));
        if list.is_empty() {
            *constraint = json!({});
        }
        return true;
    }
    let Some(all) = constraint.get_mut("and").and_then(Value::as_array_mut) else { return false };
    let found = all.iter_mut().any(|one| take_out(one, requires));
    all.retain(|one| one.as_object().is_none_or(|one| !one.is_empty()));
    if all.is_empty() {
        *constraint = json!({});
    }
    found
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

    #[test]
    fn feat_74_a_job_in_another_queue_has_the_constraint_of_that_one() {
        let config = json!({
            "policy": {"limits": {"duration": "8h"}},
            "queues": {
                "batch": {"requires": ["batch"]},
                "debug": {"requires": ["debug"], "policy": {"limits": {"duration": "1h", "job-size": {"max": {"nnodes": 2, "ncores": -1}}}}},
                "all": {"policy": {"limits": {"duration": 0}}},
            },
        });
        let tables = FluxTables::read(&config);
        let job = |constraints: Value| {
            let simple = Simple {
                slots: 1,
                command: vec!["a".to_owned()],
                queue: Some("batch".to_owned()),
                ..Simple::default()
            };
            let mut job = simple.build();
            job.set_system_attr("constraints", constraints).unwrap();
            job
        };
        let moved = |constraints: Value, to: &str| {
            let moved = tables.moved(&job(constraints), to)?;
            assert_eq!(moved.queue(), Some(to));
            Some(moved.constraints().unwrap().to_value())
        };
        let gpu = json!({"properties": ["gpu"]});
        let debug = json!({"properties": ["debug"]});
        assert_eq!(moved(json!({"properties": ["batch"]}), "debug"), Some(debug));
        for own in [json!({"properties": ["gpu", "batch"]}), json!({"and": [gpu, {"properties": ["batch"]}]})]
        {
            let found = moved(own, "debug");
            let text = found.clone().unwrap_or_default().to_string();
            assert!(text.contains("gpu") && text.contains("debug") && !text.contains("batch"), "{text}");
        }
        assert_eq!(moved(json!({"properties": ["batch"]}), "all"), Some(json!({})));
        for (own, to) in [
            (json!({"properties": ["batch"]}), "batch"),
            (json!({"properties": ["batch"]}), "none"),
            (gpu.clone(), "debug"),
            (json!({"or": [gpu]}), "debug"),
        ] {
            assert_eq!(moved(own, to), None, "{to}");
        }
        assert!(tables.takes("debug", 2, 900, 3600.0) && !tables.takes("debug", 3, 3, 3600.0));
        assert!(!tables.takes("debug", 1, 1, 3601.0) && !tables.takes("batch", 1, 1, f64::INFINITY));
        assert!(tables.takes("all", 99, 99, f64::INFINITY) && tables.takes("batch", 99, 99, 28_800.0));
    }
}
