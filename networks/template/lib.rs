//! # my-policy
//!
//! A network that was trained, of the file `weights.safetensors`: in each pass it picks the waiting job with the largest
//! logit. `src/model.rs` says what it sees and how its picks are carried out.

mod model;

use fluxgate_guest::prelude::*;
use fluxgate_networks::policy::Learned;

/// See the page above.
#[derive(Debug)]
pub struct MyPolicy(Learned);

impl Default for MyPolicy {
    fn default() -> Self {
        MyPolicy(Learned::new(model::model()))
    }
}

impl Policy for MyPolicy {
    fn info() -> Info {
        Info::new("my-policy", model::SUMMARY)
            .version(env!("CARGO_PKG_VERSION"))
            .key("annotate", Kind::Boolean, "false", "tell the logit of each job that was shown as sched.logit")
            .key("sample-seed", Kind::Integer, "0", "0: the largest logit; else jobs are drawn by the softmax, from this seed")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.0.tell(config.boolean("annotate")?);
        self.0.sample(config.integer_in("sample-seed", 0..=i64::MAX)?.unsigned_abs());
        Ok(())
    }
}

impl Scheduling for MyPolicy {
    fn run(&mut self, pass: &mut dyn Pass) {
        self.0.run(pass);
    }
}

impl Observing for MyPolicy {
    fn observe(&mut self, _now: f64, events: &[JobEvent]) {
        self.0.observe(events);
    }
}

impl State for MyPolicy {
    fn save(&self) -> Saved {
        self.0.save()
    }

    fn restore(&mut self, _from: &str, version: u32, data: &[u8]) -> Result<(), String> {
        self.0.restore(version, data)
    }
}

export_policy!(MyPolicy: scheduling, observing, state);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::Bench;

    #[test]
    fn all_jobs_are_started_some_time() {
        let mut bench = Bench::new(8);
        for id in 1..=40 {
            let cores = 1 + (id % 8) as u32;
            bench.job(id).cores(cores).duration(60.0 * id as f64).submitted_at(0.0).submit();
        }
        assert_eq!(bench.run_to_end(&mut MyPolicy::default()).len(), 40);
    }
}
