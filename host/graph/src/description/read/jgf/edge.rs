//! An edge of JGF, read key by key.
//!
//! This module must never know the data of vertices.

use serde::de::MapAccess;
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::model::{CONTAINMENT, CONTAINS, Direction, Relation};
use crate::description::runs::LinkExtras;

use super::keys::{Keys, Object, Text};
use super::{LINKED, fault};

/// An edge as the file has it.
#[derive(Default)]
pub(super) struct JsonEdge<'de> {
    source: Option<Text<'de>>,
    target: Option<Text<'de>>,
    directed: Option<bool>,
    relation: Option<Text<'de>>,
    metadata: Metadata<'de>,
    outer: Map<String, Value>,
}

#[derive(Default)]
struct Metadata<'de> {
    subsystem: Option<Text<'de>>,
    relationship: Option<Text<'de>>,
    opposite: Option<Text<'de>>,
    /// The older form: types by subsystem.
    name: Option<Value>,
    extended: Map<String, Value>,
}

impl<'de> Keys<'de> for JsonEdge<'de> {
    fn key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "source" => self.source = map.next_value()?,
            "target" => self.target = map.next_value()?,
            "directed" => self.directed = map.next_value()?,
            "relation" => self.relation = map.next_value()?,
            "metadata" => map.next_value_seed(Object(&mut self.metadata))?,
            other => drop(self.outer.insert(other.to_owned(), map.next_value()?)),
        }
        Ok(())
    }
}

impl<'de> Keys<'de> for Metadata<'de> {
    fn key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "subsystem" => self.subsystem = map.next_value()?,
            "relationship" => self.relationship = map.next_value()?,
            "opposite" => self.opposite = map.next_value()?,
            "name" => self.name = map.next_value()?,
            other => drop(self.extended.insert(other.to_owned(), map.next_value()?)),
        }
        Ok(())
    }
}

impl JsonEdge<'_> {
    /// The ids of its ends.
    pub(super) fn ends(&self, at: usize) -> Result<(&str, &str), LoadError> {
        let end = |key: &str, end: &Option<Text<'_>>| match end {
            Some(_) => Ok(()),
            None => Err(fault(place(at, key), "no text found; an edge has the ids of two vertices")),
        };
        end(".source", &self.source)?;
        end(".target", &self.target)?;
        Ok((self.source.as_deref().unwrap_or_default(), self.target.as_deref().unwrap_or_default()))
    }

    /// Its relations, several in the older form; and its keys without a meaning here.
    pub(super) fn relations(self, at: usize, relations: &mut Vec<Relation>) -> Result<LinkExtras, LoadError> {
        let it = self.metadata;
        let given = it.subsystem.is_some() || it.relationship.is_some();
        let older = match it.name {
            None => Map::new(),
            Some(Value::Object(older)) => older,
            Some(_) => {
                return Err(fault(
                    place(at, ".metadata.name"),
                    "no dictionary found; types by subsystem are accepted",
                ));
            }
        };
        let direction = if self.directed == Some(false) { Direction::Both } else { Direction::Forward };
        let mut add = |subsystem: Option<&str>, type_: Option<&str>| {
            let subsystem = subsystem.unwrap_or(CONTAINMENT);
            let usual = if subsystem == CONTAINMENT { CONTAINS } else { LINKED };
            let type_ = type_.or(self.relation.as_deref()).unwrap_or(usual);
            let opposite = it.opposite.as_deref().unwrap_or(if type_ == CONTAINS { "in" } else { "" });
            relations.push(Relation { direction, ..Relation::of(subsystem, type_, opposite) });
        };
        let mut names = older.iter().map(|(subsystem, type_)| {
            let wrong = || {
                fault(place(at, &format!(".metadata.name.{subsystem}")), "no text found; a type is needed")
            };
            Ok((subsystem.as_str(), type_.as_str().ok_or_else(wrong)?))
        });
        let (subsystem, relationship) = (it.subsystem.as_deref(), it.relationship.as_deref());
        match names.next().transpose()? {
            Some((older_subsystem, older_type)) if given => {
                add(subsystem.or(Some(older_subsystem)), relationship.or(Some(older_type)));
            }
            Some((older_subsystem, older_type)) => {
                add(Some(older_subsystem), Some(older_type));
                for one in names {
                    let (subsystem, type_) = one?;
                    add(Some(subsystem), Some(type_));
                }
            }
            None => add(subsystem, relationship),
        }
        Ok(LinkExtras { extended: it.extended, outer: self.outer })
    }
}

/// Where an edge stands in the file.
pub(super) fn place(at: usize, key: &str) -> String {
    format!("graph.edges[{at}]{key}")
}
