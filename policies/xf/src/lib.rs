//! The policy `xf`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;

/// Maximum number of jobs scored in a pass.
const WINDOW_MAX: i64 = 100_000;

/// The formula of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Formula {
    Xf,
    Wfp,
    Unicef,
}

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct Xf {
    formula: Formula,
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
    /// Number of waiting jobs that are scored.
    window: usize,
}

impl Default for Xf {
    fn default() -> Self {
        Xf { formula: Formula::Xf, depth: 1, window: 10_000 }
    }
}

impl Policy for Xf {
    fn info() -> Info {
        Info::new("xf", "Largest expansion factor first, with backfilling")
            .version(env!("CARGO_PKG_VERSION"))
            .key("formula", Kind::Text, "xf", "the score: xf, wfp or unicef")
            .key("depth", Kind::Integer, "1", "how many waiting jobs have a reservation, 0 to 1000")
            .key("window", Kind::Integer, "10000", "how many waiting jobs are scored, 1 to 100000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.formula = match config.text("formula")? {
            "xf" => Formula::Xf,
            "wfp" => Formula::Wfp,
            "unicef" => Formula::Unicef,
            other => return Err(format!("`formula` is {other}, but must be xf, wfp or unicef")),
        };
        self.depth = config.integer_in("depth", 0..=DEPTH_MAX)? as u32;
        self.window = config.integer_in("window", 1..=WINDOW_MAX)? as usize;
        Ok(())
    }
}

impl Formula {
    fn score(self, now: f64, job: &Job) -> f64 {
        if job.priority == u32::MAX {
            return f64::INFINITY;
        }
        let (wait, asked, cores) = (now - job.t_submit, job.duration, f64::from(job.cores.max(1)));
        match self {
            Formula::Xf if asked.is_infinite() => 1.0,
            Formula::Xf => (wait + asked) / asked,
            Formula::Wfp => {
                let part = wait / asked;
                part * part * part * cores
            }
            Formula::Unicef => wait / ((cores + 1.0).log2() * asked),
        }
    }
}

impl Scheduling for Xf {
    fn run(&mut self, pass: &mut dyn Pass) {
        let now = pass.now();
        backfill::by_score(pass, self.depth, self.window, |job| self.formula.score(now, job));
    }
}

export_policy!(Xf: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    /// One core, held for 100 s by job 1; two jobs wait, the short one came later.
    fn race(formula: &str) -> Vec<u64> {
        let mut bench = Bench::new(4);
        bench.job(1).cores(4).duration(100.0).running();
        bench.job(2).cores(4).duration(1000.0).submitted_at(-100.0).submit();
        bench.job(3).cores(1).duration(50.0).submitted_at(0.0).submit();
        bench.advance(100.0);
        bench.run(&mut configured::<Xf>(&[("formula", formula)]).unwrap());
        bench.started().to_vec()
    }

    #[test]
    fn the_formulas() {
        // xf: 1.2 against 3; wfp: 0.032 against 8; unicef: 0.086 against 2.
        for formula in ["xf", "wfp", "unicef"] {
            assert_eq!(race(formula), [3], "{formula}");
        }
        let job = |cores, duration, priority| Job {
            id: 1,
            t_submit: 0.0,
            duration,
            priority,
            userid: 0,
            queue: 0,
            nodes: 0,
            cores,
            gpus: 0,
        };
        let of = |formula: Formula, cores, duration| formula.score(100.0, &job(cores, duration, 16));
        assert_eq!(of(Formula::Xf, 8, 50.0), 3.0);
        assert_eq!(of(Formula::Wfp, 3, 50.0), 24.0);
        assert_eq!(of(Formula::Unicef, 7, 50.0), 2.0 / 3.0);
        let unlimited = [Formula::Xf, Formula::Wfp, Formula::Unicef].map(|f| of(f, 8, f64::INFINITY));
        assert_eq!(unlimited, [1.0, 0.0, 0.0]);
        assert_eq!(Formula::Wfp.score(100.0, &job(1, 1.0, u32::MAX)), f64::INFINITY);
    }

    #[test]
    fn equal_scores_come_in_the_hosts_order() {
        let mut bench = Bench::new(1);
        bench.job(3).duration(10.0).submit();
        bench.job(2).duration(20.0).submit();
        bench.run(&mut Xf::default());
        assert_eq!(bench.started(), [2]);
    }

    #[test]
    fn only_the_window_is_scored() {
        let mut bench = Bench::new(4);
        bench.job(1).cores(4).duration(100.0).running();
        bench.job(2).cores(4).duration(1000.0).submit();
        bench.job(3).cores(4).duration(10.0).submit();
        bench.advance(100.0);
        bench.run(&mut configured::<Xf>(&[("window", "1")]).unwrap());
        assert_eq!(bench.started(), [2]);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        assert!(configured::<Xf>(&[("formula", "x")]).unwrap_err().contains("xf, wfp or unicef"));
        assert!(configured::<Xf>(&[("window", "0")]).unwrap_err().contains("between 1 and 100000"));
    }
}
