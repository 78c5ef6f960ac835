//! Quarantine: which policies are out after a failure and until when, and how often each limit was broken.
//!
//! A policy that failed is out for a while, twice as long each time, and comes back by itself; after a bounded
//! number of times it stays out until a person asks for it. Time is a parameter. Must never know engines or protocol.

use std::collections::BTreeMap;

use fluxgate_engine::PolicyError;
use serde_json::{Value, json};

use crate::openmetrics::OTHER;
use crate::settings::Guard;

/// Most failures remembered of a policy.
const FAILURES_MAX: usize = 16;
/// Most policies with a record.
const RECORDS_MAX: usize = 256;
/// Most pairs of policy and limit with a count of their own.
const BREACHES_MAX: usize = 1024;
/// A policy that was active for this multiple of its last quarantine without a failure begins anew.
const CLEAN_FACTOR: f64 = 10.0;

/// How long a policy is out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Out {
    /// Until this time, seconds since the epoch.
    Until(f64),
    /// Until a person asks for it.
    ForGood,
}

/// The record of a policy that failed.
#[derive(Debug, Default)]
struct Record {
    count: u64,
    /// The last failures.
    failures: Vec<Value>,
    breaches: BTreeMap<&'static str, u64>,
    /// Failures in a row.
    row: u64,
    /// Seconds of the last quarantine.
    last: f64,
    out: Option<Out>,
    /// Since when it decides again.
    back: Option<f64>,
    /// When it failed last, seconds since the epoch.
    failed: f64,
}

/// The records of all policies by name.
#[derive(Debug, Default)]
pub(crate) struct Records {
    records: BTreeMap<String, Record>,
    /// By name of the policy and limit; counted on when a record is forgotten.
    breaches: BTreeMap<(String, &'static str), u64>,
}

impl Records {
    /// Counts a breach. From `BREACHES_MAX` pairs on, further policies are counted together.
    fn count(&mut self, name: &str, limit: &'static str) {
        let known = self.breaches.keys().any(|(of, _)| of == name);
        let name = if known || self.breaches.len() < BREACHES_MAX { name } else { OTHER };
        *self.breaches.entry((name.to_owned(), limit)).or_default() += 1;
    }

    /// A policy failed at this time. Returns how long it is out.
    pub(crate) fn failed(&mut self, name: &str, error: &PolicyError, now: f64, guard: &Guard) -> Out {
        self.count(name, error.limit());
        self.add(name, error.kind(), &error.to_string(), now, guard, Some(error.limit()))
    }

    /// A policy did nothing that is forbidden, but broke a rule of the site: it is out until a person asks for it.
    pub(crate) fn expelled(&mut self, name: &str, kind: &'static str, reason: &str, now: f64) {
        self.count(name, kind);
        let strict = Guard { quarantine: 0.0, ..Guard::default() };
        self.add(name, kind, reason, now, &strict, Some(kind));
    }

    fn add(
        &mut self,
        name: &str,
        kind: &str,
        reason: &str,
        now: f64,
        guard: &Guard,
        limit: Option<&'static str>,
    ) -> Out {
        if self.records.len() >= RECORDS_MAX && !self.records.contains_key(name) {
            self.forget_one();
        }
        let record = self.records.entry(name.to_owned()).or_default();
        record.count += 1;
        record.failed = now;
        if let Some(limit) = limit {
            *record.breaches.entry(limit).or_default() += 1;
        }
        if record.back.take().is_some_and(|since| now - since >= CLEAN_FACTOR * record.last) {
            record.row = 0;
        }
        record.row += 1;
        let out = if guard.quarantine <= 0.0 || record.row > guard.quarantine_tries {
            Out::ForGood
        } else {
            // The exponent is bounded by the number of tries, which is at most 100.
            let doubled = guard.quarantine * 2f64.powi(i32::try_from(record.row - 1).unwrap_or(i32::MAX));
            record.last = doubled.min(guard.quarantine_max.max(guard.quarantine));
            Out::Until(now + record.last)
        };
        record.out = Some(out);
        if record.failures.len() >= FAILURES_MAX {
            record.failures.remove(0);
        }
        record.failures.push(json!({"time": now, "kind": kind, "reason": reason}));
        out
    }

    /// Removes the record of the policy that failed longest ago, if possible of one that is not in quarantine.
    fn forget_one(&mut self) {
        let least = |a: &Record, b: &Record| {
            a.out.is_some().cmp(&b.out.is_some()).then(a.failed.total_cmp(&b.failed))
        };
        let oldest = self.records.iter().min_by(|(_, a), (_, b)| least(a, b));
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.records.remove(&name);
        }
    }

    /// When a policy may come back by itself: now, later, or never.
    pub(crate) fn out(&self, name: &str) -> Option<Out> {
        self.records.get(name)?.out
    }

    /// May a policy decide at this time?
    pub(crate) fn trusted(&self, name: &str, now: f64) -> bool {
        match self.out(name) {
            None => true,
            Some(Out::Until(time)) => time <= now,
            Some(Out::ForGood) => false,
        }
    }

    /// A person asked for the policy.
    pub(crate) fn pardon(&mut self, name: &str) {
        if let Some(record) = self.records.get_mut(name) {
            (record.out, record.row, record.back) = (None, 0, None);
        }
    }

    /// The policy decides again, by itself.
    pub(crate) fn returned(&mut self, name: &str, now: f64) {
        if let Some(record) = self.records.get_mut(name) {
            (record.out, record.back) = (None, Some(now));
        }
    }

    /// Another component has this name: earlier failures say nothing of it.
    pub(crate) fn forget(&mut self, name: &str) {
        self.records.remove(name);
    }

    /// How often each limit was run into, over all policies.
    pub(crate) fn breaches(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for ((_, limit), count) in &self.breaches {
            *all.entry(*limit).or_default() += count;
        }
        all
    }

    /// How often each policy ran into each limit.
    pub(crate) fn breaches_by_policy(&self) -> impl Iterator<Item = (&str, &'static str, u64)> {
        self.breaches.iter().map(|((name, limit), count)| (name.as_str(), *limit, *count))
    }

    /// The policies that have failed, and whether each is out.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&str, bool)> {
        self.records.iter().map(|(name, record)| (name.as_str(), record.out.is_some()))
    }

    /// Adds the record of a policy to its row in a list.
    pub(crate) fn describe(&self, name: &str, policy: &mut Value) {
        let record = self.records.get(name);
        let out = record.and_then(|record| record.out);
        policy["quarantined"] = out.is_some().into();
        policy["quarantined_until"] = match out {
            Some(Out::Until(time)) => time.into(),
            _ => Value::Null,
        };
        policy["failures"] = record.map_or(0, |record| record.count).into();
        policy["breaches"] = record.map_or_else(|| json!({}), |record| json!(record.breaches));
    }

    /// The last failures of a policy.
    pub(crate) fn failures(&self, name: &str) -> Value {
        self.records.get(name).map(|record| record.failures.clone()).unwrap_or_default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trap() -> PolicyError {
        PolicyError::Trap { during: "scheduling.run", message: "told to".to_owned() }
    }

    #[test]
    fn each_time_twice_as_long_and_then_for_good() {
        let guard = Guard { quarantine: 10.0, quarantine_max: 35.0, quarantine_tries: 4, ..Guard::default() };
        let mut records = Records::default();
        let mut now = 0.0;
        for long in [10.0, 20.0, 35.0, 35.0] {
            assert_eq!(records.failed("p", &trap(), now, &guard), Out::Until(now + long));
            assert!(!records.trusted("p", now + long - 1.0) && records.trusted("p", now + long));
            now += long;
            records.returned("p", now);
        }
        assert_eq!(records.failed("p", &trap(), now, &guard), Out::ForGood);
        assert!(!records.trusted("p", 1e12));
        records.pardon("p");
        assert!(records.trusted("p", now));
        assert_eq!(records.failed("p", &trap(), now, &guard), Out::Until(now + 10.0), "a person asked: anew");
        assert_eq!(json!(records.breaches()), json!({"trap": 6}));
    }

    #[test]
    fn a_long_time_without_failure_counts() {
        let guard = Guard { quarantine: 10.0, quarantine_tries: 1, ..Guard::default() };
        let mut records = Records::default();
        assert_eq!(records.failed("p", &trap(), 0.0, &guard), Out::Until(10.0));
        records.returned("p", 10.0);
        assert_eq!(records.failed("p", &trap(), 110.0, &guard), Out::Until(120.0));
        records.returned("p", 120.0);
        assert_eq!(records.failed("p", &trap(), 219.0, &guard), Out::ForGood);
    }

    #[test]
    fn a_site_may_want_nobody_back() {
        let guard = Guard { quarantine: 0.0, ..Guard::default() };
        assert_eq!(Records::default().failed("p", &trap(), 0.0, &guard), Out::ForGood);
    }

    #[test]
    fn the_record_that_makes_room_is_of_a_policy_that_decides_again_else_the_oldest() {
        let guard = Guard { quarantine: 1e6, ..Guard::default() };
        let mut records = Records::default();
        for i in 0..RECORDS_MAX {
            records.failed(&format!("p{i:03}"), &trap(), i as f64, &guard);
        }
        records.returned("p200", 300.0);
        for (name, makes_room) in [("q1", "p200"), ("q2", "p000"), ("a1", "p001")] {
            assert_eq!(records.failures(makes_room).as_array().map(Vec::len), Some(1), "{makes_room}");
            records.failed(name, &trap(), 400.0, &guard);
            assert_eq!(records.failures(makes_room).as_array().map(Vec::len), Some(0), "{makes_room}");
            assert!(!records.trusted(name, 401.0) && !records.trusted("p002", 401.0));
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_typed() {
        let mut records = Records::default();
        let error = PolicyError::Bound { during: "scheduling.run", bound: "questions", limit: 1, found: 2 };
        for i in 0..1000 {
            records.failed(&format!("p{i}"), &error, 0.0, &Guard::default());
            records.failed("p1", &trap(), 0.0, &Guard::default());
        }
        assert!(records.records.len() <= RECORDS_MAX);
        assert_eq!(json!(records.breaches()), json!({"questions": 1000, "trap": 1000}));
        assert!(records.failures("p999").as_array().unwrap().len() <= FAILURES_MAX);
        let mut shown = json!({});
        records.describe("p999", &mut shown);
        assert_eq!(shown["breaches"], json!({"questions": 1}));
        assert_eq!(shown["quarantined"], true);
    }
}
