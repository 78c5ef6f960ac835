//! `fluxgate config`: look at the scheduler's settings, check a file of them, have them read again, and make them from
//! those of the graph scheduler.

mod against;
mod check;
mod migrate;
mod schema;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Subcommand;
use fluxgate_sched::settings::Settings;
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::Client;
use crate::files::read_config;
use crate::render;

use self::migrate::Migrate;

/// `fluxgate config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCmd {
    /// The settings in force, and where each comes from: an argument, the table, or its default.
    Show {
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Bring changed settings into force. All of them are checked first: nothing changes if one is wrong.
    Reload {
        #[command(flatten)]
        target: Target,
        /// A Flux configuration (TOML) with the table [sched-fluxgate]. Default: the scheduler reads again
        /// what it was started with, its file or the configuration of the instance.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check the [sched-fluxgate] table of a Flux configuration, and show what it would set. Without --instance no scheduler is asked.
    ///
    /// Each fault is told with its place in the file, its key, what was found and what is expected; as JSON, under `faults`, with
    /// `line` and `column`.
    #[command(after_help = "Exit codes: 0 if all is good, 1 if something is wrong, 2 usage.")]
    Check {
        #[command(flatten)]
        target: Target,
        /// Also against the running instance: queues and properties that it does not have, and whether its policies load.
        #[arg(long)]
        instance: bool,
        /// The configuration (TOML). Without it, only the arguments over the defaults.
        #[arg(long, alias = "config-file", value_name = "FILE")]
        file: Option<PathBuf>,
        /// Arguments as a module would get them.
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a JSON schema of the [sched-fluxgate] table, for editors and for checks before a rollout.
    Schema {
        /// Print JSON, which a schema is anyway.
        #[arg(long)]
        json: bool,
    },
    /// Make our settings from those of the graph scheduler (Fluxion): its three tables and its modules' arguments.
    ///
    /// Prints a line for each setting: ok, info, warn or error, the key, what was found, and what it becomes. Then the table
    /// [sched-fluxgate] as TOML. No scheduler is asked, and nothing that runs changes.
    #[command(
        after_help = "Exit codes: 0 success; 1 with --strict if there is a warning; 2 if a setting cannot be \
                            translated or a file cannot be read or written. With 1 and 2 no table is made."
    )]
    Migrate(Migrate),
}

/// Run a subcommand.
pub(crate) fn run(command: &ConfigCmd) -> Result<()> {
    match command {
        ConfigCmd::Show { target, json: as_json } => {
            let answer = Client::connect(target)?.sched("sched-fluxgate.config-show", json!({}))?;
            if *as_json {
                return render::json(&answer);
            }
            show(&answer["settings"])?;
            notes(&answer)
        }
        ConfigCmd::Reload { target, file, json: as_json } => {
            let (topic, request) = match file {
                // Checked here as well: the message then names the file.
                Some(path) => {
                    let config = read_config(path)?;
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
        ConfigCmd::Schema { .. } => render::json(&schema::of_table()),
        ConfigCmd::Check { target, instance, file, settings, json } => {
            let target = instance.then_some(target);
            check::run(&check::Check { target, file: file.as_deref(), args: settings, json: *json })
        }
        ConfigCmd::Migrate(args) => migrate::run(args),
    }
}

/// Settings as a table: value, source, meaning.
fn show(settings: &Value) -> Result<()> {
    let mut table = render::table(&["KEY", "VALUE", "FROM", "MEANING"]);
    for (key, entry) in settings.as_object().into_iter().flatten() {
        let (source, meaning) = (render::plain(&entry["source"]), render::plain(&entry["meaning"]));
        table.add_row([key.clone(), text(&entry["value"]), source, meaning]);
    }
    render::show(&table)
}

/// A value as text; a dash for none.
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
