//! Selection among all nodes, listed in the order of a walk and sorted as far as necessary.
//!
//! For cases that the ordered lists of the classes and stretches of nodes do not decide: many offers that are equally
//! good in other ways. The cost is proportional to the number of nodes.
//!
//! This module must never know how a selection is marked.

use std::collections::BTreeMap;

use super::classes::ClassId;
use super::frame::Site;
use super::matcher::Matcher;
use super::order;
use super::policy::Prefer;
use super::trials::{Form, Pick, Search, Trial};

impl Matcher {
    /// Selects among nodes whose offers differ only by id, listed in the order of a walk; `None` if they differ
    /// otherwise.
    pub(super) fn pick_among_alike(&self, search: &Search<'_>, count: u64) -> Option<Vec<Pick>> {
        let frame = self.classes.frame()?;
        let offer = *search.trials.first()?.1.offers.first()?;
        let alike = |t: &Trial| matches!(&*t.offers, [o] if (o.base, o.count) == (offer.base, offer.count));
        if search.form == Form::Inside || !search.trials.iter().all(|(_, t)| alike(t)) {
            return None;
        }
        let fits: Vec<ClassId> = search.trials.iter().map(|(id, _)| *id).collect();
        let mut last = (ClassId::MAX, false);
        let offers: Vec<bool> = (0..frame.sites.len() as u32)
            .map(|node| {
                let class = self.classes.of(node);
                if class != last.0 {
                    last = (class, fits.binary_search(&class).is_ok());
                }
                last.1 && search.meets(node)
            })
            .collect();
        let key = |site: &Site| match self.policy.prefer {
            Prefer::HighId | Prefer::Locality => -site.rank,
            Prefer::LowId => site.rank,
            Prefer::Variation => 0,
        };
        let mut list: Vec<(i32, u32)> = Vec::with_capacity(frame.sites.len());
        let (mut row, mut parent, mut known) = (0, None, Rows::default());
        for (node, site) in frame.sites.iter().enumerate().filter(|&(node, _)| offers[node]) {
            if search.form == Form::NodeSlots && parent != Some(site.parent) {
                // Slots are filled below each parent, best first.
                sort_row(&mut list[row..], &mut known);
                (row, parent) = (list.len(), Some(site.parent));
            }
            list.push((key(site), node as u32));
        }
        if search.form == Form::NodeSlots {
            sort_row(&mut list[row..], &mut known);
        }
        if self.policy.prefer == Prefer::Locality {
            let (mut runs, mut run, mut before) = (vec![0; frame.sites.len()], 0, None);
            for &node in frame.by_id.iter().filter(|&&node| offers[node as usize]) {
                let rank = frame.sites[node as usize].rank;
                run -= i32::from(before.is_none_or(|before| rank - before > 1));
                before = Some(rank);
                runs[node as usize] = run;
            }
            list.iter_mut().for_each(|it| it.0 = runs[it.1 as usize]);
        }
        let enough = usize::try_from(count.div_ceil(offer.count.max(1))).unwrap_or(usize::MAX);
        order::sort_front(&mut list, enough, |a, b| a.0 < b.0);
        let pick =
            |&(key, node): &(i32, u32)| Pick { key: i64::from(key), node, offer: 0, count: offer.count };
        Some(list.iter().take(enough).map(pick).collect())
    }

    /// Selects among all offers, listed in the order of a walk.
    pub(super) fn pick_among_all(&self, search: &Search<'_>, count: u64) -> Vec<Pick> {
        let Some(frame) = self.classes.frame() else { return Vec::new() };
        let trials: BTreeMap<ClassId, &Trial> = search.trials.iter().map(|(id, t)| (*id, &**t)).collect();
        let mut all: Vec<Pick> = Vec::new();
        let mut last: Option<(ClassId, Option<&Trial>)> = None;
        let (mut row, mut parent) = (0, None);
        let less = |a: &Pick, b: &Pick| a.key < b.key;
        for (node, site) in frame.sites.iter().enumerate() {
            if !search.meets(node as u32) {
                continue;
            }
            let class = self.classes.of(node as u32);
            let trial = match last {
                Some((id, trial)) if id == class => trial,
                _ => trials.get(&class).copied(),
            };
            last = Some((class, trial));
            let Some(trial) = trial else { continue };
            if search.form == Form::NodeSlots && parent != Some(site.parent) {
                // Slots are filled below each parent, best first.
                order::sort(&mut all[row..], less);
                (row, parent) = (all.len(), Some(site.parent));
            }
            for (offer, it) in trial.offers.iter().enumerate() {
                let key = self.key(search.form, site, it);
                all.push(Pick { key, node: node as u32, offer: offer as u32, count: it.count });
            }
        }
        if search.form == Form::NodeSlots {
            order::sort(&mut all[row..], less);
        }
        if self.policy.prefer == Prefer::Locality {
            by_runs(&mut all);
        }
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        order::sort_front(&mut all, most, less);
        let mut left = count;
        let enough = all.iter().take_while(|pick| {
            let more = left > 0;
            left = left.saturating_sub(pick.count);
            more
        });
        let long = enough.count();
        all.truncate(long);
        all
    }
}

/// The resulting positions of equal keys in a sorted list, by its length, and buffers.
#[derive(Default)]
struct Rows {
    places: BTreeMap<usize, Vec<(i32, u32)>>,
    before: Vec<(i32, u32)>,
}

/// Sorts a short list; fast if all keys differ and are in order, or are equal.
fn sort_row(row: &mut [(i32, u32)], known: &mut Rows) {
    if row.len() < 2 || row.windows(2).all(|w| w[0].0 < w[1].0) {
        return;
    }
    if row.windows(2).all(|w| w[0].0 > w[1].0) {
        row.reverse();
    } else if row.windows(2).all(|w| w[0].0 == w[1].0) {
        let places = known.places.entry(row.len()).or_insert_with(|| {
            let mut places: Vec<(i32, u32)> = (0..row.len() as u32).map(|at| (0, at)).collect();
            order::sort(&mut places, |a, b| a.0 < b.0);
            places
        });
        known.before.clear();
        known.before.extend_from_slice(row);
        for (to, &(_, from)) in row.iter_mut().zip(&*places) {
            *to = known.before[from as usize];
        }
    } else {
        order::sort(row, |a, b| a.0 < b.0);
    }
}

/// Ranks offers by runs of consecutive scores, the run of the highest scores first.
fn by_runs(all: &mut [Pick]) {
    let mut scores: Vec<i64> = all.iter().map(|p| p.key.saturating_neg()).collect();
    scores.sort_unstable();
    scores.dedup();
    // The starts of the runs.
    let starts: Vec<i64> = scores
        .iter()
        .enumerate()
        .filter(|&(at, &score)| at == 0 || scores[at - 1] + 1 != score)
        .map(|(_, &score)| score)
        .collect();
    for pick in all {
        let run = starts.partition_point(|&s| s <= pick.key.saturating_neg());
        pick.key = -(run as i64);
    }
}
