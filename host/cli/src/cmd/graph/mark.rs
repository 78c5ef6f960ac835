//! `fluxgate graph set-status`, `set-property` and `remove-property`: state and properties of single vertices in the scheduler.

use anyhow::Result;
use fluxgate_graph::CONTAINMENT;
use fluxgate_wire::graph_service;
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::Client;
use crate::fail::usage;
use crate::render;

use super::args::StatusArg;
use super::input;

/// The service of the scheduler.
const SERVICE: &str = "sched-fluxgate";

/// Mark a vertex up or down, or all of a type below it.
pub(super) fn status(
    target: &Target,
    path: &str,
    status: StatusArg,
    each: Option<&str>,
    as_json: bool,
) -> Result<()> {
    let client = Client::connect(target)?;
    let paths = match each {
        Some(type_) => below(&client, path, type_)?,
        None => vec![path.to_owned()],
    };
    let word = status.word();
    for path in &paths {
        let payload = json!({"resource_path": path, "status": word});
        client.sched(&format!("{SERVICE}.set_status"), payload)?;
    }
    if as_json {
        return render::json(&json!({"paths": paths, "status": word}));
    }
    match paths.as_slice() {
        [path] => render::line(format!("{path} is marked {word}")),
        paths => render::line(format!("{} vertices below {path} are marked {word}", paths.len())),
    }
}

/// The paths of all vertices of a type below one.
fn below(client: &Client, path: &str, type_: &str) -> Result<Vec<String>> {
    let model = input::model(client, None)?;
    let containment = model.name(CONTAINMENT);
    let prefix = format!("{path}/");
    let of_type =
        model.vertices().filter(|v| model.vertex(*v).is_some_and(|it| model.text(it.type_()) == type_));
    let paths = of_type.filter_map(|v| model.path(v, containment?));
    let paths: Vec<String> = paths.filter(|found| found.starts_with(&prefix)).collect();
    if paths.is_empty() {
        return Err(usage(format!("{path}: no vertex of type {type_} is below it")));
    }
    Ok(paths)
}

/// Give a vertex a property with a value.
pub(super) fn set(target: &Target, path: &str, property: &str, as_json: bool) -> Result<()> {
    let payload = json!({"sp_resource_path": path, "sp_keyval": property});
    if let Some(Err(error)) = graph_service::vertex_request("set_property", &payload) {
        return Err(usage(format!("{property:?}: {}", error.text)));
    }
    Client::connect(target)?.sched(&format!("{SERVICE}.set_property"), payload)?;
    let (key, value) = property.split_once('=').unwrap_or((property, ""));
    print(as_json, json!({"path": path, "property": key, "value": value}), || {
        format!("{path} has {key}={value}")
    })
}

/// Take a property from a vertex.
pub(super) fn remove(target: &Target, path: &str, key: &str, as_json: bool) -> Result<()> {
    let payload = json!({"resource_path": path, "key": key});
    Client::connect(target)?.sched(&format!("{SERVICE}.remove_property"), payload)?;
    print(as_json, json!({"path": path, "property": key, "value": null}), || {
        format!("{path} has no property {key}")
    })
}

fn print(as_json: bool, value: Value, text: impl FnOnce() -> String) -> Result<()> {
    if as_json { render::json(&value) } else { render::line(text()) }
}
