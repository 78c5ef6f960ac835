//! `fluxgate config`: look at the scheduler's settings, check a file of them, and have them read again.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::args::ConfigCmd;
use crate::client::Client;
use crate::render;
use crate::sched::settings::{Settings, read_file};

/// Run a subcommand.
pub(crate) fn run(command: &ConfigCmd) -> Result<()> {
    match command {
        ConfigCmd::Show { target, json: as_json } => {
            let answer = Client::connect(target)?.sched("sched-fluxgate.config-show", json!({}))?;
            if *as_json {
                return render::json(&answer);
            }
            show(&answer["settings"], false)?;
            notes(&answer)
        }
        ConfigCmd::Reload { target, file, json: as_json } => {
            let (topic, request) = match file {
                // Checked here as well: the message then names the file.
                Some(path) => {
                    let config = read_file(path)?;
                    Settings::from_config(&config).with_context(|| path.display().to_string())?;
                    ("sched-fluxgate.config-reload", config)
                }
                None => ("sched-fluxgate.config-read", json!({})),
            };
            let answer = Client::connect(target)?.sched(topic, request)?;
            if *as_json {
                return render::json(&answer);
            }
            let changed = answer["changed"].as_object();
            for (key, change) in changed.into_iter().flatten() {
                render::line(format!("{key}: {}, was {}", text(&change["to"]), text(&change["from"])))?;
            }
            if changed.is_none_or(serde_json::Map::is_empty) {
                render::line("nothing changed")?;
            }
            notes(&answer)
        }
        ConfigCmd::Check { file, settings, json } => {
            let config = file.as_deref().map_or(Ok(Value::Null), read_file)?;
            let name = || file.as_deref().unwrap_or(Path::new("no file")).display().to_string();
            let settings = Settings::from_config(&config).with_context(name)?.with_args(settings)?;
            show(&settings.show(), *json)
        }
    }
}

/// Settings as a table: what is in force, where it comes from, what it means.
fn show(settings: &Value, as_json: bool) -> Result<()> {
    if as_json {
        return render::json(settings);
    }
    let mut table = render::table(&["KEY", "VALUE", "FROM", "MEANING"]);
    for (key, entry) in settings.as_object().into_iter().flatten() {
        let (source, meaning) = (render::plain(&entry["source"]), render::plain(&entry["meaning"]));
        table.add_row([key.clone(), text(&entry["value"]), source, meaning]);
    }
    render::show(&table)
}

/// A value as it would be written; nothing as a dash.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Object(pairs) if pairs.is_empty() => "-".to_owned(),
        Value::Object(pairs) => {
            let pair = |(key, value): (&String, &Value)| format!("{key}={}", render::plain(value));
            pairs.iter().map(pair).collect::<Vec<_>>().join(" ")
        }
        value => render::plain(value),
    }
}

fn notes(answer: &Value) -> Result<()> {
    for note in answer["notes"].as_array().into_iter().flatten() {
        render::line(format!("note: {}", render::plain(note)))?;
    }
    Ok(())
}
