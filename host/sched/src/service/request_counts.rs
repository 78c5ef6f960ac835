//! Counts of the requests of people and programs by method, for figures. Must never know what is answered.

use std::collections::BTreeMap;

use fluxgate_wire::session::ControlRequest;

use crate::openmetrics::OTHER;

/// Most methods with a label of their own; those of the scheduler are fewer.
const METHODS_MAX: usize = 64;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    /// By method, of the owner and of guests.
    counts: BTreeMap<String, [u64; 2]>,
}

impl RequestCounts {
    /// A request for a method that exists.
    pub(super) fn add(&mut self, request: &ControlRequest) {
        let guest = usize::from(!request.message.is_from_owner());
        self.count(request.method(), guest);
    }

    fn count(&mut self, method: &str, guest: usize) {
        let known = self.counts.len() < METHODS_MAX || self.counts.contains_key(method);
        let counts = self.counts.entry(if known { method } else { OTHER }.to_owned()).or_default();
        counts[guest] += 1;
    }

    /// Each method with the requests of the owner and of guests.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, [(&'static str, u64); 2])> {
        let row = |counts: &[u64; 2]| [("owner", counts[0]), ("guest", counts[1])];
        self.counts.iter().map(move |(method, counts)| (method.as_str(), row(counts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_60_methods_beyond_the_bound_are_summed_up() {
        let mut counts = RequestCounts::default();
        for number in 0..100 {
            counts.count(&format!("m{number}"), 0);
            counts.count("m0", 1);
        }
        let rows: Vec<_> = counts.rows().collect();
        assert_eq!(rows.len(), METHODS_MAX + 1);
        assert!(rows.contains(&("m0", [("owner", 1), ("guest", 100)])));
        assert!(rows.contains(&(OTHER, [("owner", 36), ("guest", 0)])));
    }
}
