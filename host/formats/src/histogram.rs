//! Histograms with fixed buckets, which add up over time and over instances.
//!
//! This module must never know the meaning of a value.

/// Counts of values by bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper bounds of the buckets, ascending. A bucket includes its bound.
    bounds: &'static [f64],
    /// One count more than bounds: the last is of values above all of them.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, which must ascend; there is one bucket more, for greater values.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts a value. NaN counts for nothing.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    /// Adds the counts of a histogram with the same bounds; one with other bounds is left out.
    pub fn merge(&mut self, other: &Histogram) {
        if self.bounds == other.bounds {
            self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
            self.sum += other.sum;
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all values; 0 without any.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// For each bucket its upper bound, infinite for the last, and the number of values up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_includes_its_bound_and_the_last_has_none() {
        let mut histogram = Histogram::new(&[1.0, 2.5]);
        for value in [0.0, 1.0, 1.5, 2.5, 99.0, f64::NAN] {
            histogram.add(value);
        }
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1.0, 2), (2.5, 4), (f64::INFINITY, 5)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 104.0));
        histogram.merge(&histogram.clone());
        histogram.merge(&Histogram::new(&[7.0]));
        assert_eq!((histogram.count(), histogram.sum()), (10, 208.0));
    }
}
