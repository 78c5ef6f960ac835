//! Reading and checking an R document.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::segments::Builder;
use super::{Children, ENTRIES_PER_RANK_MAX, GRAPH_TEXT_BYTES, GraphText, R, RLite, TEXT_BYTES_MAX, algebra};
use crate::constraint::check_property_name;
use crate::document::{self, DocumentError, Fault, Path};
use crate::hostlist::Hostlist;
use crate::idset::Idset;

/// The kind of document in errors.
pub(super) const WHAT: &str = "R";

/// The top of a document, with the parts of `scheduling` as text.
#[derive(serde::Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    scheduling: Option<BTreeMap<String, &'a RawValue>>,
}

/// Reads JSON text; a long graph in `scheduling` comes as text and is left out of the value.
pub(super) fn without_graph(text: &str) -> Result<(Value, Option<GraphText>), DocumentError> {
    let graph = (text.len() > GRAPH_TEXT_BYTES && text.len() <= TEXT_BYTES_MAX)
        .then(|| serde_json::from_str::<Top<'_>>(text).ok()?.scheduling?.remove("graph"))
        .flatten()
        .filter(|graph| graph.get().len() > GRAPH_TEXT_BYTES && graph.get().starts_with('{'));
    let Some(graph) = graph else { return Ok((document::json(WHAT, text, TEXT_BYTES_MAX)?, None)) };
    // The rest of the text, with an empty graph in its place, which is removed again.
    let start = graph.get().as_ptr() as usize - text.as_ptr() as usize;
    let rest = format!("{}{{}}{}", &text[..start], &text[start + graph.get().len()..]);
    let mut value = document::json(WHAT, &rest, TEXT_BYTES_MAX)?;
    if let Some(scheduling) = value.get_mut("scheduling").and_then(Value::as_object_mut) {
        scheduling.shift_remove("graph");
    }
    Ok((value, Some(GraphText(Arc::from(graph.to_owned())))))
}

/// Reads the document `value`, whose `scheduling` was taken out or copied by the caller.
pub(super) fn read(value: &Value, scheduling: Option<Value>) -> Result<R, Fault> {
    let root = Path::Root;
    let document = root.dictionary(value)?;
    let version = root.required(document, "version")?;
    if version.as_u64() != Some(1) {
        return Err(root.key("version").wrong(version, "1, the only version of R there is"));
    }
    let scheduling = scheduling.filter(|value| !value.is_null());
    if let Some(value) = &scheduling {
        root.key("scheduling").dictionary(value)?;
    }

    let path = root.key("execution");
    let execution = path.dictionary(root.required(document, "execution")?)?;
    let entries = entries(path.required(execution, "R_lite")?, &path.key("R_lite"))?;
    let ranks: Idset = entries.iter().flat_map(|entry| entry.rank.ranges()).collect();
    let hosts = nodelist(execution.get("nodelist"), &path.key("nodelist"), &ranks)?;
    let (r_lite, nodelist) = merge(&entries, &hosts, &path.key("R_lite"))?;

    let starttime = time(execution, "starttime", &path)?;
    let expiration = time(execution, "expiration", &path)?;
    if starttime > 0.0 && expiration > 0.0 && expiration <= starttime {
        let found = expiration.to_string();
        return Err(path.key("expiration").fault(found, format!("a time after the start time {starttime}")));
    }
    let nslots = execution.get("nslots").map(|value| {
        let slots = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        slots.ok_or_else(|| path.key("nslots").wrong(value, "a number of slots from 1 to 4294967295"))
    });
    let nslots = nslots.transpose()?;
    let properties = properties(execution.get("properties"), &path.key("properties"), &ranks)?;
    Ok(R { r_lite, nodelist, starttime, expiration, nslots, properties, scheduling, graph: None })
}

fn idset(value: &Value, path: &Path<'_>) -> Result<Idset, Fault> {
    let text = path.string(value)?;
    Idset::parse(text)
        .map_err(|error| path.wrong(value, format!("an idset ({} at position {})", error.kind, error.at)))
}

fn entries(value: &Value, path: &Path<'_>) -> Result<Vec<RLite>, Fault> {
    let read = |(i, value)| {
        let path = path.index(i);
        let map = path.dictionary(value)?;
        let here = path.key("rank");
        let value = path.required(map, "rank")?;
        let rank = idset(value, &here)?;
        if rank.is_empty() {
            return Err(here.wrong(value, "at least one rank"));
        }
        let here = path.key("children");
        let map = here.dictionary(path.required(map, "children")?)?;
        here.required(map, "core")?;
        let child = |(type_, value): (&String, &Value)| Ok((type_.clone(), idset(value, &here.key(type_))?));
        let children = map.iter().map(child).collect::<Result<Children, Fault>>()?;
        Ok(RLite { rank, children })
    };
    path.list(value)?.iter().enumerate().map(read).collect()
}

fn nodelist(value: Option<&Value>, path: &Path<'_>, ranks: &Idset) -> Result<Hostlist, Fault> {
    let mut hosts = Hostlist::new();
    match value {
        // The empty set has no hosts to name.
        None if ranks.is_empty() => {}
        None => return Err(path.fault("nothing", "a list of hostlists")),
        Some(value) => {
            for (i, value) in path.list(value)?.iter().enumerate() {
                let here = path.index(i);
                let text = here.string(value)?;
                if text.is_empty() {
                    continue;
                }
                let more = Hostlist::parse(text);
                hosts.append(&more.map_err(|error| here.wrong(value, format!("a hostlist ({error})")))?);
            }
        }
    }
    if hosts.len() as u64 != ranks.len() {
        let found = format!("{} host names", hosts.len());
        return Err(path.fault(found, format!("{}, one for each rank", ranks.len())));
    }
    Ok(hosts)
}

/// A time in seconds since the epoch; 0 when unset.
fn time(map: &Map<String, Value>, key: &str, path: &Path<'_>) -> Result<f64, Fault> {
    let Some(value) = map.get(key) else { return Ok(0.0) };
    let time = value.as_f64().filter(|time| time.is_finite());
    let time = time.ok_or_else(|| path.key(key).wrong(value, "a number of seconds since the epoch"))?;
    Ok(time.max(0.0))
}

fn properties(
    value: Option<&Value>,
    path: &Path<'_>,
    ranks: &Idset,
) -> Result<BTreeMap<String, Idset>, Fault> {
    let mut properties = BTreeMap::new();
    for (name, value) in value.map(|value| path.dictionary(value)).transpose()?.into_iter().flatten() {
        let here = path.key(name);
        check_property_name(name).map_err(|expected| here.fault(format!("the name '{name}'"), expected))?;
        let set = idset(value, &here)?;
        let strangers = set.difference(ranks);
        if !strangers.is_empty() {
            let found = format!("ranks {}", crate::text::excerpt(&strangers.to_string()));
            return Err(here.fault(found, "only ranks that stand in R_lite"));
        }
        if !set.is_empty() {
            properties.insert(name.clone(), set);
        }
    }
    Ok(properties)
}

/// The canonical form of entries that may share ranks: a sweep over the ranks at which a run of ranks begins or ends.
/// Between two of them the same entries apply.
fn merge(entries: &[RLite], hosts: &Hostlist, path: &Path<'_>) -> Result<(Vec<RLite>, Hostlist), Fault> {
    let mut runs: Vec<_> = entries
        .iter()
        .enumerate()
        .flat_map(|(entry, lite)| lite.rank.ranges().map(move |range| (*range.start(), *range.end(), entry)))
        .collect();
    runs.sort_unstable();
    let mut runs = runs.into_iter().peekable();
    let mut builder = Builder::default();
    let mut made: BTreeMap<Vec<usize>, Option<usize>> = BTreeMap::new();
    // The runs that contain `at`, as (last rank, entry).
    let mut active: Vec<(u32, usize)> = Vec::new();
    let (mut at, mut host) = (0, 0);
    loop {
        if active.is_empty() {
            let Some(&(lo, ..)) = runs.peek() else { return Ok(builder.finish()) };
            at = lo;
        }
        while let Some((_, hi, entry)) = runs.next_if(|run| run.0 == at) {
            active.push((hi, entry));
        }
        if active.len() > ENTRIES_PER_RANK_MAX {
            let found = format!("{} entries for rank {at}", active.len());
            return Err(path.fault(found, format!("at most {ENTRIES_PER_RANK_MAX}")));
        }
        let begins = runs.peek().map(|run| run.0 - 1);
        let hi = active.iter().map(|run| run.0).chain(begins).min().unwrap_or(at);
        let mut key: Vec<_> = active.iter().map(|run| run.1).collect();
        key.sort_unstable();
        let entry = match made.get(&key) {
            Some(entry) => *entry,
            None => {
                let children = together(entries, &key, at, path)?;
                let entry = builder.entry(children);
                made.insert(key, entry);
                entry
            }
        };
        if let Some(entry) = entry {
            builder.push(entry, at..=hi, hosts, host);
        }
        host += (hi - at) as usize + 1;
        active.retain(|run| run.0 > hi);
        at = hi + 1;
    }
}

/// The children of a rank that several entries name.
fn together(entries: &[RLite], which: &[usize], rank: u32, path: &Path<'_>) -> Result<Children, Fault> {
    let mut sum = Children::new();
    for &entry in which {
        for (type_, ids) in &entries[entry].children {
            let twice = sum.get(type_).map(|has: &Idset| has.intersection(ids)).unwrap_or_default();
            if !twice.is_empty() {
                let ids = crate::text::excerpt(&twice.to_string());
                let here = path.index(entry);
                return Err(here.fault(format!("{type_} {ids} of rank {rank} again"), "each resource once"));
            }
        }
        sum = algebra::join(&sum, &entries[entry].children);
    }
    Ok(sum)
}
