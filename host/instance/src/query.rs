//! Constraints of `job-list.list` (RFC 43).

use fluxgate_formats::{Hostlist, Idset};
use serde_json::Value;

use crate::job::{Job, State};
use crate::limits::DEPTH_MAX;

/// All state bits.
const ALL: i64 = 127;

/// A time for comparison, as in `t_submit: [">=1000"]`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A constraint, parsed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Query {
    /// All of these.
    And(Vec<Query>),
    /// Any of these; an empty list matches every job, as in RFC 31.
    Or(Vec<Query>),
    /// None of these.
    Not(Vec<Query>),
    /// Any of these users.
    Userid(Vec<u32>),
    /// Any of these names.
    Name(Vec<String>),
    /// Any of these queues.
    Queue(Vec<String>),
    /// Any of these states, as bits.
    States(i64),
    /// Any of these results, as bits.
    Results(i64),
    /// Ran on any of these hosts.
    Hosts(Box<Hostlist>),
    /// Ran on any of these ranks.
    Ranks(Idset),
    /// A time, compared.
    #[doc(hidden)]
    Time(String, Vec<Comparison>),
}

/// A comparison with a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    order: Order,
    value: f64,
}

fn state_bits(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64().filter(|bits| (0..=ALL).contains(bits)),
        Value::String(name) => match name.to_ascii_lowercase().as_str() {
            "pending" => Some(State::PENDING),
            "running" => Some(State::RUNNING),
            "active" => Some(State::ACTIVE),
            name => State::ALL.iter().find(|state| state.name() == name).map(|state| state.bit()),
        },
        _ => None,
    }
}

fn result_bits(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64().filter(|bits| (0..=15).contains(bits)),
        Value::String(name) => match name.to_ascii_lowercase().as_str() {
            "completed" => Some(1),
            "failed" => Some(2),
            "canceled" | "cancelled" => Some(4),
            "timeout" => Some(8),
            _ => None,
        },
        _ => None,
    }
}

fn comparison(text: &str) -> Option<Comparison> {
    let (order, rest) = if let Some(rest) = text.strip_prefix("<=") {
        (Order::LessEqual, rest)
    } else if let Some(rest) = text.strip_prefix(">=") {
        (Order::GreaterEqual, rest)
    } else if let Some(rest) = text.strip_prefix('<') {
        (Order::Less, rest)
    } else {
        (Order::Greater, text.strip_prefix('>')?)
    };
    let value = rest.trim().parse::<f64>().ok().filter(|v| v.is_finite())?;
    Some(Comparison { order, value })
}

impl Query {
    /// Reads a constraint; an empty one matches every job.
    pub(crate) fn new(value: Option<&Value>) -> Result<Query, String> {
        value.map_or(Ok(Query::And(Vec::new())), |value| Query::read(value, 0))
    }

    fn read(value: &Value, depth: usize) -> Result<Query, String> {
        if depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        let Value::Object(map) = value else { return Err("must be an object".to_owned()) };
        let mut entries = map.iter();
        let Some((operator, values)) = entries.next() else { return Ok(Query::And(Vec::new())) };
        if entries.next().is_some() {
            return Err("an object must have one operator".to_owned());
        }
        let Value::Array(values) = values else { return Err(format!("'{operator}' must have an array")) };
        let nested =
            || values.iter().map(|value| Query::read(value, depth + 1)).collect::<Result<Vec<_>, _>>();
        let strings = || {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let all: Option<Vec<String>> = values.iter().map(text).collect();
            all.ok_or_else(|| format!("'{operator}' must have strings"))
        };
        let bits = |read: fn(&Value) -> Option<i64>| {
            values.iter().try_fold(0, |bits, value| {
                read(value)
                    .map(|more| bits | more)
                    .ok_or_else(|| format!("'{operator}': {value} is not known"))
            })
        };
        Ok(match operator.as_str() {
            "and" => Query::And(nested()?),
            "or" => Query::Or(nested()?),
            "not" => Query::Not(nested()?),
            "userid" => {
                let id = |value: &Value| value.as_i64().map(|id| id as u32);
                let ids: Option<Vec<u32>> = values.iter().map(id).collect();
                Query::Userid(ids.ok_or("'userid' must have integers")?)
            }
            "name" => Query::Name(strings()?),
            "queue" => Query::Queue(strings()?),
            "states" => Query::States(bits(state_bits)?),
            "results" => Query::Results(bits(result_bits)?),
            "hostlist" => {
                let mut hosts = Hostlist::default();
                for text in strings()? {
                    hosts.append(&text.parse().map_err(|e| format!("'hostlist': {e}"))?);
                }
                Query::Hosts(Box::new(hosts))
            }
            "ranks" => {
                let mut ranks = Idset::new();
                for text in strings()? {
                    ranks = ranks.union(&Idset::parse(&text).map_err(|e| format!("'ranks': {e}"))?);
                }
                Query::Ranks(ranks)
            }
            "t_submit" | "t_depend" | "t_run" | "t_cleanup" | "t_inactive" => {
                let read = |text: &String| {
                    comparison(text)
                        .ok_or_else(|| format!("'{operator}': '{text}' is not such as '>=1000.5'"))
                };
                Query::Time(operator.clone(), strings()?.iter().map(read).collect::<Result<_, _>>()?)
            }
            other => return Err(format!("'{other}' is not an operator")),
        })
    }

    /// Bits of the possible states of matching jobs, by which whole lists are skipped.
    pub(crate) fn states(&self) -> i64 {
        match self {
            Query::States(bits) => *bits,
            Query::And(all) => all.iter().fold(ALL, |bits, query| bits & query.states()),
            Query::Or(any) if !any.is_empty() => any.iter().fold(0, |bits, query| bits | query.states()),
            Query::Results(_) => State::Inactive.bit(),
            _ => ALL,
        }
    }

    /// True if a job matches.
    pub(crate) fn matches(&self, job: &Job) -> bool {
        match self {
            Query::And(all) => all.iter().all(|query| query.matches(job)),
            Query::Or(any) => any.is_empty() || any.iter().any(|query| query.matches(job)),
            Query::Not(none) => !none.iter().all(|query| query.matches(job)),
            Query::Userid(ids) => ids.is_empty() || ids.contains(&u32::MAX) || ids.contains(&job.userid),
            Query::Name(names) => names.contains(&job.spec.name),
            Query::Queue(names) => job.spec.queue.as_ref().is_some_and(|queue| names.contains(queue)),
            Query::States(bits) => *bits == 0 || bits & job.state.bit() != 0,
            Query::Results(bits) => job.outcome().is_some_and(|outcome| bits & outcome as i64 != 0),
            Query::Hosts(hosts) => job.placed.as_ref().is_some_and(|placed| {
                let ran: Result<Hostlist, _> = placed.nodelist.parse();
                ran.is_ok_and(|ran| ran.iter().any(|host| hosts.contains(&host)))
            }),
            Query::Ranks(ranks) => job
                .placed
                .as_ref()
                .is_some_and(|placed| Idset::parse(&placed.ranks).is_ok_and(|ran| !ran.is_disjoint(ranks))),
            Query::Time(name, comparisons) => {
                let time = match name.as_str() {
                    "t_submit" => job.times.submit,
                    "t_depend" => job.times.depend,
                    "t_run" => job.times.run,
                    "t_cleanup" => job.times.cleanup,
                    _ => job.times.inactive,
                };
                time > 0.0
                    && comparisons.iter().all(|c| match c.order {
                        Order::Less => time < c.value,
                        Order::LessEqual => time <= c.value,
                        Order::Greater => time > c.value,
                        Order::GreaterEqual => time >= c.value,
                    })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r43_2_operators_are_read_and_nonsense_is_refused() {
        let states = |value: Value| Query::new(Some(&value)).map(|query| query.states());
        assert_eq!(states(json!({"states": ["pending", "RUN"]})), Ok(14 | 16));
        assert_eq!(states(json!({"and": [{"states": ["active"]}, {"userid": [5]}]})), Ok(62));
        assert_eq!(states(json!({"or": [{"states": [64]}, {"states": ["sched"]}]})), Ok(72));
        assert_eq!(states(json!({"not": [{"states": ["pending"]}]})), Ok(ALL));
        assert_eq!(states(json!({"results": ["failed"]})), Ok(64));
        for bad in [
            json!([]),
            json!({"a": 1, "b": 2}),
            json!({"foo": []}),
            json!({"states": ["asleep"]}),
            json!({"t_run": ["1000"]}),
            json!({"t_run": [">nan"]}),
            json!({"ranks": ["5,1-3"]}),
            json!({"userid": ["me"]}),
            json!({"and": {}}),
        ] {
            assert!(Query::new(Some(&bad)).is_err(), "{bad}");
        }
    }
}
