//! Wait and run time of every job that ran: in memory or, for many jobs, in a private file. Every order statistic of
//! them is exact in both cases.
//!
//! This module does not know the meaning of the figures.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use super::{Distribution, Total};

/// Number of jobs whose values stay in memory.
pub(super) const KEPT_MAX: usize = 1 << 20;

/// Bytes of one wait and run time.
const PAIR: usize = 16;

/// The values of all jobs; see the [module](self).
#[derive(Debug)]
pub(super) struct Values {
    kept: Vec<(f64, f64)>,
    most: usize,
    file: Option<BufWriter<File>>,
    len: u64,
}

impl Values {
    pub(super) fn new() -> Self {
        Values { kept: Vec::new(), most: KEPT_MAX, file: None, len: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn push(&mut self, wait: f64, run: f64) -> io::Result<()> {
        if self.file.is_none() && self.kept.len() >= self.most {
            let mut file = BufWriter::with_capacity(1 << 16, tempfile::tempfile()?);
            self.kept.drain(..).try_for_each(|pair| write(&mut file, pair))?;
            self.kept = Vec::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => write(file, (wait, run))?,
            None => self.kept.push((wait, run)),
        }
        self.len += 1;
        Ok(())
    }

    /// The distribution of one number of each job that has it. None of them is NaN.
    pub(super) fn distribution(&mut self, of: &dyn Fn(f64, f64) -> Option<f64>) -> io::Result<Distribution> {
        if self.file.is_none() {
            let mut values: Vec<f64> = self.kept.iter().filter_map(|&(wait, run)| of(wait, run)).collect();
            return Ok(Distribution::of(&mut values));
        }
        let (mut n, mut total, mut max) = (0u64, Total::default(), f64::NEG_INFINITY);
        self.each(|wait, run| {
            if let Some(value) = of(wait, run) {
                n += 1;
                total.add(value);
                max = max.max(value);
            }
        })?;
        let Some(last) = n.checked_sub(1) else { return Ok(Distribution::default()) };
        let mut quantile = |p: f64| -> io::Result<f64> {
            // As `fluxgate_formats::quantile` defines it for sorted values.
            let h = last as f64 * p;
            let low = h.floor() as u64;
            let (from, to) = (self.ranked(of, low)?, self.ranked(of, (low + 1).min(last))?);
            Ok(from + (h - low as f64) * (to - from))
        };
        let (median, p95) = (quantile(0.5)?, quantile(0.95)?);
        Ok(Distribution { mean: total.value() / n as f64, median, p95, max })
    }

    /// The value of this rank, with 0 for the smallest: each walk over all values determines sixteen bits of it.
    fn ranked(&mut self, of: &dyn Fn(f64, f64) -> Option<f64>, mut rank: u64) -> io::Result<f64> {
        let mut known = 0u64;
        let mut counts = vec![0u64; 1 << 16];
        for shift in [48, 32, 16, 0] {
            counts.fill(0);
            self.each(|wait, run| {
                let Some(key) = of(wait, run).map(key) else { return };
                // Among values with the same leading bits, by the next ones.
                if shift == 48 || key >> (shift + 16) == known {
                    counts[(key >> shift & 0xffff) as usize] += 1;
                }
            })?;
            let mut part = 0u64;
            for &count in &counts {
                if rank < count {
                    break;
                }
                rank -= count;
                part += 1;
            }
            known = known << 16 | part;
        }
        Ok(value(known))
    }

    /// Every pair.
    fn each(&mut self, mut see: impl FnMut(f64, f64)) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            self.kept.iter().for_each(|&(wait, run)| see(wait, run));
            return Ok(());
        };
        file.flush()?;
        let file = file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        let mut input = BufReader::with_capacity(1 << 20, &mut *file);
        let mut pair = [0; PAIR];
        for _ in 0..self.len {
            input.read_exact(&mut pair)?;
            let (wait, run) = pair.split_at(8);
            see(number(wait), number(run));
        }
        file.seek(SeekFrom::End(0)).map(drop)
    }
}

fn write(file: &mut impl Write, (wait, run): (f64, f64)) -> io::Result<()> {
    file.write_all(&wait.to_ne_bytes())?;
    file.write_all(&run.to_ne_bytes())
}

fn number(bytes: &[u8]) -> f64 {
    f64::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

/// A number as an integer in the order of `f64::total_cmp`, and back.
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(pairs: &[(f64, f64)], most: usize) -> Values {
        let mut values = Values { most, ..Values::new() };
        pairs.iter().for_each(|&(wait, run)| values.push(wait, run).unwrap());
        values
    }

    proptest! {
        #[test]
        fn a_file_tells_what_memory_does(
            pairs in prop::collection::vec((prop_oneof![0.0..4.0, -1e300..1e300, Just(-0.0), Just(7.0)], 0.0..9.0), 0..60),
            most in 0usize..10,
        ) {
            let figures: [&dyn Fn(f64, f64) -> Option<f64>; 3] =
                [&|wait, _| Some(wait), &|wait, run| Some(wait + run), &|_, run| (run > 4.5).then_some(run)];
            let (mut there, mut here) = (filled(&pairs, most), filled(&pairs, usize::MAX));
            for figure in figures {
                let (found, expected) = (there.distribution(figure).unwrap(), here.distribution(figure).unwrap());
                let exact = |d: &Distribution| [d.median, d.p95, d.max].map(f64::to_bits);
                prop_assert_eq!(exact(&found), exact(&expected));
                // Sums in another order differ by rounding.
                prop_assert!((found.mean - expected.mean).abs() <= expected.mean.abs() * 1e-9 + 1e285, "{:?}", (found, expected));
            }
            // Values may be added after a query.
            there.push(1.0, 2.0).unwrap();
            here.push(1.0, 2.0).unwrap();
            prop_assert_eq!(there.distribution(figures[2]).unwrap().max, here.distribution(figures[2]).unwrap().max);
        }
    }

    #[test]
    fn keys_are_in_the_order_of_numbers() {
        let numbers = [f64::NEG_INFINITY, -3.0, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY];
        assert!(numbers.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
        assert!(numbers.iter().all(|n| value(key(*n)).to_bits() == n.to_bits()));
    }
}
