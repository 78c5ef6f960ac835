//! The rows of a pass: which waiting jobs a network sees, when more wait than it has rows.
//!
//! Jobs come in the order of the queue, which is that of submission unless priorities differ. This module knows neither
//! features nor networks.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::features::Waiting;

/// Most rows of a network.
pub const ROWS_MAX: usize = 1024;

/// The rule by which rows are chosen. If all jobs have a row, each rule gives them in the order of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// `first`: the first of the queue.
    First,
    /// `interleaved`: in turn the next by requested duration and the next by cores, each job once; ties by the queue. The
    /// rule of Zhang et al. (SC 2020), in whose code the third list is the first one again.
    Interleaved,
    /// `split`: the first half from the head of the queue, the others from its tail (Wang, Harwood, Rodriguez,
    /// arXiv 2401.09910).
    Split,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 3] = [Rule::First, Rule::Interleaved, Rule::Split];

    /// Name, the value of `fluxgate.rows` in a file of weights.
    pub fn name(self) -> &'static str {
        match self {
            Rule::First => "first",
            Rule::Interleaved => "interleaved",
            Rule::Split => "split",
        }
    }

    /// The rule of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// Indices of the jobs that are rows, at most `rows`, in the order of rows.
    pub fn choose(self, jobs: &[Waiting], rows: usize) -> Vec<usize> {
        let all = jobs.len();
        if all <= rows {
            return (0..all).collect();
        }
        match self {
            Rule::First => (0..rows).collect(),
            Rule::Split => (0..rows.div_ceil(2)).chain(all - rows / 2..all).collect(),
            Rule::Interleaved => interleaved(jobs, rows),
        }
    }
}

fn interleaved(jobs: &[Waiting], rows: usize) -> Vec<usize> {
    // Ties stay in the order of the queue.
    let by_duration =
        smallest(jobs.len(), rows, |a, b| jobs[a].duration.total_cmp(&jobs[b].duration).then(a.cmp(&b)));
    let by_cores = smallest(jobs.len(), rows, |a, b| jobs[a].cores.cmp(&jobs[b].cores).then(a.cmp(&b)));
    let mut seen = alloc::vec![false; jobs.len()];
    let mut chosen = Vec::with_capacity(rows);
    for (first, second) in by_duration.into_iter().zip(by_cores) {
        for at in [first, second] {
            if chosen.len() < rows && !seen[at] {
                seen[at] = true;
                chosen.push(at);
            }
        }
    }
    chosen
}

/// The first this many indices in an order in which none are equal; without a sort of all the others.
fn smallest(all: usize, count: usize, order: impl Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..all).collect();
    if count > 0 && count < all {
        indices.select_nth_unstable_by(count - 1, |a, b| order(*a, *b));
    }
    indices.truncate(count);
    indices.sort_unstable_by(|a, b| order(*a, *b));
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of these durations and cores.
    fn jobs(asked: &[(f64, u32)]) -> Vec<Waiting> {
        let job = |(at, (duration, cores)): (usize, &(f64, u32))| Waiting {
            candidate: at as u32,
            id: at as u64,
            submit: at as f64,
            duration: *duration,
            cores: *cores,
            nodes: 0,
            user: 0,
        };
        asked.iter().enumerate().map(job).collect()
    }

    #[test]
    fn res_47_each_rule_by_hand() {
        let queue = jobs(&[(50.0, 1), (40.0, 2), (30.0, 3), (20.0, 4), (10.0, 5)]);
        assert_eq!(Rule::First.choose(&queue, 3), [0, 1, 2]);
        assert_eq!(Rule::Split.choose(&queue, 3), [0, 1, 4]);
        assert_eq!(Rule::Split.choose(&queue, 4), [0, 1, 3, 4]);
        assert_eq!(Rule::Interleaved.choose(&queue, 3), [4, 0, 3]);
        // The job that is first in both orders is a row once; ties come by the queue.
        let queue = jobs(&[(9.0, 9), (1.0, 1), (9.0, 1), (9.0, 9)]);
        assert_eq!(Rule::Interleaved.choose(&queue, 3), [1, 0, 2]);
    }

    #[test]
    fn res_47_a_queue_that_fits_is_in_its_order_under_every_rule() {
        let queue = jobs(&[(50.0, 1), (40.0, 2), (30.0, 3)]);
        for rule in Rule::ALL {
            assert_eq!(Rule::named(rule.name()), Some(rule));
            assert_eq!(rule.choose(&queue, 3), [0, 1, 2]);
            for rows in 0..3 {
                let mut chosen = rule.choose(&queue, rows);
                assert_eq!(chosen.len(), rows);
                chosen.sort_unstable();
                chosen.dedup();
                assert_eq!(chosen.len(), rows, "{}", rule.name());
            }
        }
    }
}
