//! The rules of a site about the resources of jobs beside their jobspecs: the table `resources`.
//!
//! Must never know the machine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow, bail};
use fluxgate_graph::SiteRules;
use serde_json::{Map, Value, json};

use super::keys::{Key, key};
use super::value::Given;

/// Most types, and most attributes.
const ENTRIES_MAX: usize = 64;
/// Most bytes of the name of a type, an attribute or a property.
const NAME_BYTES_MAX: usize = 256;

/// The keys of the table.
const BY_UNIT: Key = key("by-unit", "types of vertices such as [\"ssd\"], as an argument ssd,license", "");
const NODES_BELOW: Key = key(
    "nodes-below",
    "a table of ATTRIBUTE = PROPERTY; as an argument resources.nodes-below.ATTRIBUTE=PROPERTY",
    "",
);

/// Sets one key of the table.
pub(super) fn set(rules: &mut SiteRules, name: &str, given: Given<'_>) -> Result<()> {
    let result = match name.strip_prefix("nodes-below.") {
        Some(attribute) => below(rules, attribute, given),
        None => match (name, given) {
            ("by-unit", given) => by_unit(rules, given),
            ("nodes-below", Given::Json(Value::Object(table))) => {
                rules.nodes_below = BTreeMap::new();
                table.iter().try_for_each(|(name, value)| below(rules, name, Given::Json(value)))
            }
            ("nodes-below", given) => Err(given.refused(&NODES_BELOW)),
            _ => bail!("resources.{name}: unknown key; known are by-unit, nodes-below"),
        },
    };
    result.map_err(|error| anyhow!("resources.{name}: {error}"))
}

/// Sets the keys of a table.
pub(super) fn set_table(rules: &mut SiteRules, table: &Map<String, Value>) -> Result<()> {
    table.iter().try_for_each(|(name, value)| set(rules, name, Given::Json(value)))
}

/// The table as JSON.
pub(super) fn value(rules: &SiteRules) -> Value {
    json!({"by-unit": rules.by_unit, "nodes-below": rules.nodes_below})
}

fn by_unit(rules: &mut SiteRules, given: Given<'_>) -> Result<()> {
    let types: BTreeSet<String> = match given {
        Given::Text(text) => {
            text.split(',').map(|part| name(Given::Text(part), &BY_UNIT)).collect::<Result<_>>()?
        }
        Given::Json(Value::Array(list)) => {
            list.iter().map(|part| name(Given::Json(part), &BY_UNIT)).collect::<Result<_>>()?
        }
        given => return Err(given.refused(&BY_UNIT)),
    };
    rules.by_unit = bounded(types.len()).map(|()| types)?;
    Ok(())
}

fn below(rules: &mut SiteRules, attribute: &str, given: Given<'_>) -> Result<()> {
    let attribute = name(Given::Text(attribute), &NODES_BELOW)?;
    rules.nodes_below.insert(attribute, name(given, &NODES_BELOW)?);
    bounded(rules.nodes_below.len())
}

fn name(given: Given<'_>, key: &Key) -> Result<String> {
    given.text(key, NAME_BYTES_MAX).map(str::to_owned)
}

fn bounded(entries: usize) -> Result<()> {
    match entries > ENTRIES_MAX {
        true => bail!("more than {ENTRIES_MAX} entries"),
        false => Ok(()),
    }
}
