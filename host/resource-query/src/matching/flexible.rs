//! Alternative slots: several neighbouring `slot`s, any mix of which may be filled, and `xor_slot`s, of which one is
//! chosen for the whole request.
//!
//! This module must never know how the graph is walked.

use std::collections::{BTreeMap, HashMap};

use fluxgate_graph::description::{Name, VertexId};

use super::aim::Aim;
use super::matcher::Matcher;
use super::op::Miss;
use super::request::Want;
use super::scores::{Group, Scores};

/// Most requests into which one with `xor_slot`s is expanded.
const VARIANTS_MAX: usize = 1_000;
/// Most slots that are mixed at one vertex; beyond them the mix is filled up greedily.
const MIXED_MAX: usize = 1_000;

/// Number of slots of the best mix from here on, and the next slot.
type Mix = (u64, Option<usize>);

impl Matcher {
    /// Tries each choice of `xor_slot`s, in their order.
    pub(super) fn select_flexible(
        &mut self,
        wants: &[Want],
        aim: &Aim<'_>,
        exclusive: bool,
    ) -> Result<(), Miss> {
        let Some(variants) = self.variants(wants) else {
            self.messages += &format!("xor_slots: more than {VARIANTS_MAX} choices\n");
            return Err(Miss::Invalid);
        };
        let mut last = Err(Miss::Busy);
        for variant in variants {
            last = self.select_plain(&variant, aim, exclusive);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// The requests without `xor_slot` into which a request is expanded; `None` if there are too many.
    fn variants(&self, wants: &[Want]) -> Option<Vec<Vec<Want>>> {
        let mut all: Vec<Vec<Want>> = vec![Vec::new()];
        let mut choices: Vec<Want> = Vec::new();
        let with = |want: &Want, with: Vec<Want>| Want { with, ..want.clone() };
        for want in wants {
            let inside = self.variants(&want.with)?;
            if want.type_ == self.types.xor_slot {
                choices.extend(inside.into_iter().map(|i| Want { type_: self.types.slot, ..with(want, i) }));
                continue;
            }
            if all.len().saturating_mul(inside.len()) > VARIANTS_MAX {
                return None;
            }
            let longer = |before: &Vec<Want>, inside: &Vec<Want>| {
                let mut next = before.clone();
                next.push(with(want, inside.clone()));
                next
            };
            all = all.iter().flat_map(|before| inside.iter().map(move |i| longer(before, i))).collect();
        }
        if choices.is_empty() {
            return Some(all);
        }
        if all.len().saturating_mul(choices.len()) > VARIANTS_MAX {
            return None;
        }
        let chosen = |before: &Vec<Want>, choice: &Want| {
            let mut next = before.clone();
            next.push(choice.clone());
            next
        };
        Some(all.iter().flat_map(|before| choices.iter().map(move |c| chosen(before, c))).collect())
    }

    /// Fills slots of several shapes below a vertex: the largest mix.
    pub(super) fn fill_alternatives(
        &mut self,
        v: VertexId,
        slots: &[Want],
        count: u64,
        aim: &Aim<'_>,
        found: &mut Scores,
        depth: usize,
    ) {
        let (dominant, better) = (self.dominant, self.policy.better());
        // The needs of all of them: for each type that of the largest.
        let mut union: BTreeMap<Name, &Want> = BTreeMap::new();
        for want in slots.iter().flat_map(|s| &s.with) {
            let known = union.entry(want.type_).or_insert(want);
            if known.count.min() < want.count.min() {
                *known = want;
            }
        }
        let all: Vec<Want> = union.into_values().cloned().collect();
        let mut inside = Scores::default();
        if !self.explore(v, dominant, &all, false, true, aim, &mut inside, count, depth) {
            return;
        }
        inside.choose_all(dominant, better);
        let types: Vec<Name> = all.iter().map(|w| w.type_).collect();
        let mut left: Vec<u64> = types.iter().map(|&t| inside.qualified(dominant, t)).collect();
        let mut known: HashMap<Vec<u64>, Mix> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        if let [slot] = slots {
            let fits = (0..count).take_while(|_| spend(slot, &types, &mut left)).count();
            groups.extend((0..fits).map_while(|_| self.take_slot(slot, &mut inside)));
            if groups.len() < fits {
                return;
            }
        } else {
            while let (_, Some(next)) = mix(slots, &types, &left, &mut known, 0) {
                // The last slot may use a pool of any remaining size.
                let Some(group) = self.take_slot(&slots[next], &mut inside) else { break };
                groups.push(group);
                if !spend(&slots[next], &types, &mut left) {
                    break;
                }
            }
        }
        for group in groups {
            found.add(dominant, self.types.slot, group);
        }
    }
}

/// Takes the needs of a slot; false, without a change, if there is too little.
fn spend(slot: &Want, types: &[Name], left: &mut [u64]) -> bool {
    let mut after = left.to_vec();
    for want in &slot.with {
        let Some(at) = types.iter().position(|&t| t == want.type_) else { return false };
        let count = want.take(after[at]);
        if count == 0 {
            return false;
        }
        after[at] -= count;
    }
    left.copy_from_slice(&after);
    true
}

/// The mix with the most slots; of equal ones the one that begins with the slot named first.
fn mix(
    slots: &[Want],
    types: &[Name],
    left: &[u64],
    known: &mut HashMap<Vec<u64>, Mix>,
    depth: usize,
) -> Mix {
    if let Some(&mix) = known.get(left) {
        return mix;
    }
    let mut best: Mix = (0, None);
    for (index, slot) in slots.iter().enumerate() {
        let mut after = left.to_vec();
        if !spend(slot, types, &mut after) {
            continue;
        }
        let more = if depth < MIXED_MAX { mix(slots, types, &after, known, depth + 1).0 } else { 0 };
        if more + 1 > best.0 {
            best = (more + 1, Some(index));
        }
    }
    known.insert(left.to_vec(), best);
    best
}
