//! Cores in use over time: cores held until now, cores that running jobs hold from now on until their limits end, and cores that
//! the expected starts of waiting jobs add.
//!
//! Must never know how a start is found.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::axis::Axis;
use super::n;
use crate::jobs::Job;
use crate::words;

/// Points of a curve.
const POINTS: usize = 180;
const WIDTH: f64 = 1120.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 194.0;

/// Cores over a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) cores: f64,
}

/// The mean number of cores held in each of the equal parts of a span.
fn means(from: f64, to: f64, parts: usize, held: impl Iterator<Item = Held>) -> Vec<f64> {
    let mut sums = vec![0.0; parts];
    let width = (to - from) / parts as f64;
    if width <= 0.0 {
        return sums;
    }
    for one in held {
        let (begin, end) = (one.from.max(from), one.to.min(to));
        if end <= begin {
            continue;
        }
        let first = (((begin - from) / width) as usize).min(parts - 1);
        let last = (((end - from) / width) as usize).min(parts - 1);
        for (part, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let left = from + part as f64 * width;
            let overlap = (left + width).min(end) - left.max(begin);
            *sum += one.cores * overlap.max(0.0) / width;
        }
    }
    sums
}

/// The picture. `total` are the cores of the machine; `complete` since when all jobs are known.
pub(crate) fn picture(
    axis: (f64, f64, f64),
    total: f64,
    jobs: &[Job],
    expected: &[Held],
    complete: f64,
) -> Markup {
    let (from, now, to) = axis;
    let axis = Axis { from, to, now, left: 44.0, right: WIDTH - 8.0 };
    let parts = |share: f64| ((POINTS as f64 * share) as usize).max(2);
    let share = ((now - from) / (to - from).max(1.0)).clamp(0.05, 0.95);
    let past = means(
        from,
        now,
        parts(share),
        jobs.iter().map(|job| Held { from: job.start, to: job.end.unwrap_or(now), cores: job.cores as f64 }),
    );
    let ahead = parts(1.0 - share);
    let held = means(
        now,
        to,
        ahead,
        jobs.iter().filter(|job| job.end.is_none()).map(|job| Held {
            from: now,
            to: job.limit,
            cores: job.cores as f64,
        }),
    );
    let come = means(now, to, ahead, expected.iter().copied());
    let most = total.max(1.0);
    let y = |cores: f64| BOTTOM - (cores / most).clamp(0.0, 1.0) * (BOTTOM - TOP);
    let with: Vec<f64> = held.iter().zip(&come).map(|(held, come)| held + come).collect();
    let area = |begin: f64, end: f64, top: &[f64], low: Option<&[f64]>| {
        let at = |i: usize| n(axis.x(begin + (end - begin) * i as f64 / top.len() as f64));
        let mut path = format!("M{} {}", at(0), n(y(low.map_or(0.0, |low| low[0]))));
        for (i, value) in top.iter().enumerate() {
            let _ = write!(path, "V{}H{}", n(y(*value)), at(i + 1));
        }
        match low {
            None => path += &format!("V{}z", n(BOTTOM)),
            Some(low) => {
                for (i, value) in low.iter().enumerate().rev() {
                    let _ = write!(path, "V{}H{}", n(y(*value)), at(i));
                }
                path.push('z');
            }
        }
        path
    };
    let known = from.max(complete).min(now);
    let skip = ((known - from) / (now - from).max(1.0) * past.len() as f64) as usize;
    let begin = from + (now - from) * skip as f64 / past.len() as f64;
    html! {
        svg class="picture" viewBox={"0 0 " (WIDTH) " " (HEIGHT)} role="img"
            aria-label="Cores in use over time" {
            @for part in [0.0, 0.5, 1.0] {
                path class="grid" d={"M44 " (n(y(part * most))) "H" (WIDTH - 8.0)} {}
                text class="ylab" x="38" y=(n(y(part * most) + 4.0)) { (words::short(part * most)) }
            }
            @if skip < past.len() {
                path class="u-past" d=(area(begin, now, &past[skip..], None)) { title { "in use" } }
            }
            path class="u-held" d=(area(now, to, &held, None)) { title { "held until limits end" } }
            path class="u-hatch" d=(area(now, to, &held, None)) {}
            path class="u-come" d=(area(now, to, &with, Some(&held))) { title { "expected starts" } }
            (PreEscaped(axis.draw(TOP, BOTTOM)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_half_of_a_part_counts_half() {
        let held = [
            Held { from: 0.0, to: 15.0, cores: 4.0 },
            Held { from: 25.0, to: f64::INFINITY, cores: 2.0 },
            Held { from: -10.0, to: -5.0, cores: 100.0 },
        ];
        assert_eq!(means(0.0, 40.0, 4, held.into_iter()), [4.0, 2.0, 1.0, 2.0]);
    }
}
