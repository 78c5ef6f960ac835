//! Time from left to right, with ticks at round times of day.
//!
//! Must never know what is drawn along it.

use std::fmt::Write as _;

use super::n;
use crate::words;

/// Most ticks.
const TICKS_MAX: usize = 12;

/// Distances between ticks, seconds.
const STEPS: [f64; 19] = [
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    31_536_000.0,
];

/// A span of time on a span of a picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) now: f64,
    pub(crate) left: f64,
    pub(crate) right: f64,
}

impl Axis {
    /// The place of a time; times outside are moved to the edge.
    pub(crate) fn x(&self, time: f64) -> f64 {
        let part = (time - self.from) / (self.to - self.from).max(1.0);
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Ticks with their labels below `bottom`, lines up to `top`, and the line of the present.
    pub(crate) fn draw(&self, top: f64, bottom: f64) -> String {
        let mut out = String::new();
        let length = self.to - self.from;
        let step = STEPS.into_iter().find(|step| length / step <= 9.0).unwrap_or(length);
        let mut at = (self.from / step).ceil() * step;
        // No more than that, whatever times an instance tells.
        for _ in 0..TICKS_MAX {
            if at > self.to || !at.is_finite() {
                break;
            }
            let midnight = at.rem_euclid(86_400.0) < 1.0;
            let text = if midnight || step >= 86_400.0 { words::day(at) } else { words::clock(at) };
            let text = if step < 60.0 { words::date_time(at).split_off(11) } else { text };
            let x = self.x(at);
            // There is no room for words at the edge.
            let text = if x > self.right - 16.0 { String::new() } else { text };
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{0} {1}V{2}\"/><text class=\"tick\" x=\"{0}\" y=\"{3}\">{text}</text>",
                n(x),
                n(top),
                n(bottom),
                n(bottom + 16.0)
            );
            at += step;
        }
        let x = self.x(self.now);
        let _ = write!(
            out,
            "<path class=\"now\" d=\"M{0} {1}V{2}\"/><text class=\"now\" x=\"{0}\" y=\"{3}\">now</text>",
            n(x),
            n(top - 4.0),
            n(bottom),
            n(top - 8.0)
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_span_has_some_ticks_and_not_too_many() {
        for length in [60.0, 600.0, 3600.0, 7200.0, 86_400.0, 604_800.0, 3e7] {
            let axis = Axis { from: 1e9, to: 1e9 + length, now: 1e9, left: 0.0, right: 100.0 };
            let ticks = axis.draw(20.0, 80.0).matches("class=\"tick\"").count();
            assert!((1..=10).contains(&ticks), "{length}: {ticks}");
        }
    }
}
