//! Reading TOML `[[resource.config]]`, the static configuration of flux-config-resource(5).
//!
//! Each entry names hosts and their resources; entries add up, so that a property can be added to hosts listed
//! before. Ranks count from 0 in the order in which hosts are first named. Hosts in `resource.exclude` (a hostlist or
//! an idset of ranks) keep their ranks and are left out. `[resource.flow.KIND]` has the content of R's
//! `scheduling.flow`: pools of power or bandwidth that feed hosts. Other keys of `[resource]` are for the resource
//! service.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fluxgate_formats::rset::{Children, R};
use fluxgate_formats::{Hostlist, Idset};
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use crate::description::error::LoadError;
use crate::description::flow;
use crate::description::limits::{MEMBERS_MAX, NODES_MAX};

/// Longest text, in bytes.
pub(crate) const BYTES_MAX: usize = 64 << 20;
/// Characters that a property must not have (RFC 20).
const FORBIDDEN: &[char] = &['!', '&', '\'', '"', '^', '`', '|', '(', ')'];

#[derive(Deserialize)]
struct Document {
    resource: Option<ResourceTable>,
}

#[derive(Deserialize)]
struct ResourceTable {
    #[serde(default)]
    config: Vec<Spanned<Entry>>,
    exclude: Option<Spanned<String>>,
    flow: Option<Spanned<toml::Table>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    hosts: Spanned<String>,
    cores: Option<Spanned<String>>,
    gpus: Option<Spanned<String>>,
    #[serde(default)]
    properties: Vec<Spanned<String>>,
}

#[derive(Default)]
struct Host {
    cores: Idset,
    gpus: Idset,
    properties: BTreeSet<String>,
    line: usize,
}

/// The machine that a TOML text describes, as R.
pub(crate) fn read(text: &str) -> Result<R, LoadError> {
    if text.len() > BYTES_MAX {
        let what = format!("{} bytes found; at most {BYTES_MAX} are accepted", text.len());
        return Err(LoadError::new("TOML", "text", what));
    }
    let line = |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1;
    let fault = |at: usize, key: &str, what: String| {
        LoadError::new("TOML", format!("line {}: {key}", line(at)), what)
    };
    let document: Document = toml::from_str(text).map_err(|e| {
        let place = e.span().map_or_else(|| "text".to_owned(), |s| format!("line {}", line(s.start)));
        LoadError::new("TOML", place, e.message().to_owned())
    })?;
    let table = document.resource.filter(|t| !t.config.is_empty()).ok_or_else(|| {
        LoadError::new("TOML", "text", "no [[resource.config]] found; at least one is needed")
    })?;

    let mut order: Vec<String> = Vec::new();
    let mut ranks: HashMap<String, usize> = HashMap::new();
    let mut hosts: Vec<Host> = Vec::new();
    for (index, entry) in table.config.iter().enumerate() {
        let key = |name: &str| format!("resource.config[{index}].{name}");
        let Entry { hosts: named, cores, gpus, properties } = entry.get_ref();
        let list: Hostlist =
            named.get_ref().parse().map_err(|e| fault(named.span().start, &key("hosts"), format!("{e}")))?;
        if list.is_empty() {
            return Err(fault(
                named.span().start,
                &key("hosts"),
                "no host found; at least one is needed".to_owned(),
            ));
        }
        if list.len() as u64 > NODES_MAX {
            let what = format!("{} hosts found; at most {} are accepted", list.len(), NODES_MAX);
            return Err(fault(named.span().start, &key("hosts"), what));
        }
        let ids = |name: &str, text: &Option<Spanned<String>>| -> Result<Idset, LoadError> {
            let Some(text) = text else { return Ok(Idset::new()) };
            let set: Idset =
                text.get_ref().parse().map_err(|e| fault(text.span().start, &key(name), format!("{e}")))?;
            if set.len() > MEMBERS_MAX {
                let what = format!("{} ids found; at most {} are accepted", set.len(), MEMBERS_MAX);
                return Err(fault(text.span().start, &key(name), what));
            }
            Ok(set)
        };
        let (cores, gpus) = (ids("cores", cores)?, ids("gpus", gpus)?);
        for property in properties {
            let text = property.get_ref();
            if text.is_empty() || text.contains(FORBIDDEN) {
                let what =
                    format!("'{text}' found; a property has at least one character and none of !&'\"^`|()");
                return Err(fault(property.span().start, &key("properties"), what));
            }
        }
        for host in list.iter() {
            let rank = *ranks.entry(host).or_insert_with_key(|host| {
                order.push(host.clone());
                hosts.push(Host { line: line(named.span().start), ..Host::default() });
                hosts.len() - 1
            });
            let it = &mut hosts[rank];
            it.cores = it.cores.union(&cores);
            it.gpus = it.gpus.union(&gpus);
            it.properties.extend(properties.iter().map(|p| p.get_ref().clone()));
        }
    }
    let left_out = match &table.exclude {
        None => Idset::new(),
        Some(text) => excluded(text.get_ref(), &ranks, hosts.len())
            .map_err(|what| fault(text.span().start, "resource.exclude", what))?,
    };
    for (host, name) in hosts.iter().zip(&order) {
        if host.cores.is_empty() && host.gpus.is_empty() {
            let what = format!("host '{name}' has no resources; cores or gpus are needed");
            return Err(LoadError::new("TOML", format!("line {}: resource.config", host.line), what));
        }
    }
    let mut r = assemble(&hosts, &order, &left_out);
    if let Some(flow) = &table.flow {
        let wrong = |what: String| fault(flow.span().start, "resource", what);
        let said = serde_json::to_value(flow.get_ref()).map_err(|e| wrong(e.to_string()))?;
        strangers(&said, &ranks).map_err(wrong)?;
        if let Some(pools) = said.as_object() {
            flow::sound(pools, &r).map_err(wrong)?;
        }
        r.scheduling = Some(json!({"writer": flow::WRITER, flow::KEY: said}));
    }
    Ok(r)
}

/// Hosts of flow that no `config` entry names: in one text they must be misspelt.
fn strangers(flow: &Value, ranks: &HashMap<String, usize>) -> Result<(), String> {
    for (subsystem, said) in flow.as_object().into_iter().flatten() {
        for (index, pool) in said["pools"].as_array().into_iter().flatten().enumerate() {
            let hosts = pool["hosts"].as_str().and_then(|text| text.parse::<Hostlist>().ok());
            // Invalid or too long lists are refused where they are used.
            let hosts = hosts.filter(|hosts| hosts.len() as u64 <= NODES_MAX).unwrap_or_default();
            if let Some(host) = hosts.iter().find(|host| !ranks.contains_key(host)) {
                let place = format!("{}.{subsystem}.pools[{index}].hosts", flow::KEY);
                return Err(format!("{place}: there is no host '{host}'"));
            }
        }
    }
    Ok(())
}

fn assemble(hosts: &[Host], order: &[String], left_out: &Idset) -> R {
    let mut properties: BTreeMap<String, Idset> = BTreeMap::new();
    let kept = || hosts.iter().zip(order).enumerate().filter(|(rank, _)| !left_out.contains(*rank as u32));
    for (rank, (host, _)) in kept() {
        for property in &host.properties {
            properties.entry(property.clone()).or_default().insert(rank as u32);
        }
    }
    let mut r = R::from_nodes(kept().map(|(rank, (host, name))| {
        let mut children = Children::new();
        for (type_, ids) in [("core", &host.cores), ("gpu", &host.gpus)] {
            if !ids.is_empty() {
                children.insert(type_.to_owned(), ids.clone());
            }
        }
        (rank as u32, name, children)
    }));
    r.properties = properties;
    r
}

/// Ranks that `exclude` names: as an idset when it can be read as one, else as hosts.
fn excluded(text: &str, ranks: &HashMap<String, usize>, count: usize) -> Result<Idset, String> {
    if let Ok(ids) = text.parse::<Idset>() {
        return match ids.last() {
            Some(last) if last as usize >= count => {
                Err(format!("rank {last} found; the last one is {}", count - 1))
            }
            _ => Ok(ids),
        };
    }
    let hosts: Hostlist = text.parse().map_err(|e| format!("neither an idset nor a hostlist: {e}"))?;
    hosts
        .iter()
        .map(|host| ranks.get(&host).map(|&r| r as u32).ok_or_else(|| format!("there is no host '{host}'")))
        .collect()
}
