//! A vertex of JGF, read key by key into a [`Description`].
//!
//! This module must never know the edges between vertices.

use std::collections::BTreeMap;

use serde::de::MapAccess;
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::limits::SIZE_MAX;
use crate::description::runs::{Description, Extras, Said, trailing};
use crate::description::vertex::State;

use super::keys::{Keys, Object, Text};
use super::{SHOWN_MAX, fault};

/// A vertex as the file has it.
#[derive(Default)]
pub(super) struct JsonVertex<'de> {
    pub(super) id: Option<Text<'de>>,
    metadata: Metadata<'de>,
    outer: Map<String, Value>,
}

#[derive(Default)]
struct Metadata<'de> {
    there: bool,
    type_: Option<Text<'de>>,
    basename: Option<Text<'de>>,
    name: Option<Text<'de>>,
    unit: Option<Text<'de>>,
    uuid: Option<Text<'de>>,
    id: Option<i64>,
    uniq_id: Option<i64>,
    rank: Option<i64>,
    size: Option<i64>,
    status: Option<Value>,
    properties: Option<Value>,
    tags: Option<Value>,
    paths: Paths<'de>,
    extended: Map<String, Value>,
}

#[derive(Default)]
struct Paths<'de> {
    containment: Option<Text<'de>>,
    others: BTreeMap<String, String>,
}

impl<'de> Keys<'de> for JsonVertex<'de> {
    fn key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "id" => self.id = map.next_value()?,
            "metadata" => map.next_value_seed(Object(&mut self.metadata))?,
            other => drop(self.outer.insert(other.to_owned(), map.next_value()?)),
        }
        Ok(())
    }
}

impl<'de> Keys<'de> for Metadata<'de> {
    fn key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.there = true;
        match key {
            "type" => self.type_ = map.next_value()?,
            "basename" => self.basename = map.next_value()?,
            "name" => self.name = map.next_value()?,
            "unit" => self.unit = map.next_value()?,
            "uuid" => self.uuid = map.next_value()?,
            "id" => self.id = map.next_value()?,
            "uniq_id" => self.uniq_id = map.next_value()?,
            "rank" => self.rank = map.next_value()?,
            "size" => self.size = map.next_value()?,
            "status" => self.status = map.next_value()?,
            "properties" => self.properties = map.next_value()?,
            "tags" => self.tags = map.next_value()?,
            "paths" => map.next_value_seed(Object(&mut self.paths))?,
            other => drop(self.extended.insert(other.to_owned(), map.next_value()?)),
        }
        Ok(())
    }
}

impl<'de> Keys<'de> for Paths<'de> {
    fn key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "containment" => self.containment = map.next_value()?,
            other => drop(self.others.insert(other.to_owned(), map.next_value()?)),
        }
        Ok(())
    }
}

impl JsonVertex<'_> {
    /// Where the vertex stands in the file.
    pub(super) fn place(&self, at: u32, key: &str) -> String {
        place(self.id.as_deref(), at, key)
    }

    /// Its UUID.
    pub(super) fn uuid(&self) -> Option<&str> {
        self.metadata.uuid.as_deref().filter(|uuid| !uuid.is_empty())
    }

    /// Adds the vertex, which is the next one of the list.
    pub(super) fn add(self, to: &mut Description) -> Result<(), LoadError> {
        let (id, at) = (self.id.as_deref(), to.vertex_count());
        let place = |key: &str| place(id, at, key);
        let it = self.metadata;
        let file = id.ok_or_else(|| fault(place(".id"), "no text found; vertices have one"))?;
        if !it.there {
            return Err(fault(place(".metadata"), "nothing found; vertices have it"));
        }
        let wrong = |key: &str, n: i64, accepted: &str| {
            Err(fault(place(&format!(".metadata.{key}")), format!("{n} found; {accepted}")))
        };
        let type_ = it.type_.as_deref().filter(|type_| !type_.is_empty());
        let type_ = type_.ok_or_else(|| fault(place(".metadata.type"), "no text found; a type is needed"))?;
        let unique = it.uniq_id.or_else(|| file.parse().ok());
        let name = it.name.as_deref().unwrap_or_default();
        let number = match it.id {
            Some(n) if n < -1 => return wrong("id", n, "-1 or more is accepted"),
            Some(n) => Some(n),
            None => (type_ == "node").then(|| trailing(name)).flatten().or(unique.filter(|n| *n >= 0)),
        };
        let rank = it.rank.unwrap_or(-1);
        if !(-1..i64::from(u32::MAX)).contains(&rank) {
            return wrong("rank", rank, &format!("-1 or a number up to {} is accepted", u32::MAX - 1));
        }
        let size = it.size.unwrap_or(1);
        let size = match u64::try_from(size) {
            Ok(size @ 1..=SIZE_MAX) => size,
            _ => return wrong("size", size, &format!("1 to {SIZE_MAX} is accepted")),
        };
        let state = match &it.status {
            None => State::Up,
            Some(value) => status(value).ok_or_else(|| {
                let words = State::ALL.map(State::text).join(", ");
                let what = format!("{value} found; 0 (up), 1 (down) or one of {words} is accepted");
                fault(place(".metadata.status"), what)
            })?,
        };
        let extras = Extras {
            file: None,
            uuid: it.uuid.filter(|uuid| !uuid.is_empty()).map(|uuid| uuid.to_string()),
            properties: properties(it.properties)
                .map_err(|(key, what)| fault(place(&format!(".metadata.properties{key}")), what))?,
            tags: match it.tags {
                None => BTreeMap::new(),
                Some(tags) => serde_json::from_value(tags)
                    .map_err(|error| fault(place(".metadata.tags"), error.to_string()))?,
            },
            paths: it.paths.others,
            extended: it.extended,
            outer: self.outer,
        };
        let said = Said {
            type_,
            basename: it.basename.as_deref().unwrap_or_default(),
            name,
            unit: it.unit.as_deref().unwrap_or_default(),
            id: number,
            unique,
            file,
            size,
            rank,
            state,
            path: it.paths.containment.as_deref(),
            extras,
        };
        to.add(said).map_err(|error| fault(place(""), error.to_string())).map(drop)
    }
}

fn place(id: Option<&str>, at: u32, key: &str) -> String {
    match id {
        Some(id) => format!("graph.nodes[{at}] (id '{id}'){key}"),
        None => format!("graph.nodes[{at}]{key}"),
    }
}

/// Properties with their values; those of a list have none. The error has the key.
fn properties(value: Option<Value>) -> Result<BTreeMap<String, String>, (String, String)> {
    let none = |what: &str| (String::new(), what.to_owned());
    match value {
        None => Ok(BTreeMap::new()),
        Some(Value::Array(list)) => list
            .into_iter()
            .map(|key| match key {
                Value::String(key) => Ok((key, String::new())),
                other => Err((String::new(), format!("{} found; names are accepted", short(&other)))),
            })
            .collect(),
        Some(Value::Object(map)) => map
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(value) => Ok((key, value)),
                _ => Err((format!(".{key}"), "no text found; properties have texts as values".to_owned())),
            })
            .collect(),
        Some(_) => Err(none("no dictionary found; properties are one, or an array of names")),
    }
}

/// The start of a value, for a message.
fn short(value: &Value) -> String {
    value.to_string().chars().take(SHOWN_MAX).collect()
}

fn status(value: &Value) -> Option<State> {
    match value {
        Value::Number(n) => match n.as_u64()? {
            0 => Some(State::Up),
            1 => Some(State::Down),
            _ => None,
        },
        Value::String(text) => State::parse(text),
        _ => None,
    }
}
