//! A vertex of JGF, the JSON graph format (RFC 40), with what the Flux project's graph scheduler adds to it.
//!
//! Of the metadata, `type`, `basename`, `name`, `id`, `size`, `unit`, `rank`, `properties` (a list, or an object with its
//! keys), `uuid`, the containment path and `status` are used. `id` and `rank` of -1 mean none. Other keys follow from the
//! graph or belong to a scheduler's state.
//!
//! This module must never know the edges between vertices.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::description::error::LoadError;
use crate::description::names::Name;
use crate::layout::builder::{GraphBuilder, Pool, PoolId};
use crate::layout::template;
use crate::layout::vertex::Ids;

/// A text, borrowed from the document unless it contains escapes. Serde borrows inside an `Option` only for a
/// newtype.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A vertex.
#[derive(Deserialize)]
pub(super) struct JsonNode<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
}

/// The metadata of a vertex.
#[derive(Deserialize)]
pub(super) struct Metadata<'a> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    basename: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    pub(super) id: Option<i64>,
    size: Option<i64>,
    #[serde(borrow)]
    unit: Option<Text<'a>>,
    pub(super) rank: Option<i64>,
    pub(super) properties: Option<Properties>,
    #[serde(borrow)]
    uuid: Option<Text<'a>>,
    #[serde(borrow)]
    paths: Option<Paths<'a>>,
    /// 0 is up, 1 is down.
    pub(super) status: Option<i64>,
}

impl<'a> Metadata<'a> {
    /// Gives the vertex another name.
    pub(super) fn rename(&mut self, name: &'a str) {
        self.name = Some(Text(Cow::Borrowed(name)));
    }

    /// The containment path.
    pub(super) fn path(&self) -> Option<&str> {
        self.paths.as_ref()?.containment()
    }

    /// The name and the basename, where they are given.
    pub(super) fn names(&self) -> (Option<&str>, Option<&str>) {
        let [name, base] = [self.name.as_deref(), self.basename.as_deref()];
        (name.filter(|name| !name.is_empty()), base.filter(|base| !base.is_empty()))
    }
}

/// Paths by subsystem.
#[derive(Deserialize)]
pub(super) struct Paths<'a> {
    #[serde(borrow)]
    containment: Option<Text<'a>>,
}

impl Paths<'_> {
    /// The containment path.
    pub(super) fn containment(&self) -> Option<&str> {
        self.containment.as_deref().filter(|path| !path.is_empty())
    }
}

/// The value of a property.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Said {
    Text(String),
    Number(u64),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Properties {
    List(Vec<String>),
    Map(BTreeMap<String, Said>),
}

impl Properties {
    /// Keys and values; a list has no values.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &Said)> {
        let map = match self {
            Properties::Map(map) => Some(map),
            Properties::List(_) => None,
        };
        map.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }
}

pub(super) fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("JGF", place, what)
}

/// The message of the parser without the position, which stands before it.
pub(super) fn words(e: &serde_json::Error) -> String {
    let text = e.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

pub(super) fn pool(build: &mut GraphBuilder, data: &Metadata<'_>) -> Result<Pool, (&'static str, String)> {
    if data.type_.is_empty() {
        return Err((".type", "an empty text found; the name of a type is needed".to_owned()));
    }
    let number = |key: &'static str, n: Option<i64>| match n {
        None | Some(-1) => Ok(None),
        Some(n) => match u32::try_from(n) {
            Ok(n) if n < u32::MAX => Ok(Some(n)),
            _ => Err((key, format!("{n} found; -1 or a number up to {} is accepted", u32::MAX - 1))),
        },
    };
    let id = number(".id", data.id)?;
    let mut pool = Pool::new(build.name(&data.type_), id.map_or(Ids::Unnumbered, Ids::one));
    pool.rank = number(".rank", data.rank)?;
    pool.size = match data.size {
        None => 1,
        Some(n) => u64::try_from(n).map_err(|_| (".size", format!("{n} found; 1 or more is accepted")))?,
    };
    let basename = data.basename.as_deref().filter(|b| !b.is_empty()).unwrap_or(&data.type_);
    if basename != data.type_ {
        pool.basename = build.name(basename);
    }
    pool.unit = build.name(data.unit.as_deref().unwrap_or(""));
    // A name that follows from basename and id is not kept, so that a run of cores remains one vertex.
    let follows = |name: &str| match (name.strip_prefix(basename), id) {
        (Some(rest), Some(id)) => decimal(rest) == Some(id),
        (Some(rest), None) => rest.is_empty(),
        (None, _) => false,
    };
    if let Some(name) = data.name.as_deref().filter(|n| !n.is_empty() && !follows(n)) {
        pool.name = build.name(name);
    }
    pool.properties = match &data.properties {
        None => Vec::new(),
        Some(Properties::List(list)) => names(build, list.iter()),
        // Values are kept for the properties that placement preferences read.
        Some(Properties::Map(map)) => {
            let valued = |(key, value): (&String, &Said)| {
                let read = [template::PERF_CLASS_PROPERTY, template::POWER_PROPERTY].contains(&key.as_str());
                match value {
                    Said::Text(value) if read && !value.is_empty() => format!("{key}={value}"),
                    Said::Number(value) if read => format!("{key}={value}"),
                    _ => key.clone(),
                }
            };
            names(build, map.iter().map(valued).collect::<Vec<_>>().iter())
        }
    };
    pool.uuid = data.uuid.as_deref().filter(|u| !u.is_empty()).map(Into::into);
    Ok(pool)
}

/// The number that a text spells in decimal digits without leading zeros.
fn decimal(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// Pools by the id of their vertex. Nearly all files count their vertices, so those ids are positions of a list.
pub(super) struct ById<'a> {
    counted: Vec<Option<PoolId>>,
    others: HashMap<&'a str, PoolId>,
}

impl<'a> ById<'a> {
    pub(super) fn new(vertices: usize) -> Self {
        ById { counted: vec![None; vertices.saturating_mul(2)], others: HashMap::new() }
    }

    fn position(&self, id: &str) -> Option<usize> {
        decimal(id).map(|n| n as usize).filter(|&n| n < self.counted.len())
    }

    pub(super) fn get(&self, id: &str) -> Option<PoolId> {
        match self.position(id) {
            Some(at) => self.counted[at],
            None => self.others.get(id).copied(),
        }
    }

    /// Inserts a pool; returns the earlier pool of that id.
    pub(super) fn insert(&mut self, id: &'a str, pool: PoolId) -> Option<PoolId> {
        match self.position(id) {
            Some(at) => self.counted[at].replace(pool),
            None => self.others.insert(id, pool),
        }
    }
}

fn names<'s>(build: &mut GraphBuilder, texts: impl Iterator<Item = &'s String>) -> Vec<Name> {
    texts.map(|text| build.name(text)).collect()
}
