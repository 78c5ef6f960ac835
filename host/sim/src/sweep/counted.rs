//! The number of cores in use, on a machine without places.
//!
//! Must never know the jobs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fluxgate_formats::TotalF64;

use super::Violation;

/// The cores in use; see the module.
#[derive(Debug)]
pub(super) struct Counted {
    total: u64,
    used: u64,
    /// Ends of running jobs, with their cores.
    ends: BinaryHeap<Reverse<(TotalF64, u64)>>,
}

impl Counted {
    /// A machine of this number of cores, none in use.
    pub(super) fn new(total: u64) -> Self {
        Counted { total, used: 0, ends: BinaryHeap::new() }
    }

    /// A job of this many cores starts and ends at these times; starts are in the order of time. Intervals are half-open.
    pub(super) fn starts(&mut self, (start, end): (f64, f64), cores: u64) -> Option<Violation> {
        while let Some(Reverse((_, back))) = self.ends.peek().filter(|ended| ended.0.0.0 <= start) {
            self.used -= back;
            self.ends.pop();
        }
        if end > start {
            self.used += cores;
            self.ends.push(Reverse((TotalF64(end), cores)));
        }
        let over = self.used > self.total || cores > self.total;
        over.then(|| Violation::Overfull { time: start, used: self.used.max(cores), total: self.total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_is_free_and_one_core_too_many_is_told() {
        let mut counted = Counted::new(4);
        assert_eq!(counted.starts((0.0, 10.0), 3), None);
        assert_eq!(counted.starts((0.0, 10.0), 1), None);
        let over = |time, used| Some(Violation::Overfull { time, used, total: 4 });
        assert_eq!(counted.starts((9.0, 20.0), 1), over(9.0, 5));
        assert_eq!(counted.starts((10.0, 20.0), 3), None, "the first two ended");
        assert_eq!(counted.starts((10.0, 10.0), 5), over(10.0, 5), "wider than the machine, for no time");
    }
}
