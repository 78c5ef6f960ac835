//! The calendar: sets of nodes that are kept from one time to another, whatever a policy decides.
//!
//! A window keeps its nodes for the requests with access to it. A request without access to a window takes none of its nodes for a
//! span of time that meets the window. A request with access takes them inside the window. The calendar is one part of the
//! one ledger: allocations say which units are held, reservations fix starts, windows say which nodes may be taken.
//!
//! A *floating* window has no fixed time at which its nodes must be free: from its start to its end, a request without access takes
//! them for a bounded number of seconds at most.
//!
//! Spans are half-open, `[start, end)`. This module must never know people, queues or the purpose of a window, nor the state of a
//! machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

/// Most windows of a calendar.
pub const WINDOWS_MAX: usize = 1024;
/// Most times that one window is in the calendar.
pub const OCCURRENCES_MAX: usize = 64;

/// Number of a window, which the caller chooses; a later window of the same number takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(pub u32);

/// How a request may use the nodes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// It takes no other nodes, and these only inside the window.
    Only(WindowId),
    /// It takes these nodes inside the window, and all others as if it had no access.
    Also(WindowId),
    /// The window keeps nothing from it.
    Free(WindowId),
}

impl Access {
    /// The window of the access.
    pub fn window(self) -> WindowId {
        match self {
            Access::Only(id) | Access::Also(id) | Access::Free(id) => id,
        }
    }
}

/// The rights of a request in windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rights {
    /// The way in which it may use the nodes of one window; `None` if it has access to no window.
    pub access: Option<Access>,
    /// Whole seconds after which its job may be ended. The job can then start before a window that is to be filled
    /// ([`WindowTerms::fills`]) although its duration is too long.
    /// `None` if the job is not ended before its time.
    pub fills: Option<u32>,
}

impl Rights {
    /// The rights of a job that is not ended before its time.
    pub fn of(access: Option<Access>) -> Rights {
        Rights { access, fills: None }
    }
}

/// The rule of a window for requests with access to another window of the same nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// It keeps them out.
    Never,
    /// It lets them in where the other window is [`Sharing::Asked`].
    IfAsked,
    /// It lets them in unless the other window is [`Sharing::Never`].
    Asked,
}

impl Sharing {
    /// True if two windows share the nodes that both have.
    pub fn with(self, other: Sharing) -> bool {
        use Sharing::{Asked, IfAsked};
        matches!((self, other), (Asked, Asked | IfAsked) | (IfAsked, Asked))
    }
}

/// One occurrence of a window. Times are finite, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowSpan {
    /// Allocations without access end by then; at most `start`.
    pub from: f64,
    /// Allocations with access start at this time or later.
    pub start: f64,
    /// Allocations without access start at this time or later; after `start`.
    pub end: f64,
    /// Allocations with access end by then; at least `end`.
    pub until: f64,
}

impl WindowSpan {
    /// True if an allocation with access may hold its nodes for this span.
    pub(crate) fn contains(&self, start: f64, end: f64) -> bool {
        self.start <= start && end <= self.until
    }

    pub(crate) fn is_ordered(&self) -> bool {
        let finite = [self.from, self.start, self.end, self.until].iter().all(|time| time.is_finite());
        finite && self.from <= self.start && self.start < self.end && self.end <= self.until
    }
}

/// The terms of a window, beside its nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowTerms {
    /// Its occurrences, in any order, at most [`OCCURRENCES_MAX`]; without any it keeps nothing.
    pub spans: Vec<WindowSpan>,
    /// Its rule for requests with access to another window of the same nodes.
    pub sharing: Sharing,
    /// It floats: requests without access take its nodes for this many seconds at most. `None` if it does not float.
    pub float: Option<f64>,
    /// Jobs that may be ended ([`Rights::fills`]) may run until it begins.
    pub fills: bool,
    /// The units that it keeps of pools, by the name of the pool ([`pool_units`](crate::Resources::pool_units)). A pool that is not
    /// known is ignored.
    pub amounts: Vec<(String, u64)>,
}

impl WindowTerms {
    /// A window that keeps its nodes at these times, and does nothing else.
    pub fn new(spans: Vec<WindowSpan>, sharing: Sharing) -> WindowTerms {
        WindowTerms { spans, sharing, float: None, fills: false, amounts: Vec::new() }
    }
}

/// The reason for which a window was not put into the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// The times of an occurrence are not finite, or not `from <= start < end <= until`.
    #[error("the times of a window are finite, and its end is later than its start")]
    Times,
    /// [`WINDOWS_MAX`] windows are there already.
    #[error("{WINDOWS_MAX} windows are there already")]
    TooMany,
    /// The bound of a floating window is not a positive, finite number of seconds.
    #[error("a floating window leaves a positive number of seconds")]
    Float,
    /// It has more than [`OCCURRENCES_MAX`] occurrences.
    #[error("a window occurs {OCCURRENCES_MAX} times at most")]
    TooOften,
}

#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// In the order of their starts.
    pub(crate) spans: Vec<WindowSpan>,
    pub(crate) nodes: FixedBitSet,
    /// The number of its nodes.
    pub(crate) count: usize,
    pub(crate) sharing: Sharing,
    pub(crate) float: Option<f64>,
    pub(crate) fills: bool,
    /// Units that it keeps of pools, by position in `Graph::upper`.
    pub(crate) amounts: Box<[(u32, u64)]>,
}

impl Window {
    /// True if an allocation with access may hold its nodes for this span.
    pub(crate) fn contains(&self, start: f64, end: f64) -> bool {
        self.spans.iter().any(|span| span.contains(start, end))
    }
}

/// An occurrence of a window in the order of the calendar.
#[derive(Debug, Clone)]
struct Occurrence {
    id: WindowId,
    /// Its place in the window.
    at: u32,
    span: WindowSpan,
    window: Arc<Window>,
    /// The last end of this occurrence and of those before it.
    last_end: f64,
}

/// All windows. See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calendar {
    pub(crate) windows: BTreeMap<WindowId, Arc<Window>>,
    /// By the time from which they keep their nodes, then by window and place in it.
    occurrences: Vec<Occurrence>,
    /// All starts and ends, in order.
    turns: Vec<f64>,
}

/// The effect of windows on a request for a span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Beside {
    /// No window meets the span.
    Open,
    /// Windows of all nodes meet it. Every later start before this time meets one of them too.
    Closed(f64),
    /// The nodes decide.
    Places,
}

impl Calendar {
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    pub(crate) fn remove(&mut self, id: WindowId) -> bool {
        if self.windows.remove(&id).is_none() {
            return false;
        }
        self.occurrences.retain(|occurrence| occurrence.id != id);
        self.measure();
        true
    }

    pub(crate) fn put(&mut self, id: WindowId, window: Window) {
        self.occurrences.retain(|occurrence| occurrence.id != id);
        let window = Arc::new(window);
        let of = |(at, span): (u32, &WindowSpan)| {
            let window = Arc::clone(&window);
            Occurrence { id, at, span: *span, window, last_end: span.end }
        };
        let new: Vec<Occurrence> = (0..).zip(&window.spans).map(of).collect();
        self.occurrences.extend(new);
        self.occurrences
            .sort_by(|a, b| a.span.from.total_cmp(&b.span.from).then((a.id, a.at).cmp(&(b.id, b.at))));
        self.measure();
        self.windows.insert(id, window);
    }

    fn measure(&mut self) {
        let spans = self.occurrences.iter().map(|occurrence| occurrence.span);
        self.turns = spans.flat_map(|span| [span.start, span.end]).collect();
        self.turns.sort_by(f64::total_cmp);
        self.turns.dedup();
        let mut last_end = f64::NEG_INFINITY;
        for occurrence in &mut self.occurrences {
            last_end = last_end.max(occurrence.span.end);
            occurrence.last_end = last_end;
        }
    }

    /// The occurrences that a span meets, by the time from which they keep their nodes.
    pub(crate) fn meeting(
        &self,
        start: f64,
        end: f64,
    ) -> impl Iterator<Item = (WindowId, &WindowSpan, &Window)> {
        // All before the first of these have ended.
        let first = self.occurrences.partition_point(|occurrence| occurrence.last_end <= start);
        let before = self.occurrences[first..].iter().take_while(move |it| it.span.from < end);
        let met = before.filter(move |it| {
            it.span.end > start
                && it.window.float.is_none_or(|float| it.span.start <= start && end > start + float)
        });
        met.map(|it| (it.id, &it.span, &*it.window))
    }

    /// The first time after `now` at which a request may start that might not before; infinite if there is none.
    pub(crate) fn next_turn(&self, now: f64) -> f64 {
        let next = self.turns.partition_point(|turn| *turn <= now);
        self.turns.get(next).copied().unwrap_or(f64::INFINITY)
    }

    /// The last window among some that a span meets, with the latest end of a span that does not meet it, and the time until which
    /// that is so.
    pub(crate) fn last_met(
        &self,
        start: f64,
        end: f64,
        among: impl Fn(WindowId, &Window) -> bool,
    ) -> Option<WindowMiss> {
        let mut last: Option<WindowMiss> = None;
        for (window, span, of) in self.meeting(start, end).filter(|(id, _, window)| among(*id, window)) {
            let none = f64::NEG_INFINITY;
            let (from, float) = of.float.map_or((span.from, none), |float| (none, float));
            let miss = WindowMiss { window, from, float, until: span.end };
            last = Some(match last {
                None => miss,
                Some(before) => WindowMiss {
                    window: if miss.latest(start) >= before.latest(start) { window } else { before.window },
                    from: from.max(before.from),
                    float: float.max(before.float),
                    until: before.until.min(span.end),
                },
            });
        }
        last
    }
}

/// A request that does not fit beside windows: before `until`, a start fails whose end is later than `from` and that lasts longer
/// than `float`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WindowMiss {
    /// The window that leaves a start most time.
    pub(crate) window: WindowId,
    pub(crate) from: f64,
    /// Seconds.
    pub(crate) float: f64,
    pub(crate) until: f64,
}

impl WindowMiss {
    /// The latest end of a start at this time that is not known to fail.
    pub(crate) fn latest(&self, start: f64) -> f64 {
        self.from.max(start + self.float)
    }
}
