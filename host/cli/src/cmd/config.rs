//! `fluxgate config`: look at the scheduler's settings, check a file of them, and have them read again.

use anyhow::Result;
use serde_json::Value;

use crate::args::ConfigCmd;
use crate::render;
use crate::sched::settings::{Settings, read_file};

/// Run a subcommand.
pub(crate) fn run(command: &ConfigCmd) -> Result<()> {
    match command {
        ConfigCmd::Check { file, settings, json } => {
            let config = file.as_deref().map_or(Ok(Value::Null), read_file)?;
            show(&Settings::from_config(&config)?.with_args(settings)?.show(), *json)
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
        let value = match &entry["value"] {
            Value::Object(pairs) => {
                let pair = |(key, value): (&String, &Value)| format!("{key}={}", render::plain(value));
                pairs.iter().map(pair).collect::<Vec<_>>().join(" ")
            }
            value => render::plain(value),
        };
        table.add_row([
            key.clone(),
            value,
            render::plain(&entry["source"]),
            render::plain(&entry["meaning"]),
        ]);
    }
    render::show(&table)
}
