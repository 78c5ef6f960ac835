//! Job constraints (RFC 31): which execution targets a job may use, by property, host name or rank.
//!
//! A [`Constraint`] is checked when it is read, so that matching cannot fail. This module does not know the resource
//! graph: it asks a [`Target`] for host, rank and properties.
//!
//! # Interpretations
//!
//! `{}`, `{"and":[]}` and `{"or":[]}` match every target and `{"not":[]}` matches none, as the RFC says. An empty
//! `properties` matches every target; an empty `hostlist` or `ranks` matches none. `not` with several values is the
//! negation of their conjunction. An object with more than one operator is refused: the RFC shows one, and
//! implementations disagree on which of several would count. flux-core's C matcher lets a host name pass as a property;
//! that is left to the target's [`has_property`](Target::has_property).

mod query;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::document::{DocumentError, Fault, Path};
use crate::hostlist::Hostlist;
use crate::idset::Idset;

pub use query::QueryError;

/// Maximum nesting depth of a constraint.
pub const CONSTRAINT_DEPTH_MAX: usize = 60;
/// Maximum number of operators and properties of one constraint.
pub const CONSTRAINT_TERMS_MAX: usize = 10_000;
/// Characters that a property name must not contain (RFC 20).
pub const PROPERTY_FORBIDDEN: &[char] = &['!', '&', '\'', '"', '^', '`', '|', '(', ')'];

/// A condition on execution targets (RFC 31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// Every target: `{}`, and `and` and `or` of nothing.
    All,
    /// No target: `not` of nothing.
    None,
    /// Targets that have, or have not, each of these properties.
    Properties(Vec<Prop>),
    /// Targets whose host is in the list.
    Hostlist(Hostlist),
    /// Targets whose rank is in the set.
    Ranks(Idset),
    /// Targets that do not meet all of these.
    Not(Vec<Constraint>),
    /// Targets that meet all of these.
    And(Vec<Constraint>),
    /// Targets that meet one of these.
    Or(Vec<Constraint>),
}

/// A property that a target must have, or must not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prop {
    /// Its name, without the `^` of a negated one.
    pub name: String,
    /// True when the target must not have it (written with a leading `^`).
    pub negated: bool,
}

/// The properties of an execution target that a [`Constraint`] tests.
pub trait Target {
    /// The name of its host.
    fn host(&self) -> &str;
    /// Its broker rank.
    fn rank(&self) -> u32;
    /// True if it has the property called `name`.
    fn has_property(&self, name: &str) -> bool;
}

impl Constraint {
    /// Reads and checks a constraint object.
    ///
    /// # Errors
    /// The place in the object, the value found there and what is accepted; also for one of more than [`CONSTRAINT_DEPTH_MAX`] levels or
    /// [`CONSTRAINT_TERMS_MAX`] terms.
    pub fn from_value(value: &Value) -> Result<Self, DocumentError> {
        Self::read(value, &Path::Root).map_err(|fault| DocumentError::invalid("constraint", fault))
    }

    /// Reads a constraint at `path` of a larger document.
    pub(crate) fn read(value: &Value, path: &Path<'_>) -> Result<Self, Fault> {
        Reader { terms_left: CONSTRAINT_TERMS_MAX }.constraint(value, path, 1)
    }

    /// The constraint as RFC 31 object.
    pub fn to_value(&self) -> Value {
        let all = |list: &[Constraint]| list.iter().map(Constraint::to_value).collect::<Vec<_>>();
        match self {
            Constraint::All => Value::Object(Map::new()),
            Constraint::None => json!({ "not": [] }),
            Constraint::Properties(props) => {
                let text = |p: &Prop| if p.negated { format!("^{}", p.name) } else { p.name.clone() };
                json!({ "properties": props.iter().map(text).collect::<Vec<_>>() })
            }
            Constraint::Hostlist(hosts) if hosts.is_empty() => json!({ "hostlist": [] }),
            Constraint::Hostlist(hosts) => json!({ "hostlist": [hosts.to_string()] }),
            Constraint::Ranks(ranks) if ranks.is_empty() => json!({ "ranks": [] }),
            Constraint::Ranks(ranks) => json!({ "ranks": [ranks.to_string()] }),
            Constraint::Not(list) => json!({ "not": all(list) }),
            Constraint::And(list) => json!({ "and": all(list) }),
            Constraint::Or(list) => json!({ "or": all(list) }),
        }
    }

    /// True when `target` meets the constraint.
    pub fn matches(&self, target: &dyn Target) -> bool {
        match self {
            Constraint::All => true,
            Constraint::None => false,
            Constraint::Properties(props) => props.iter().all(|p| target.has_property(&p.name) != p.negated),
            Constraint::Hostlist(hosts) => hosts.contains(target.host()),
            Constraint::Ranks(ranks) => ranks.contains(target.rank()),
            // Constraints that code makes may have empty lists; these have the meaning of RFC 31.
            Constraint::Not(list) => !list.is_empty() && !list.iter().all(|c| c.matches(target)),
            Constraint::And(list) => list.iter().all(|c| c.matches(target)),
            Constraint::Or(list) => list.is_empty() || list.iter().any(|c| c.matches(target)),
        }
    }

    /// True when `target` meets the constraint, or could if it had other properties of those for which `may_change` is true.
    pub fn could_match(&self, target: &dyn Target, may_change: &dyn Fn(&str) -> bool) -> bool {
        self.ternary(target, may_change) != Some(false)
    }

    /// `None` when it depends on properties that may change.
    fn ternary(&self, target: &dyn Target, may_change: &dyn Fn(&str) -> bool) -> Option<bool> {
        let each = |list: &[Constraint], unless: bool| {
            let mut all = Some(!unless);
            for one in list {
                match one.ternary(target, may_change) {
                    Some(known) if known == unless => return Some(unless),
                    Some(_) => {}
                    None => all = None,
                }
            }
            all
        };
        match self {
            Constraint::Properties(props) => {
                let fixed = props.iter().filter(|p| !may_change(&p.name));
                let met = fixed.clone().all(|p| target.has_property(&p.name) != p.negated);
                if met && fixed.count() < props.len() { None } else { Some(met) }
            }
            Constraint::Not(list) if list.is_empty() => Some(false),
            Constraint::Not(list) => each(list, false).map(|all| !all),
            Constraint::And(list) => each(list, false),
            Constraint::Or(list) if list.is_empty() => Some(true),
            Constraint::Or(list) => each(list, true),
            _ => Some(self.matches(target)),
        }
    }

    /// The properties that it names, in their order, also negated ones; a name may occur several times.
    pub fn properties(&self) -> Vec<&Prop> {
        match self {
            Constraint::Properties(props) => props.iter().collect(),
            Constraint::Not(list) | Constraint::And(list) | Constraint::Or(list) => {
                list.iter().flat_map(Constraint::properties).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The constraint that asks for both, such as a queue's `requires` (RFC 33) added to a job's own.
    #[must_use]
    pub fn and(self, other: Constraint) -> Constraint {
        match (self, other) {
            (Constraint::All, one) | (one, Constraint::All) => one,
            (Constraint::And(mut list), one) => {
                list.push(one);
                Constraint::And(list)
            }
            (one, other) => Constraint::And(vec![one, other]),
        }
    }
}

impl Serialize for Constraint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Constraint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Constraint::from_value(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// True if a property can have this name (RFC 20): it has at least one character, and none of ``! & ' " ^ ` | ( )``.
pub fn is_property_name(name: &str) -> bool {
    check_property_name(name).is_ok()
}

/// Why `name` cannot be the name of a property (RFC 20): the first forbidden character, or that it is empty.
pub(crate) fn check_property_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a property name of at least one character".to_owned());
    }
    if name.contains(PROPERTY_FORBIDDEN) {
        return Err("a property name without any of ! & ' \" ^ ` | ( )".to_owned());
    }
    Ok(())
}

struct Reader {
    terms_left: usize,
}

impl Reader {
    fn constraint(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Result<Constraint, Fault> {
        let object = path.dictionary(value)?;
        self.take(1, path)?;
        if depth > CONSTRAINT_DEPTH_MAX {
            return Err(path.fault("deeper nesting", format!("at most {CONSTRAINT_DEPTH_MAX} levels")));
        }
        let mut operators = object.iter();
        let Some((operator, values)) = operators.next() else { return Ok(Constraint::All) };
        if operators.next().is_some() {
            return Err(path.fault(format!("{} operators", object.len()), "one operator in each object"));
        }
        let here = path.key(operator);
        match operator.as_str() {
            "properties" => self.properties(values, &here),
            "hostlist" => hostlist(values, &here),
            "ranks" => ranks(values, &here),
            "not" | "and" | "or" => {
                let values = here.list(values)?;
                let read = |(i, value)| self.constraint(value, &here.index(i), depth + 1);
                let list = values.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
                Ok(match operator.as_str() {
                    "not" if list.is_empty() => Constraint::None,
                    "not" => Constraint::Not(list),
                    _ if list.is_empty() => Constraint::All,
                    "and" => Constraint::And(list),
                    _ => Constraint::Or(list),
                })
            }
            _ => Err(path.fault(
                format!("the unknown constraint operator: {}", crate::text::excerpt(operator)),
                "one of properties, hostlist, ranks, not, and, or",
            )),
        }
    }

    fn properties(&mut self, values: &Value, path: &Path<'_>) -> Result<Constraint, Fault> {
        let values = path.list(values)?;
        self.take(values.len(), path)?;
        let read = |(i, value): (usize, &Value)| {
            let here = path.index(i);
            let text = here.string(value)?;
            let (name, negated) = text.strip_prefix('^').map_or((text, false), |name| (name, true));
            check_property_name(name).map_err(|expected| here.wrong(value, expected))?;
            Ok(Prop { name: name.to_owned(), negated })
        };
        Ok(Constraint::Properties(values.iter().enumerate().map(read).collect::<Result<_, _>>()?))
    }

    fn take(&mut self, terms: usize, path: &Path<'_>) -> Result<(), Fault> {
        let left = self.terms_left.checked_sub(terms);
        self.terms_left = left.ok_or_else(|| {
            path.fault("more", format!("at most {CONSTRAINT_TERMS_MAX} terms in a constraint"))
        })?;
        Ok(())
    }
}

fn hostlist(values: &Value, path: &Path<'_>) -> Result<Constraint, Fault> {
    let mut hosts = Hostlist::new();
    for (i, value) in path.list(values)?.iter().enumerate() {
        let here = path.index(i);
        let more = Hostlist::parse(here.string(value)?);
        hosts.append(&more.map_err(|error| here.wrong(value, format!("a hostlist ({error})")))?);
    }
    Ok(Constraint::Hostlist(hosts))
}

fn ranks(values: &Value, path: &Path<'_>) -> Result<Constraint, Fault> {
    let mut ranks = Idset::new();
    for (i, value) in path.list(values)?.iter().enumerate() {
        let here = path.index(i);
        let more = Idset::parse(here.string(value)?);
        ranks = ranks.union(&more.map_err(|error| here.wrong(value, format!("an idset ({error})")))?);
    }
    Ok(Constraint::Ranks(ranks))
}

#[cfg(test)]
mod tests;
