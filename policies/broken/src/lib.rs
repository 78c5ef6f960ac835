//! # broken: a policy that misbehaves on demand
//!
//! For tests and demonstrations of what a host does about it. Until its moment comes, and always with mode
//! `none`, it is `fcfs` with every ability: keys are all 0, passes start in order until the first job that
//! waits, events are counted, and the state is that count.
//!
//! ## Settings
//!
//! `mode`: what it does.
//!
//! | mode | what happens |
//! |---|---|
//! | `none` | nothing |
//! | `trap` | it panics |
//! | `loop` | it never returns |
//! | `memory` | it allocates until there is no more |
//! | `stack` | it calls itself until the stack is full |
//! | `unknown-job` | it starts a candidate that was never offered |
//! | `duplicate` | it starts or reserves the same candidate twice |
//! | `annotation-bomb` | it annotates a job with eight megabytes, many times |
//! | `log-bomb` | it writes a million messages to the log |
//! | `nan-key` | its keys are NaN |
//! | `short-keys` | it gives fewer keys than there are jobs |
//! | `trap-in-save` | it panics when asked for its state |
//!
//! `when`: the moment.
//!
//! | when | the moment |
//! |---|---|
//! | `load` | in `configure` |
//! | `first-pass` | at the beginning of a pass, after `after` good ones |
//! | `mid-pass` | in a pass, once a start is staged or one candidate was looked at, after `after` good ones |
//! | `swap` | in `save` (as the old policy) and in `restore` (as the new one) |
//! | `observe` | when events are delivered |
//! | `keys` | when keys are asked for |
//!
//! Where mode and moment do not meet, the nearest thing is done: outside a pass, `unknown-job`, `duplicate` and
//! `annotation-bomb` call the pass all the same, which the contract forbids; `nan-key` and `short-keys`
//! begin at once with `load`, `swap` and `keys` (from the first keys on) and after the moment's pass with the
//! others, for which they have all candidates asked again; `trap-in-save` is always in `save`.
//!
//! Natively an endless loop, a full memory or stack would take the test with it, so these panic there.

mod damage;

use fluxgate_guest::prelude::*;

use damage::{Mode, When};

/// Misbehaves on demand.
#[derive(Debug, Default)]
pub struct Broken {
    mode: Mode,
    when: When,
    /// Passes that go well before it misbehaves.
    after: u64,
    /// Passes begun.
    passes: u64,
    /// Events seen; the state.
    events: u64,
    /// Keys are bad from now on.
    bad_keys: bool,
}

impl Broken {
    /// Is it time, at this moment outside a pass?
    fn due(&self, moment: When) -> bool {
        self.when == moment
    }

    /// Is it time, at this moment of the current pass?
    fn due_in_pass(&self, moment: When) -> bool {
        self.when == moment && self.passes > self.after
    }
}

impl Policy for Broken {
    fn info() -> Info {
        Info::new("broken", "Misbehaves on demand, for tests; otherwise first come, first served")
            .version(env!("CARGO_PKG_VERSION"))
            .key("mode", Kind::Text, "none", damage::MODE_HELP)
            .key("when", Kind::Text, "first-pass", damage::WHEN_HELP)
            .key("after", Kind::Integer, "0", "passes that go well before, with first-pass and mid-pass")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.mode = Mode::from_name(config.text("mode")?)?;
        self.when = When::from_name(config.text("when")?)?;
        self.after = u64::try_from(config.integer("after")?).map_err(|_| "`after` is below 0".to_owned())?;
        self.bad_keys = self.mode.is_about_keys() && self.when.is_at_once();
        if self.due(When::Load) {
            damage::outside_pass(self.mode);
        }
        Ok(())
    }
}

impl Ordering for Broken {
    fn key(&mut self, _now: f64, _job: &Job) -> f64 {
        if self.bad_keys && self.mode == Mode::NanKey { f64::NAN } else { 0.0 }
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Vec<f64> {
        if self.due(When::Keys) {
            damage::outside_pass(self.mode);
        }
        let mut keys: Vec<f64> = jobs.rows().map(|job| self.key(now, &job)).collect();
        if self.bad_keys && self.mode == Mode::ShortKeys {
            keys.pop();
        }
        keys
    }
}

impl Scheduling for Broken {
    fn run(&mut self, pass: &mut dyn Pass) {
        self.passes += 1;
        if self.mode.is_about_keys() && (self.due_in_pass(When::FirstPass) || self.due_in_pass(When::MidPass))
        {
            self.bad_keys = true;
            while let Some(job) = pass.next() {
                pass.rekey(job);
            }
            pass.rewind();
        }
        if self.due_in_pass(When::FirstPass) {
            damage::in_pass(self.mode, pass, None);
            pass.rewind();
        }
        while let Some(job) = pass.next() {
            let refused = pass.start(job).is_err_and(Refusal::job_waits);
            if self.due_in_pass(When::MidPass) {
                damage::in_pass(self.mode, pass, Some(job));
            }
            if refused {
                return;
            }
        }
    }
}

impl Observing for Broken {
    fn observe(&mut self, _now: f64, events: &[JobEvent]) {
        self.events += events.len() as u64;
        if self.due(When::Observe) {
            damage::outside_pass(self.mode);
        }
    }
}

impl State for Broken {
    fn save(&self) -> Saved {
        assert!(self.mode != Mode::TrapInSave, "told to trap in save");
        if self.due(When::Swap) {
            damage::outside_pass(self.mode);
        }
        Saved { version: 1, data: self.events.to_le_bytes().to_vec() }
    }

    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String> {
        if self.due(When::Swap) {
            damage::outside_pass(self.mode);
        }
        if from != "broken" || version != 1 {
            return Err(format!("not a state of mine: {from} version {version}"));
        }
        let bytes = data.try_into().map_err(|_| format!("{} bytes where 8 were expected", data.len()))?;
        self.events = u64::from_le_bytes(bytes);
        Ok(())
    }
}

export_policy!(Broken: ordering, scheduling, observing, state);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    fn broken(mode: &str, when: &str, after: &str) -> Broken {
        configured(&[("mode", mode), ("when", when), ("after", after)]).unwrap()
    }

    fn two_jobs() -> Bench {
        let mut bench = Bench::new(2);
        bench.job(1).duration(10.0).submit();
        bench.job(2).duration(10.0).submit();
        bench
    }

    #[test]
    fn with_mode_none_it_is_fcfs() {
        for (when, _) in damage::WHENS {
            let mut bench = Bench::new(8);
            bench.job(1).cores(6).submit();
            bench.job(2).cores(4).submit();
            bench.job(3).cores(1).submit();
            let mut policy = broken("none", when, "0");
            bench.run(&mut policy);
            assert_eq!(bench.started(), [1], "{when}");
            assert_eq!(policy.save().data, 3u64.to_le_bytes());
        }
    }

    #[test]
    #[should_panic = "told to trap"]
    fn trap_at_load() {
        broken("trap", "load", "0");
    }

    #[test]
    fn after_counts_good_passes() {
        let mut bench = two_jobs();
        let mut policy = broken("trap", "first-pass", "1");
        bench.run(&mut policy);
        assert_eq!(bench.started(), [1, 2]);
        bench.job(3).submit();
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.run(&mut policy)));
        assert!(again.is_err());
    }

    #[test]
    #[should_panic = "contract: candidate 4000000000"]
    fn unknown_job() {
        two_jobs().run(&mut broken("unknown-job", "mid-pass", "0"));
    }

    #[test]
    #[should_panic = "already started or reserved"]
    fn duplicate_at_the_beginning_of_a_pass() {
        two_jobs().run(&mut broken("duplicate", "first-pass", "0"));
    }

    #[test]
    #[should_panic = "already started or reserved"]
    fn duplicate_with_a_single_job() {
        let mut bench = Bench::new(1);
        bench.job(1).submit();
        bench.run(&mut broken("duplicate", "mid-pass", "0"));
    }

    #[test]
    #[should_panic = "contract: the key of job 1 is NaN"]
    fn nan_keys_at_once() {
        two_jobs().run(&mut broken("nan-key", "load", "0"));
    }

    #[test]
    #[should_panic = "contract: the key of job 3 is NaN"]
    fn nan_keys_after_a_pass() {
        let mut bench = two_jobs();
        let mut policy = broken("nan-key", "mid-pass", "0");
        bench.run(&mut policy);
        assert_eq!(bench.started(), [1, 2]);
        bench.job(3).submit();
        bench.run(&mut policy);
    }

    #[test]
    #[should_panic = "contract: one key per job"]
    fn short_keys() {
        two_jobs().run(&mut broken("short-keys", "keys", "0"));
    }

    #[test]
    #[should_panic = "told to trap in save"]
    fn trap_in_save() {
        let mut policy = broken("trap-in-save", "swap", "0");
        two_jobs().run(&mut policy);
        policy.save();
    }

    #[test]
    fn its_state_survives() {
        let mut first = broken("none", "swap", "0");
        two_jobs().run(&mut first);
        let saved = first.save();
        let mut second = broken("none", "swap", "0");
        second.restore("broken", saved.version, &saved.data).unwrap();
        assert_eq!(second.save(), saved);
        assert!(second.restore("fcfs", 1, &saved.data).is_err());
        assert!(second.restore("broken", 1, b"short").is_err());
    }

    #[test]
    fn settings_are_explained() {
        let refusal = configured::<Broken>(&[("mode", "nice")]).unwrap_err();
        assert!(refusal.contains("`nice`") && refusal.contains("annotation-bomb"), "{refusal}");
        let refusal = configured::<Broken>(&[("when", "never")]).unwrap_err();
        assert!(refusal.contains("mid-pass"), "{refusal}");
    }
}
