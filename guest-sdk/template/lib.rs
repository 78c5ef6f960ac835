//! # my-policy
//!
//! Orders the queue so that short jobs overtake, but not for ever: the key of a job is its time of submission
//! plus `weight` times its requested duration. A job that has waited that much longer comes first again.

use fluxgate_guest::prelude::*;

/// See the page above.
#[derive(Debug)]
pub struct MyPolicy {
    /// Seconds of waiting that one second of duration is worth.
    weight: f64,
}

impl Default for MyPolicy {
    fn default() -> Self {
        MyPolicy { weight: 1.0 }
    }
}

impl Policy for MyPolicy {
    fn info() -> Info {
        Info::new("my-policy", "Short jobs first, but no job waits for ever")
            .version(env!("CARGO_PKG_VERSION"))
            .key(
                "weight",
                Kind::Float,
                "1",
                "seconds of waiting that one second of duration is worth, 0 or more",
            )
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.weight = config.float("weight")?;
        if self.weight.is_finite() && self.weight >= 0.0 {
            return Ok(());
        }
        Err(format!(
            "`weight` is {}, but must be 0 or more",
            self.weight
        ))
    }
}

impl Ordering for MyPolicy {
    fn key(&mut self, _now: f64, job: &Job) -> f64 {
        // A job without limit has an infinite duration, and 0 times that is not a number.
        if self.weight == 0.0 {
            return job.t_submit;
        }
        job.t_submit + self.weight * job.duration
    }
}

// Other abilities: scheduling, observing, state. Implement the trait and name it here.
export_policy!(MyPolicy: ordering);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    #[test]
    fn a_short_job_overtakes_until_the_long_one_has_waited() {
        let mut bench = Bench::new(1);
        bench.job(1).duration(100.0).submitted_at(0.0).submit();
        bench.job(2).duration(10.0).submitted_at(50.0).submit();
        bench.job(3).duration(10.0).submitted_at(95.0).submit();
        bench.run(&mut MyPolicy::default());
        assert_eq!(bench.started(), [2]);
        assert_eq!(bench.pending(), [1, 3]);
    }

    #[test]
    fn without_weight_it_is_first_come_first_served() {
        let mut bench = Bench::new(1);
        bench
            .job(1)
            .duration(f64::INFINITY)
            .submitted_at(0.0)
            .submit();
        bench.job(2).duration(10.0).submitted_at(50.0).submit();
        let mut policy: MyPolicy = configured(&[("weight", "0")]).unwrap();
        bench.run(&mut policy);
        assert_eq!(bench.started(), [1]);
        assert!(configured::<MyPolicy>(&[("weight", "-1")]).is_err());
    }
}
