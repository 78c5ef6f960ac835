//! Changes of node states that were made before: the nodes of a job often have the same one, and a node that is given back has the
//! reverse of one.
//!
//! This module must never know what a state is: states are numbers.

use crate::layout::template::TemplateId;
use crate::live::share::{Share, Taken};

/// A change of the state of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    /// The state before.
    pub(crate) from: u32,
    /// The template of the node.
    pub(crate) template: TemplateId,
    /// Takes the shares, or gives them back.
    pub(crate) takes: bool,
    pub(crate) shares: &'a [Taken],
}

/// A change by units of one vertex. The state tells the template.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Units {
    from: u32,
    at: u32,
    /// Negative if they are taken.
    units: i64,
}

impl Units {
    #[inline(always)]
    fn of(change: &Change<'_>) -> Option<Self> {
        let [Taken { at, share: Share::Units(units) }] = *change.shares else { return None };
        let units = i64::try_from(units).ok()?;
        Some(Units { from: change.from, at, units: if change.takes { -units } else { units } })
    }

    /// Its place in the table.
    fn place(&self) -> usize {
        let key = u64::from(self.from) << 32 ^ u64::from(self.at) << 16 ^ self.units as u64;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.trailing_zeros())) as usize
    }
}

/// Number of changes by units of one vertex that are remembered, a power of two.
const PLACES: usize = 256;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// Changes by units of one vertex, each at its place, with the states after; empty before the first.
    units: Vec<Option<(Units, u32)>>,
    /// The last one of another kind: state before, template, whether it took shares, the shares, and the state after.
    last: Option<(u32, TemplateId, bool, Vec<Taken>, u32)>,
}

impl Changes {
    /// The state after a change, if it is known.
    #[inline(always)]
    pub(crate) fn after(&self, change: &Change<'_>) -> Option<u32> {
        if let Some(units) = Units::of(change) {
            let (known, to) = (*self.units.get(units.place())?)?;
            return (known == units).then_some(to);
        }
        let (from, template, takes, shares, to) = self.last.as_ref()?;
        let same = (*from, *template, *takes) == (change.from, change.template, change.takes);
        (same && shares == change.shares).then_some(*to)
    }

    /// Remembers the state after a change.
    pub(crate) fn note(&mut self, change: &Change<'_>, to: u32) {
        if let Some(units) = Units::of(change) {
            self.units.resize(PLACES, None);
            self.units[units.place()] = Some((units, to));
            return;
        }
        let mut kept = self.last.take().map(|last| last.3).unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(change.shares);
        self.last = Some((change.from, change.template, change.takes, kept, to));
    }

    /// Forgets all: states have other numbers.
    pub(crate) fn clear(&mut self) {
        *self = Changes::default();
    }
}
