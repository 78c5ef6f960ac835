//! Decisions about the weights of the policy multifactor. Weights are asked for at the first event, and at the first event a
//! period after each question. Multifactor makes its passes with them until the next question.
//!
//! The policy is the one that runs in production, natively. This module must never know its rule.

use fluxgate_engine::{Abilities, JobColumns, JobEvent, Machine, Pass, Policy, PolicyError};
use fluxgate_networks::features::{Around, Waiting};
use policy_multifactor::Multifactor;

use crate::native_twin::NativeTwin;
use crate::player::{Answer, Player};
use crate::world::{around, waiting};

/// Largest weight.
pub const WEIGHT_MAX: f64 = 1.0;

/// Numbers of an observation: name, formula and range of each. N: cores, F: free cores, R: running jobs, Q: waiting jobs,
/// n: cores and r: requested seconds and w: wait in seconds of a waiting job; sums and means are over waiting jobs.
pub const AGGREGATES: [(&str, &str, &str); 12] = [
    ("free", "F / N", "0 to 1"),
    ("running", "R / (R + 32)", "0 to 1"),
    ("waiting", "Q / (Q + 32)", "0 to 1"),
    ("demand", "d / (d + N), d: sum of n", "0 to 1"),
    ("work", "a / (a + 3600 N), a: sum of r n, 1 without a limit", "0 to 1"),
    ("wait_mean", "m / (m + 3600), m: mean of w", "0 to 1"),
    ("wait_longest", "l / (l + 3600), l: largest w", "0 to 1"),
    ("duration_mean", "m / (m + 3600), m: mean of r, 1 without a limit", "0 to 1"),
    ("cores_mean", "mean of n / N", "0 to 1"),
    ("fitting", "share of jobs with n <= F", "0 to 1"),
    ("users", "u / (u + 8), u: users of waiting jobs", "0 to 1"),
    ("largest_user", "share of jobs of the user with most of them", "0 to 1"),
];

/// Decisions about the weights of the policy multifactor. An answer is [`Answer::Values`] with a number from 0 to [`WEIGHT_MAX`] for each
/// weight; an observation has the numbers of [`AGGREGATES`].
pub struct Weighing {
    policy: NativeTwin<Multifactor>,
    /// Seconds between two questions, above 0.
    period: f64,
    /// The time from which on weights are asked for.
    due: f64,
    /// The time of the last pass.
    now: f64,
    running: u32,
    around: Around,
    jobs: Vec<Waiting>,
}

impl Weighing {
    /// A player with nothing running. Settings are those of multifactor without its weights; `period` is in seconds, above 0.
    ///
    /// # Errors
    /// A setting is unknown, has a wrong value, or is a weight.
    pub fn new(settings: &[(&str, &str)], period: f64) -> Result<Self, String> {
        if let Some((key, _)) = settings.iter().find(|(key, _)| Multifactor::WEIGHTS.contains(key)) {
            return Err(format!(
                "found `{key}`, accepted are settings other than weights, which are the actions"
            ));
        }
        let (around, jobs) = (Around::default(), Vec::new());
        let policy = NativeTwin::new(settings)?;
        Ok(Weighing { policy, period, due: f64::NEG_INFINITY, now: 0.0, running: 0, around, jobs })
    }
}

impl Player for Weighing {
    fn abilities(&self) -> Abilities {
        self.policy.abilities()
    }

    fn machine(&mut self, machine: Machine) {
        self.policy.machine(machine);
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        self.policy.keys(now, jobs)
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        self.policy.observe(now, events)
    }

    fn run(&mut self, mut pass: Box<Pass>) -> (Box<Pass>, Result<bool, PolicyError>) {
        self.now = pass.now();
        if self.now < self.due {
            let (pass, result) = self.policy.run(pass);
            return (pass, result.map(|()| false));
        }
        self.jobs.clear();
        self.around = around(&pass);
        self.running = pass.job_counts().0;
        let told = waiting(&mut pass, &mut self.jobs);
        (pass, told.map(|()| true))
    }

    fn answer(&mut self, answer: Answer<'_>) -> Result<(), String> {
        let bounded = |weight: &f64| (0.0..=WEIGHT_MAX).contains(weight);
        let weights = match answer {
            Answer::Values(values) if values.iter().all(bounded) => values.try_into().ok(),
            _ => None,
        };
        let names = Multifactor::WEIGHTS.join(", ");
        let weights: [f64; 4] =
            weights.ok_or_else(|| format!("numbers from 0 to {WEIGHT_MAX} for {names}"))?;
        self.policy.policy_mut().weigh(weights)?;
        self.due = self.now + self.period;
        Ok(())
    }

    fn mask(&self, out: &mut Vec<bool>) {
        out.clear();
    }

    fn write(&self, values: &mut [f32]) {
        let shown = aggregates(&self.around, self.running, &self.jobs);
        for (out, value) in values.iter_mut().zip(shown) {
            *out = value as f32;
        }
    }

    fn pad(&self, values: &mut [f32]) {
        values.fill(0.0);
    }

    fn waiting(&self) -> usize {
        self.jobs.len()
    }
}

/// x / (x + c) for x of 0 or more: 1 where x is infinite.
fn saturating(x: f64, c: f64) -> f64 {
    if x == f64::INFINITY { 1.0 } else { x / (x + c) }
}

/// The numbers of [`AGGREGATES`].
fn aggregates(around: &Around, running: u32, jobs: &[Waiting]) -> [f64; AGGREGATES.len()] {
    let (all, count) = (f64::from(around.cores.max(1)), jobs.len() as f64);
    let sum = |of: &dyn Fn(&Waiting) -> f64| jobs.iter().map(of).sum::<f64>();
    let mean = |of: &dyn Fn(&Waiting) -> f64| if jobs.is_empty() { 0.0 } else { sum(of) / count };
    let cores = |job: &Waiting| f64::from(job.cores.max(1));
    let wait = |job: &Waiting| (around.now - job.submit).max(0.0);
    let mut users: Vec<u32> = jobs.iter().map(|job| job.user).collect();
    users.sort_unstable();
    let each = users.chunk_by(|a, b| a == b).map(|jobs| jobs.len() as f64);
    [
        f64::from(around.free_cores) / all,
        saturating(f64::from(running), 32.0),
        saturating(count, 32.0),
        saturating(sum(&cores), all),
        saturating(sum(&|job| job.duration * cores(job)), 3600.0 * all),
        saturating(mean(&wait), 3600.0),
        saturating(jobs.iter().map(wait).fold(0.0, f64::max), 3600.0),
        saturating(mean(&|job| job.duration), 3600.0),
        mean(&|job| (cores(job) / all).min(1.0)),
        mean(&|job| f64::from(u8::from(around.fits(job)))),
        saturating(each.clone().count() as f64, 8.0),
        each.fold(0.0, f64::max) / count.max(1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, submit: f64, duration: f64, cores: u32, user: u32) -> Waiting {
        Waiting { candidate: 0, id, submit, duration, cores, nodes: 0, user }
    }

    #[test]
    fn res_36_aggregates_by_hand() {
        let around = Around { now: 3600.0, cores: 8, free_cores: 2, free_nodes: 0, waiting: 3, gap: 0.0 };
        let jobs = [job(1, 0.0, 3600.0, 4, 7), job(2, 3600.0, 3600.0, 2, 7), job(3, 0.0, 3600.0, 2, 9)];
        let found = aggregates(&around, 32, &jobs);
        let expected = [
            0.25,
            0.5,
            3.0 / 35.0,
            0.5,
            0.5,
            2.0 / 5.0,
            0.5,
            0.5,
            (0.5 + 0.25 + 0.25) / 3.0,
            2.0 / 3.0,
            0.2,
            2.0 / 3.0,
        ];
        for ((name, ..), (found, expected)) in AGGREGATES.iter().zip(found.into_iter().zip(expected)) {
            assert!((found - expected).abs() < 1e-12, "{name}: {found}, not {expected}");
        }
        let none = aggregates(&Around::default(), 0, &[]);
        assert_eq!(none, [0.0; AGGREGATES.len()]);
        let endless = aggregates(&around, u32::MAX, &[job(1, 0.0, f64::INFINITY, u32::MAX, 0)]);
        assert!(endless.iter().all(|value| (0.0..=1.0).contains(value)), "{endless:?}");
    }

    #[test]
    fn res_36_weights_are_no_settings() {
        let found = |settings| Weighing::new(settings, 60.0).err().unwrap_or_default();
        assert!(found(&[("weight-age", "2")]).contains("found `weight-age`"));
        assert!(found(&[("max-age", "0")]).contains("max-age"));
        assert_eq!(found(&[("max-age", "1d")]), "");
    }

    #[test]
    fn res_36_weights_are_bounded() {
        let mut player = Weighing::new(&[], 60.0).unwrap();
        assert_eq!(player.answer(Answer::Values(&[0.0, 0.5, 1.0, 0.25])), Ok(()));
        for wrong in [&[0.0; 3][..], &[0.0; 5], &[0.0, 0.0, 0.0, 1.5], &[-0.1, 0.0, 0.0, 0.0], &[f64::NAN; 4]]
        {
            let accepted = player.answer(Answer::Values(wrong)).unwrap_err();
            assert!(accepted.starts_with("numbers from 0 to 1 for weight-age, "), "{accepted}");
        }
        assert!(player.answer(Answer::Action(0)).is_err());
    }
}
