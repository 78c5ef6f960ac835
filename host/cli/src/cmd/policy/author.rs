//! `fluxgate policy load FILE --watch`: the author's loop. The component is loaded and swapped in, again each time its
//! file changes, until the program is interrupted.
//!
//! A refusal by the scheduler is printed. The earlier policy stays active, and the next change is waited for.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use notify::{EventKind, RecursiveMode, Watcher};
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::Client;
use crate::render;

/// Time without events after which a changed file is read: a linker writes in many steps.
const QUIET: Duration = Duration::from_millis(150);

/// Run until interrupted, or until the file's folder cannot be watched any more.
pub(super) fn run(target: &Target, file: &Path, settings: &Value, as_json: bool) -> Result<()> {
    let name = file.file_name().ok_or_else(|| anyhow!("{}: expected a file", file.display()))?.to_owned();
    let folder = file.parent().ok_or_else(|| anyhow!("{}: expected a file in a folder", file.display()))?;
    let (events, changes) = channel();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let touched = match &event {
            // The reading of a file is no change.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => false,
            Ok(event) => {
                event.need_rescan() || event.paths.iter().any(|path| path.file_name() == Some(&name))
            }
            Err(_) => true,
        };
        if touched {
            // The receiver is gone when the program ends.
            let _ = events.send(event.map(drop));
        }
    })
    .context("files cannot be watched here")?;
    // The folder, because most tools replace the file instead of writing into it.
    watcher.watch(folder, RecursiveMode::NonRecursive).with_context(|| folder.display().to_string())?;
    loop {
        print(&once(target, file, settings), as_json)?;
        if !changed(&changes)? {
            return Ok(());
        }
    }
}

/// Wait for a change, and until it is over; false when there will be no more.
fn changed(changes: &Receiver<notify::Result<()>>) -> Result<bool> {
    match changes.recv() {
        Ok(change) => change.context("the file cannot be watched any more")?,
        Err(_) => return Ok(false),
    }
    loop {
        match changes.recv_timeout(QUIET) {
            Ok(change) => change.context("the file cannot be watched any more")?,
            Err(RecvTimeoutError::Timeout) => return Ok(true),
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        }
    }
}

/// Load it and swap it in.
fn once(target: &Target, file: &Path, settings: &Value) -> Result<Value> {
    let client = Client::connect(target)?;
    let asked = json!({"path": file.to_string_lossy(), "config": settings});
    let loaded = client.sched("sched-fluxgate.policy-load", asked)?;
    let swapped = client.sched("sched-fluxgate.policy-swap", json!({ "name": loaded["name"] }))?;
    Ok(json!({
        "name": loaded["name"], "version": loaded["version"], "digest": loaded["digest"],
        "from": swapped["from"], "state": swapped["state"],
    }))
}

fn print(what: &Result<Value>, as_json: bool) -> Result<()> {
    match what {
        Ok(said) if as_json => render::line(said),
        Ok(said) => {
            let [name, version, from] = ["name", "version", "from"].map(|key| render::plain(&said[key]));
            let state = if said["state"] == true { ", with its state" } else { "" };
            render::line(format!("{name} {version} decides, {from} before{state}; waiting for changes"))
        }
        Err(error) if as_json => render::line(json!({"error": format!("{error:#}")})),
        Err(error) => render::line(format!("{error:#}; the policy before goes on; waiting for changes")),
    }
}
