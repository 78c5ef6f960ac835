//! Budgets by time of day, and use over time.
//!
//! This module knows neither jobs nor the host.

use fluxgate_guest::flow::Span;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// Number of days that are searched for an hour at which the budget rises.
const DAYS_MAX: usize = 1000;

/// A budget as set: a percentage of the capacity, or an amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    /// Percent.
    Share(f64),
    Units(u64),
}

impl Amount {
    /// `N%` or a whole number.
    pub(crate) fn read(text: &str) -> Option<Amount> {
        match text.strip_suffix('%') {
            Some(share) => {
                share.trim().parse().ok().filter(|s: &f64| (0.0..=100.0).contains(s)).map(Amount::Share)
            }
            None => text.parse().ok().map(Amount::Units),
        }
    }

    /// The budget for this capacity; percentages are rounded down.
    pub(crate) fn of(self, total: u64) -> u64 {
        match self {
            // An f64 has 53 bits, more than any machine has watts.
            Amount::Share(percent) => (total as f64 * percent / 100.0) as u64,
            Amount::Units(units) => units,
        }
    }
}

/// Hours of the day in UTC: from, to, in seconds since midnight; may go past it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hours {
    from: f64,
    to: f64,
}

impl Hours {
    /// `HH:MM-HH:MM`.
    pub(crate) fn read(text: &str) -> Option<Hours> {
        let time = |text: &str| {
            let (hours, minutes) = text.split_once(':')?;
            let two = |text: &str, most: u32| {
                let plain = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
                text.parse::<u32>().ok().filter(|n| plain && *n <= most)
            };
            Some(f64::from(two(hours, 23)? * 3600 + two(minutes, 59)? * 60))
        };
        let (from, to) = text.split_once('-')?;
        let (from, to) = (time(from)?, time(to)?);
        (from != to).then_some(Hours { from, to })
    }

    fn has(self, time: f64) -> bool {
        let of_day = time.rem_euclid(DAY);
        match self.from < self.to {
            true => self.from <= of_day && of_day < self.to,
            false => self.from <= of_day || of_day < self.to,
        }
    }
}

/// The next time after this one with this time of day.
fn next(after: f64, of_day: f64) -> f64 {
    let today = (after / DAY).floor() * DAY + of_day;
    if today > after { today } else { today + DAY }
}

/// The budget over time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) usual: u64,
    /// In some hours of each day.
    pub(crate) peak: Option<(Hours, u64)>,
}

impl Budget {
    pub(crate) fn at(&self, time: f64) -> u64 {
        match self.peak {
            Some((hours, peak)) if hours.has(time) => peak,
            _ => self.usual,
        }
    }

    /// The unused part at a time.
    pub(crate) fn left(&self, used: &Use, time: f64) -> u64 {
        self.at(time).saturating_sub(used.at(time))
    }

    pub(crate) fn most(&self) -> u64 {
        self.peak.map_or(self.usual, |(_, peak)| peak.max(self.usual))
    }

    /// The next time at which the budget falls.
    fn next_fall(&self, after: f64) -> Option<f64> {
        let (hours, peak) = self.peak?;
        match peak < self.usual {
            true => Some(next(after, hours.from)),
            false => (peak > self.usual).then(|| next(after, hours.to)),
        }
    }

    /// The next time at which the budget rises.
    pub(crate) fn next_rise(&self, after: f64) -> Option<f64> {
        let (hours, peak) = self.peak?;
        match peak < self.usual {
            true => Some(next(after, hours.to)),
            false => (peak > self.usual).then(|| next(after, hours.from)),
        }
    }
}

/// Use from now on, by expected ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Use {
    /// Flow held now: end, and the amount held until then by this span and all that end later. By end.
    held: Vec<(f64, u64)>,
    /// Begins of reservations.
    starts: Vec<f64>,
    /// Flow of reservations from each time on.
    steps: Vec<(f64, u64)>,
    /// Ends of all these.
    ends: Vec<f64>,
    spans: Vec<Span>,
}

impl Use {
    pub(crate) fn of(spans: Vec<Span>) -> Use {
        let mut all = Use { spans, ..Use::default() };
        all.arrange();
        all
    }

    /// Adds a reservation.
    pub(crate) fn add(&mut self, start: f64, end: f64, amount: u64) {
        self.spans.push(Span { start, end, amount });
        self.arrange();
    }

    fn arrange(&mut self) {
        self.held.clear();
        self.starts.clear();
        self.steps.clear();
        let mut changes: Vec<(f64, i128)> = Vec::new();
        for span in &self.spans {
            if span.start == f64::NEG_INFINITY {
                self.held.push((span.end, span.amount));
            } else {
                self.starts.push(span.start);
                changes.push((span.start, i128::from(span.amount)));
                changes.push((span.end, -i128::from(span.amount)));
            }
        }
        self.held.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0_u64;
        for (_, amount) in self.held.iter_mut().rev() {
            sum = sum.saturating_add(*amount);
            *amount = sum;
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut now = 0;
        for (time, change) in changes {
            now += change;
            let amount = u64::try_from(now).unwrap_or(0);
            match self.steps.last_mut() {
                Some(last) if last.0 == time => last.1 = amount,
                _ => self.steps.push((time, amount)),
            }
        }
        self.starts.sort_by(f64::total_cmp);
        self.ends = self.spans.iter().map(|span| span.end).filter(|end| end.is_finite()).collect();
        self.ends.sort_by(f64::total_cmp);
        self.ends.dedup();
    }

    /// Use at a time.
    fn at(&self, time: f64) -> u64 {
        let held = self.held.get(self.held.partition_point(|(end, _)| *end <= time)).map_or(0, |it| it.1);
        let begun = self.steps.partition_point(|(from, _)| *from <= time);
        let reserved = begun.checked_sub(1).map_or(0, |at| self.steps[at].1);
        held.saturating_add(reserved)
    }

    /// True if this further amount stays within the budget from a time on for this duration.
    pub(crate) fn allows(&self, budget: &Budget, amount: u64, start: f64, duration: f64) -> bool {
        if amount == 0 {
            return true;
        }
        let end = start + duration;
        let within = |time: f64| self.at(time).saturating_add(amount) <= budget.at(time);
        // Use only grows where a reservation begins; the worst time until the next begin is then the next fall of the
        // budget.
        let worst =
            |time: f64| within(time) && budget.next_fall(time).is_none_or(|fall| fall >= end || within(fall));
        let later = self.starts.partition_point(|begin| *begin <= start);
        worst(start)
            && self.starts[later..].iter().take_while(|begin| **begin < end).all(|begin| worst(*begin))
    }

    /// The first time, `from` or later, from which on it does; `None` if there is none within the search.
    pub(crate) fn first(&self, budget: &Budget, amount: u64, from: f64, duration: f64) -> Option<f64> {
        let allowed = |time: &f64| self.allows(budget, amount, *time, duration);
        if allowed(&from) {
            return Some(from);
        }
        let later = &self.ends[self.ends.partition_point(|end| *end <= from)..];
        // A day after the last end everything has been the same for a day.
        let last = later.last().copied().unwrap_or(from) + DAY;
        let mut ends = later.iter().copied().peekable();
        let mut rises = std::iter::successors(budget.next_rise(from), |time| budget.next_rise(*time))
            .take_while(|time| *time <= last)
            .take(DAYS_MAX)
            .peekable();
        let in_order = std::iter::from_fn(move || match (ends.peek(), rises.peek()) {
            (Some(end), Some(rise)) if rise < end => rises.next(),
            (Some(_), _) => ends.next(),
            (None, _) => rises.next(),
        });
        in_order.into_iter().find(|time| allowed(time))
    }
}
