//! The policy of the SDK around a model: what a component of a trained network consists of.
//!
//! A component has one instance, which is made by `Default` before it is configured; so the model is a function that
//! gives it, see `template/lib.rs`. This module knows no weights.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use fluxgate_guest::{Candidate, Happened, Job, JobEvent, Pass, Refusal, Saved, each_job};

use crate::features::{Around, Waiting};
use crate::model::{Model, PlainLayer, Seen};
use crate::pick::{Picker, Refused, World};

/// The version of the state that a policy saves: the number of decisions, and the state of the picker.
const STATE: u32 = 2;
/// The version before: the state of the picker alone.
const STATE_OF_PICKER: u32 = 1;

/// A trained policy: the abilities `scheduling`, `observing` and `state`.
#[derive(Debug, Clone)]
pub struct Learned {
    model: Model,
    picker: Picker,
    seen: Seen,
    logits: Vec<f32>,
    /// True if the logit of each row is told as an annotation.
    tells: bool,
    /// With a seed rows are picked by chance.
    seed: Option<u64>,
    /// Decisions so far.
    decisions: u64,
}

impl Learned {
    /// A policy of this model with nothing running, which picks the row with the largest logit.
    pub fn new(model: Model) -> Learned {
        let picker = Picker::new(model.view, model.mode, model.backfill, false);
        let (seen, logits) = (Seen::default(), Vec::new());
        Learned { model, picker, seen, logits, tells: false, seed: None, decisions: 0 }
    }

    /// Whether a row is picked by chance, with the probability that the softmax of the logits gives it: 0 for the largest
    /// logit, other numbers are seeds. A seed gives the same decisions each time, here and in a component.
    pub fn sample(&mut self, seed: u64) {
        self.seed = (seed != 0).then_some(seed);
    }

    /// Whether each question tells the logits of the jobs that were shown, as the annotations `sched.logit` of these jobs.
    pub fn tell(&mut self, tells: bool) {
        self.tells = tells;
    }

    /// Makes one pass.
    ///
    /// # Panics
    /// If a logit is no number: the host then goes on without this policy.
    pub fn run(&mut self, pass: &mut dyn Pass) {
        let Learned { model, picker, seen, logits, tells, seed, decisions } = self;
        let mut told: Vec<(Candidate, f32)> = Vec::new();
        let mut world = Host { pass };
        picker.pass(&mut world, seen, &mut |seen| {
            let picked = match *seed {
                Some(seed) => model.sample(seen, (seed, *decisions), logits),
                None => model.pick(seen, logits),
            };
            *decisions += 1;
            let row = picked.unwrap_or_else(|row| {
                panic!("the logit of job {} is no number", seen.jobs.get(row).map_or(0, |job| job.id))
            });
            if *tells {
                let rows = seen.jobs.iter().zip(logits.iter());
                told.extend(rows.map(|(job, logit)| (Candidate::from_raw(job.candidate), *logit)));
            }
            row
        });
        for (candidate, logit) in told {
            world.pass.annotate(candidate, "sched.logit", &json(logit));
        }
    }

    /// Takes the events since the last call; of these only ends of jobs count.
    pub fn observe(&mut self, events: &[JobEvent]) {
        for event in events {
            if let Happened::Ended { .. } = event.what {
                self.picker.ended(event.job);
            }
        }
    }

    /// The state for a successor: the number of decisions, the committed job and the running jobs.
    pub fn save(&self) -> Saved {
        let mut data = self.decisions.to_le_bytes().to_vec();
        data.extend(self.picker.save());
        Saved { version: STATE, data }
    }

    /// Takes over the state of a policy of this kind, whatever its weights are.
    ///
    /// # Errors
    /// The version is neither this one nor the one before, or the state is damaged. The policy is then unchanged.
    pub fn restore(&mut self, version: u32, data: &[u8]) -> Result<(), String> {
        let damaged = || "the state is damaged".to_string();
        let (decisions, picker) = match version {
            STATE => {
                let (decisions, picker) = data.split_first_chunk().ok_or_else(damaged)?;
                (u64::from_le_bytes(*decisions), picker)
            }
            STATE_OF_PICKER => (0, data),
            _ => return Err(format!("a state of version {version}, expected is {STATE}")),
        };
        self.picker.restore(picker).ok_or_else(damaged)?;
        self.decisions = decisions;
        Ok(())
    }
}

/// A number as JSON that gives the same f32 again; text for what JSON has no number for.
fn json(logit: f32) -> String {
    if logit.is_finite() { format!("{logit:?}") } else { format!("\"{logit}\"") }
}

/// Layers of the tensors of a file: for each layer its inputs, outputs, and the places in bytes of its weights and its bias,
/// both f32 with the smallest byte first. A tensor that is not whole in the file becomes an empty list.
pub fn layers(file: &[u8], places: &[(usize, usize, usize, usize)]) -> Vec<PlainLayer> {
    let numbers = |from: usize, count: usize| -> Vec<f32> {
        let bytes = file.get(from..from + 4 * count).unwrap_or_default();
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
    };
    let layer = |(inputs, outputs, weights, bias): &(usize, usize, usize, usize)| PlainLayer {
        inputs: *inputs,
        outputs: *outputs,
        weights: numbers(*weights, inputs * outputs),
        bias: numbers(*bias, *outputs),
    };
    places.iter().map(layer).collect()
}

/// The pass of the SDK.
struct Host<'a> {
    pass: &'a mut dyn Pass,
}

fn refused(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Busy | Refusal::DelaysReservation => Refused::Waits,
        Refusal::Unsatisfiable | Refusal::NotEligible => Refused::Never,
        Refusal::Limit => Refused::Over,
    }
}

impl World for Host<'_> {
    fn around(&mut self) -> Around {
        let totals = self.pass.totals();
        Around {
            now: self.pass.now(),
            cores: totals.cores,
            free_cores: totals.free_cores,
            free_nodes: totals.free_nodes,
            waiting: totals.pending,
            gap: 0.0,
        }
    }

    fn jobs(&mut self, out: &mut Vec<Waiting>) {
        self.pass.rewind();
        each_job(self.pass, usize::MAX, |candidate, job: Job| {
            out.push(Waiting {
                candidate: candidate.raw(),
                id: job.id,
                submit: job.t_submit,
                duration: job.duration,
                cores: job.cores,
                nodes: job.nodes,
                user: job.userid,
            });
        });
    }

    fn fits(&mut self, job: &Waiting) -> bool {
        self.pass.fits(Candidate::from_raw(job.candidate))
    }

    fn earliest(&mut self, job: &Waiting) -> f64 {
        self.pass.earliest(Candidate::from_raw(job.candidate))
    }

    fn start(&mut self, job: &Waiting) -> Result<(), Refused> {
        self.pass.start(Candidate::from_raw(job.candidate)).map_err(refused)
    }

    fn reserve(&mut self, job: &Waiting) -> Result<f64, Refused> {
        self.pass.reserve(Candidate::from_raw(job.candidate)).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Set;
    use crate::model::Parts;
    use fluxgate_guest::bench::Bench;
    use fluxgate_guest::export_policy;
    use fluxgate_guest::prelude::{Config, Info, Observing, Policy, Scheduling, State};
    use std::vec;

    /// A model that prefers short jobs: the logit is -request.
    fn shortest(mode: &'static str, backfill: &'static str) -> Model {
        let mut weights = vec![0.0; Set::RlScheduler1.width()];
        weights[1] = -1.0;
        let layer = PlainLayer { inputs: weights.len(), outputs: 1, weights, bias: vec![0.0] };
        let parts = Parts {
            features: "rlscheduler-1",
            scales: "duration=1000",
            window: "3",
            rows: "first",
            network: "kernel",
            activation: "none",
            mode,
            backfill,
            ties: "first",
            layers: vec![layer],
        };
        Model::of(&parts).unwrap()
    }

    struct Mine(Learned);
    impl Default for Mine {
        fn default() -> Self {
            Mine(Learned::new(shortest("commit", "none")))
        }
    }
    impl Policy for Mine {
        fn info() -> Info {
            Info::new("mine", "")
        }
        fn configure(&mut self, _config: &Config) -> Result<(), String> {
            Ok(())
        }
    }
    impl Scheduling for Mine {
        fn run(&mut self, pass: &mut dyn Pass) {
            self.0.run(pass);
        }
    }
    impl Observing for Mine {
        fn observe(&mut self, _now: f64, events: &[JobEvent]) {
            self.0.observe(events);
        }
    }
    impl State for Mine {
        fn save(&self) -> Saved {
            self.0.save()
        }
        fn restore(&mut self, _from: &str, version: u32, data: &[u8]) -> Result<(), String> {
            self.0.restore(version, data)
        }
    }
    export_policy!(Mine: scheduling, observing, state);

    fn of(mode: &'static str, backfill: &'static str) -> Mine {
        Mine(Learned::new(shortest(mode, backfill)))
    }

    #[test]
    fn res_48_a_committed_job_is_the_next_to_start() {
        let mut bench = Bench::new(4);
        let mut mine = of("commit", "none");
        bench.job(1).cores(3).duration(500.0).running();
        bench.job(2).cores(4).duration(10.0).submit();
        bench.job(3).cores(1).duration(90.0).submit();
        bench.run(&mut mine);
        assert_eq!(bench.started(), []);
        assert_eq!(mine.0.picker.committed(), Some(2));
        // A shorter one does not replace it, and a swap hands it over.
        bench.job(4).cores(1).duration(1.0).submit();
        bench.run(&mut mine);
        assert_eq!(bench.started(), []);
        let mut next = of("commit", "none");
        next.0.restore(STATE, &mine.0.save().data).unwrap();
        assert_eq!(next.0.picker, mine.0.picker);
        bench.end(1);
        bench.run(&mut next);
        assert_eq!(bench.started(), [2]);
    }

    #[test]
    fn res_48_a_committed_job_that_left_does_not_block() {
        let mut bench = Bench::new(4);
        let mut mine = of("commit", "none");
        bench.job(1).cores(3).duration(500.0).running();
        bench.job(2).cores(4).duration(10.0).submit();
        bench.job(3).cores(1).duration(90.0).submit();
        bench.run(&mut mine);
        bench.cancel(2);
        bench.run(&mut mine);
        assert_eq!(bench.started(), [3]);
        // Nor does one that needs nodes which are down.
        let mut bench = Bench::new(4);
        bench.down_cores(1);
        bench.job(2).cores(4).duration(10.0).submit();
        bench.job(3).cores(1).duration(90.0).submit();
        bench.run(&mut of("commit", "none"));
        assert_eq!(bench.started(), [3]);
    }

    #[test]
    fn res_48_damaged_states_are_refused() {
        let mut bench = Bench::new(4);
        let mut mine = of("commit", "frozen");
        bench.job(1).cores(3).duration(500.0).submit();
        bench.job(2).cores(4).duration(1000.0).submit();
        bench.run(&mut mine);
        let data = mine.0.save().data;
        let mut next = of("commit", "none");
        for end in 0..data.len() {
            assert!(next.0.restore(STATE, &data[..end]).is_err() || (end - 26) % 20 == 0);
        }
        let mut fresh = of("commit", "none");
        assert!(fresh.0.restore(STATE + 1, &data).unwrap_err().contains("version 3"));
        assert!(fresh.0.restore(STATE, &[7; 26]).is_err());
        assert_eq!(fresh.0.picker, of("commit", "none").0.picker);
        // A state of the version before has no number of decisions.
        fresh.0.restore(STATE_OF_PICKER, &data[8..]).unwrap();
        assert_eq!((fresh.0.picker.save(), fresh.0.decisions), (mine.0.picker.save(), 0));
    }

    /// The order in which 30 jobs start one after the other, of which each could be the next.
    fn order(seed: u64, swapped_after: Option<usize>) -> Vec<u64> {
        let mut bench = Bench::new(1);
        let mut mine = of("commit", "none");
        mine.0.sample(seed);
        for id in 1..=30 {
            bench.job(id).cores(1).duration(100.0).submit();
        }
        let mut order = Vec::new();
        for at in 0..30 {
            if swapped_after == Some(at) {
                let saved = mine.0.save();
                mine = of("commit", "none");
                mine.0.sample(seed);
                mine.0.restore(saved.version, &saved.data).unwrap();
            }
            bench.run(&mut mine);
            let started = *bench.started().last().unwrap();
            order.push(started);
            bench.end(started);
        }
        order
    }

    #[test]
    fn res_53_a_seed_gives_the_same_decisions_and_another_one_others() {
        assert_eq!(order(0, None), (1..=30).collect::<Vec<u64>>(), "equal logits: the first");
        let drawn = order(1, None);
        assert_ne!(drawn, order(0, None));
        assert_eq!(drawn, order(1, None));
        assert_eq!(drawn, order(1, Some(12)), "a swap hands the number of decisions over");
        assert_ne!(drawn, order(2, None));
    }

    #[test]
    fn jobs_start_before_the_committed_one_as_its_backfilling_says() {
        for (backfill, early, late) in
            [("none", vec![], vec![]), ("frozen", vec![4], vec![]), ("easy", vec![4], vec![5])]
        {
            let mut bench = Bench::new(4);
            let mut mine = of("commit", backfill);
            bench.job(1).cores(3).duration(500.0).submit();
            bench.run(&mut mine);
            assert_eq!(bench.started(), [1]);
            bench.job(2).cores(4).duration(10.0).submit();
            bench.run(&mut mine);
            assert_eq!(bench.started(), []);
            // One that ends after the shadow time of 500 s, and one that ends before it.
            bench.job(3).cores(1).duration(501.0).submit();
            bench.job(4).cores(1).duration(499.0).really(100.0).submit();
            bench.run(&mut mine);
            assert_eq!(bench.started(), early, "{backfill}");
            bench.advance(100.0);
            // One that ends at the shadow time.
            bench.job(5).cores(1).duration(400.0).submit();
            bench.run(&mut mine);
            assert_eq!(bench.started(), late, "{backfill}");
        }
    }

    #[test]
    fn in_a_pass_of_its_own_the_first_that_waits_is_not_delayed() {
        let mut bench = Bench::new(4);
        let mut mine = of("pass", "easy");
        bench.job(1).cores(3).duration(500.0).submit();
        bench.run(&mut mine);
        bench.job(2).cores(4).duration(10.0).submit();
        bench.job(3).cores(1).duration(400.0).submit();
        bench.job(4).cores(1).duration(600.0).submit();
        bench.run(&mut mine);
        assert_eq!(bench.started(), [3]);
        assert_eq!(bench.reserved(), [(2, 500.0)]);
        let mut mine = of("pass", "none");
        let mut bench = Bench::new(4);
        bench.job(1).cores(3).duration(500.0).submit();
        bench.run(&mut mine);
        bench.job(2).cores(4).duration(10.0).submit();
        bench.job(3).cores(1).duration(400.0).submit();
        bench.run(&mut mine);
        assert_eq!(bench.started(), []);
    }

    #[test]
    fn res_47_more_jobs_than_rows_are_counted() {
        let mut bench = Bench::new(1);
        let mut mine = of("commit", "none");
        for id in 1..=5 {
            bench.job(id).cores(1).duration(100.0 - id as f64).submit();
        }
        bench.run(&mut mine);
        // The shortest of the first three; then it is committed to the next.
        assert_eq!(bench.started(), [3]);
        assert_eq!(mine.0.picker.beyond(), 2);
    }
}
