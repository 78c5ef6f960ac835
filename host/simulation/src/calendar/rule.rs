//! The rule of reservations for one start (FEAT-6), judged by the list of the requests of operators.
//!
//! No start breaks a reservation whose version in force is not certain. Must never know how places are searched.

use std::collections::BTreeSet;

use super::{Calendar, Terms};
use crate::agenda::Time;

/// The greatest difference of two times that are the same, but for the last digits.
const SAME: f64 = 1e-4;

/// A job that starts.
#[derive(Debug)]
pub struct Start<'a> {
    /// The time of the start.
    pub at: f64,
    /// The time at which it must have ended; infinite without a limit.
    pub end: f64,
    /// The time at which it must have ended by its own limit.
    pub limit_end: f64,
    /// Its nodes.
    pub ranks: &'a BTreeSet<u32>,
    /// Its user.
    pub user: u32,
    /// The groups in which its user was at all times, and those in which it was at some.
    pub groups: (BTreeSet<&'static str>, BTreeSet<&'static str>),
    /// Its queue.
    pub queue: Option<&'a str>,
    /// Its bank.
    pub bank: Option<&'a str>,
    /// The reservation that it names.
    pub named: Option<&'a str>,
    /// Seconds after which it may be ended.
    pub preemptible_after: Option<u32>,
}

/// An answer to a question that the world may not be able to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sure {
    Yes,
    No,
    Perhaps,
}

impl Terms {
    /// Does it admit jobs of this user, who is in these groups, of this queue and bank?
    pub fn admits_jobs_of(
        &self,
        (user, groups): (u32, &BTreeSet<&'static str>),
        queue: Option<&str>,
        bank: Option<&str>,
    ) -> bool {
        let one_of = |names: &BTreeSet<String>, own: Option<&str>| {
            names.is_empty() || own.is_some_and(|own| names.contains(own))
        };
        let everybody = self.users.is_empty() && self.groups.is_empty();
        let of_group = || groups.iter().any(|group| self.groups.contains(*group));
        self.dedicated
            && one_of(&self.queues, queue)
            && one_of(&self.banks, bank)
            && (everybody || self.users.contains(&user) || of_group())
    }

    /// Does it admit a job? The scheduler may learn late which users a group has.
    fn admits(&self, job: &Start<'_>) -> Sure {
        let admits = |groups| self.admits_jobs_of((job.user, groups), job.queue, job.bank);
        match (admits(&job.groups.0), admits(&job.groups.1)) {
            (true, _) => Sure::Yes,
            (false, true) => Sure::Perhaps,
            (false, false) => Sure::No,
        }
    }

    /// May a job be a member of it?
    fn is_of(&self, name: &str, job: &Start<'_>) -> bool {
        let by_itself = || self.magnetic || !self.queues.is_empty();
        self.admits(job) != Sure::No && job.named.map_or_else(by_itself, |named| named == name)
    }

    /// Is a job within one of its times?
    fn contains(&self, job: &Start<'_>) -> bool {
        let inside = |time: (f64, f64)| time.0 <= job.at + SAME && job.end <= time.1 + self.overrun + SAME;
        self.times_after(job.at).any(inside)
    }

    /// Does a job meet one of its times that is there for sure?
    fn is_met(&self, job: &Start<'_>, latest: f64) -> bool {
        self.times_after(job.at + SAME).take(64).any(|(start, end)| {
            let met = match self.float {
                Some(float) => start <= job.at - SAME && job.end > job.at + float + SAME,
                None => start - self.margin < job.end - SAME,
            };
            met && end > latest && !self.may_miss(start, latest)
        })
    }

    /// Is a time of it still to end?
    fn is_open(&self, at: f64, latest: f64) -> Sure {
        let mut open = Sure::No;
        for (start, end) in self.times_after(at - SAME) {
            if end > latest && end > at + SAME && !self.may_miss(start, latest) {
                return Sure::Yes;
            }
            open = Sure::Perhaps;
            if start > latest + 1e6 {
                break;
            }
        }
        open
    }

    /// May a member start so: within one of its times and on its nodes, unless members may be elsewhere?
    fn takes(&self, job: &Start<'_>) -> bool {
        self.flex || self.contains(job) && self.ranks.as_ref().is_none_or(|ranks| job.ranks.is_subset(ranks))
    }
}

impl Calendar {
    /// Is this start as the rule has it?
    ///
    /// # Errors
    /// The reservation that it breaks.
    pub fn judge(&self, job: &Start<'_>) -> Result<(), String> {
        self.kept_out(job)?;
        self.filled(job)?;
        match job.named {
            Some(name) => self.named(job, name),
            None => self.of_queue(job),
        }
    }

    /// Is this start as those reservations of pools have it that are unchanged since its decision? Of a pool, `units` tells the units
    /// of the job, those that other jobs hold from a time on, and all.
    ///
    /// # Errors
    /// The reservation that it breaks.
    pub fn judge_pools(
        &self,
        job: &Start<'_>,
        decided: Time,
        units: impl Fn(&str, f64) -> (u64, u64, u64),
    ) -> Result<bool, String> {
        let mut judged = false;
        for (name, terms) in self.settled(decided) {
            for (start, end) in terms.times_after(job.at + SAME).take(64) {
                let from = (start - terms.margin).max(job.at);
                if from >= job.end - SAME || end <= self.latest || terms.may_miss(start, self.latest) {
                    continue;
                }
                for (pool, kept) in &terms.pools {
                    let (own, held, all) = units(pool, from + SAME);
                    judged |= own > 0;
                    if own > 0 && own + held + kept > all {
                        return Err(format!(
                            "{job:?} has {own} of {pool}, others hold {held} of {all} from {from} on, where {name} keeps {kept}"
                        ));
                    }
                }
            }
        }
        Ok(judged)
    }

    /// Nodes of reservations that are for others are not taken.
    fn kept_out(&self, job: &Start<'_>) -> Result<(), String> {
        for (name, entry) in self.entries.iter().filter(|(_, entry)| entry.now.len() == 1) {
            let Some(terms) = &entry.now[0] else { continue };
            let Some(ranks) = terms.ranks.as_ref().filter(|ranks| !ranks.is_disjoint(job.ranks)) else {
                continue;
            };
            if !terms.is_met(job, self.latest) {
                continue;
            }
            if terms.is_of(name, job) && (terms.flex || terms.contains(job)) {
                continue;
            }
            let common: BTreeSet<u32> = ranks.intersection(job.ranks).copied().collect();
            let shared = self.entries.iter().any(|(own_name, entry)| {
                entry.now.iter().flatten().any(|own| {
                    terms.dedicated
                        && (own.overlap || terms.overlap)
                        && own.is_of(own_name, job)
                        && own.contains(job)
                        && own.ranks.as_ref().is_none_or(|ranks| common.is_subset(ranks))
                })
            });
            if !shared {
                return Err(format!("{job:?} on nodes of {name}: {terms:?}"));
            }
        }
        Ok(())
    }

    /// A job that ends before its limit fills the time before a reservation.
    fn filled(&self, job: &Start<'_>) -> Result<(), String> {
        if job.end >= job.limit_end - SAME || job.limit_end - job.end < SAME {
            return Ok(());
        }
        let least = job.preemptible_after.map(|after| job.at + f64::from(after));
        let fills = |terms: &Terms| {
            let from = |time: (f64, f64)| (time.0 - terms.margin - job.end).abs() < SAME;
            let ranks = terms.ranks.as_ref();
            let there = ranks.is_none_or(|ranks| !ranks.is_disjoint(job.ranks)) || !terms.pools.is_empty();
            terms.fill && there && terms.all_times().any(from)
        };
        let mut all = self.entries.values().flat_map(|entry| &entry.now).flatten();
        match least.is_some_and(|least| least <= job.end + SAME) && all.any(fills) {
            true => Ok(()),
            false => Err(format!("{job:?} ends before its limit, and fills nothing")),
        }
    }

    /// A job that names a reservation starts inside of it, or after it if members are freed then.
    fn named(&self, job: &Start<'_>, name: &str) -> Result<(), String> {
        let entry = self.entries.get(name).filter(|entry| !entry.now.is_empty());
        let Some(entry) = entry else { return Err(format!("{job:?}: there is no such reservation")) };
        let allows = |terms: &Terms| {
            terms.admits(job) != Sure::No
                && match (terms.is_open(job.at, self.latest), terms.after) {
                    (Sure::Yes, _) => terms.takes(job),
                    (Sure::Perhaps, "free") | (Sure::No, "free") => true,
                    (Sure::Perhaps, _) => terms.takes(job),
                    (Sure::No, _) => false,
                }
        };
        match entry.now.iter().flatten().any(allows) {
            true => Ok(()),
            false => Err(format!("{job:?} names it: {:?}", entry.now)),
        }
    }

    /// A job of the queue of reservations starts inside of one.
    fn of_queue(&self, job: &Start<'_>) -> Result<(), String> {
        let Some(queue) = job.queue else { return Ok(()) };
        let (mut open, mut over) = (Vec::new(), None);
        for entry in self.entries.values() {
            let about = |terms: &&Terms| {
                terms.queues.contains(queue) && !terms.magnetic && terms.admits(job) != Sure::No
            };
            let mut all = entry.now.iter().flatten().filter(about);
            let Some(terms) = all.next() else { continue };
            if entry.now.len() > 1 || terms.admits(job) == Sure::Perhaps {
                return Ok(());
            }
            match terms.is_open(job.at, self.latest) {
                Sure::Yes => open.push(terms),
                Sure::Perhaps => return Ok(()),
                Sure::No if terms.after == "wait" => over = Some(terms),
                Sure::No => {}
            }
        }
        match (open.is_empty(), over) {
            (false, _) if !open.iter().any(|terms| terms.takes(job)) => {
                Err(format!("{job:?} is of the queue of {open:?}"))
            }
            (true, Some(terms)) => Err(format!("{job:?} is of the queue of {terms:?}, which is over")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms {
            dedicated: true,
            first: (100.0, 200.0),
            margin: 10.0,
            ranks: Some(BTreeSet::from([0, 1])),
            users: BTreeSet::from([7]),
            running: "refuse",
            after: "wait",
            ..Terms::default()
        }
    }

    fn judged(terms: Terms, user: u32, named: Option<&str>, (at, end): (f64, f64), rank: u32) -> bool {
        let mut calendar = Calendar::default();
        calendar.asks("w", Some(terms.clone()), 0);
        calendar.made("w", Some(terms), true, 0);
        let ranks = BTreeSet::from([rank]);
        let (queue, preemptible_after) = (None, Some(5));
        let start = Start {
            at,
            end,
            limit_end: end,
            ranks: &ranks,
            user,
            groups: Default::default(),
            queue,
            bank: None,
            named,
            preemptible_after,
        };
        calendar.judge(&start).is_ok()
    }

    #[test]
    fn feat_6_the_rule_of_one_reservation() {
        assert!(judged(terms(), 8, None, (0.0, 90.0), 0), "it ends before the margin");
        assert!(!judged(terms(), 8, None, (0.0, 91.0), 0));
        assert!(judged(terms(), 8, None, (0.0, 500.0), 2), "on other nodes");
        assert!(judged(terms(), 8, None, (200.0, 500.0), 0), "when it is over");
        assert!(judged(terms(), 7, Some("w"), (100.0, 200.0), 1));
        assert!(!judged(terms(), 7, Some("w"), (100.0, 201.0), 1), "not to its end");
        assert!(judged(Terms { overrun: 5.0, ..terms() }, 7, Some("w"), (100.0, 205.0), 1));
        assert!(!judged(terms(), 7, Some("w"), (100.0, 150.0), 2), "members take its nodes alone");
        assert!(!judged(terms(), 8, Some("w"), (100.0, 150.0), 1), "who is not admitted waits");
        assert!(!judged(terms(), 7, None, (100.0, 150.0), 1), "who does not name it is no member");
        assert!(judged(Terms { magnetic: true, ..terms() }, 7, None, (100.0, 150.0), 1));
        assert!(judged(Terms { flex: true, ..terms() }, 7, Some("w"), (0.0, 500.0), 1));
        assert!(!judged(terms(), 7, Some("w"), (300.0, 310.0), 1), "it is over, and has members wait");
        assert!(judged(Terms { after: "free", ..terms() }, 7, Some("w"), (300.0, 310.0), 1));
        let float =
            Terms { float: Some(20.0), dedicated: false, margin: 0.0, users: BTreeSet::new(), ..terms() };
        assert!(
            judged(float.clone(), 8, None, (110.0, 130.0), 0)
                && judged(float.clone(), 8, None, (0.0, 500.0), 0)
        );
        assert!(!judged(float, 8, None, (110.0, 131.0), 0));
    }

    #[test]
    fn feat_26_members_by_group_and_bank() {
        let of = |banks: &[&str]| Terms {
            users: BTreeSet::new(),
            groups: BTreeSet::from(["g".to_owned()]),
            banks: banks.iter().map(|bank| (*bank).to_owned()).collect(),
            ..terms()
        };
        let ranks = BTreeSet::from([0]);
        let admitted = |terms: Terms, always: &[&'static str], ever: &[&'static str], bank| {
            terms.admits(&Start {
                at: 100.0,
                end: 110.0,
                limit_end: 110.0,
                ranks: &ranks,
                user: 7,
                groups: (always.iter().copied().collect(), ever.iter().copied().collect()),
                queue: None,
                bank,
                named: Some("w"),
                preemptible_after: None,
            })
        };
        assert_eq!(admitted(of(&[]), &["g"], &["g"], None), Sure::Yes);
        assert_eq!(admitted(of(&[]), &[], &["g"], None), Sure::Perhaps);
        assert_eq!(admitted(of(&[]), &["h"], &["h"], None), Sure::No);
        assert_eq!(admitted(of(&["b"]), &["g"], &["g"], Some("b")), Sure::Yes);
        assert_eq!(admitted(of(&["b"]), &["g"], &["g"], Some("c")), Sure::No);
        assert_eq!(admitted(of(&["b"]), &["g"], &["g"], None), Sure::No);
    }

    #[test]
    fn feat_11_no_more_of_a_pool_than_a_reservation_leaves() {
        let keeps = Terms {
            dedicated: false,
            ranks: Some(BTreeSet::new()),
            pools: [("p".to_owned(), 60)].into(),
            ..terms()
        };
        let mut calendar = Calendar::default();
        calendar.made("w", Some(keeps), true, 5);
        let ranks = BTreeSet::new();
        let judged = |end, decided, own, held| {
            let start = Start {
                at: 0.0,
                end,
                limit_end: end,
                ranks: &ranks,
                user: 7,
                groups: Default::default(),
                queue: None,
                bank: None,
                named: None,
                preemptible_after: None,
            };
            calendar.judge_pools(&start, decided, |_, from| (own, if from < 95.0 { held } else { 0 }, 100))
        };
        assert_eq!(judged(91.0, 9, 30, 10), Ok(true));
        judged(91.0, 9, 31, 10).unwrap_err();
        assert_eq!(judged(90.0, 9, 31, 10), Ok(false), "it ends before the margin");
        assert_eq!(judged(91.0, 5, 31, 10), Ok(false), "it was decided before");
        assert_eq!(judged(91.0, 9, 0, 50), Ok(false), "it has none");
    }

    #[test]
    fn who_fills_ends_when_it_begins() {
        let fills = |fill, end| {
            let mut calendar = Calendar::default();
            calendar.made("w", Some(Terms { fill, ..terms() }), true, 0);
            let ranks = BTreeSet::from([0]);
            let start = Start {
                at: 80.0,
                end,
                limit_end: 500.0,
                ranks: &ranks,
                user: 8,
                groups: Default::default(),
                queue: None,
                bank: None,
                named: None,
                preemptible_after: Some(5),
            };
            calendar.judge(&start).is_ok()
        };
        assert!(fills(true, 90.0) && !fills(false, 90.0) && !fills(true, 85.0));
    }
}
