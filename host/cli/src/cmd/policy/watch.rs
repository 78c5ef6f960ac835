//! `fluxgate policy watch`: the costs of policies, pass by pass, from the scheduler's counters. In a terminal it is a view of
//! `fluxgate top`; here are the forms for programs.

use anyhow::Result;
use clap::Args;
use fluxgate_web::rates::{HEAD, between, cells};
use fluxgate_web::terminal::View;
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::Client;
use crate::cmd::top;
use crate::render;

/// `fluxgate policy watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) every: f64,
    /// Only once: the sums since the policy began.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, a line for each look.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run it.
pub(super) fn run(args: &WatchCmd) -> Result<()> {
    let every = top::interval(args.every)?;
    if !args.once && !args.json {
        return top::show(&args.target, View::Policies, every);
    }
    let client = Client::connect(&args.target)?;
    if args.once {
        let shown = between(&Value::Null, &sample(&client)?);
        return if args.json { render::json(&shown) } else { table(&shown) };
    }
    let mut before = Value::Null;
    loop {
        let now = sample(&client)?;
        render::line(between(&before, &now))?;
        before = now;
        std::thread::sleep(every);
    }
}

/// All counters at one time.
fn sample(client: &Client) -> Result<Value> {
    client.sched("sched-fluxgate.stats-get", json!({}))
}

fn table(shown: &Value) -> Result<()> {
    let mut table = render::table(&HEAD);
    for row in shown["policies"].as_array().into_iter().flatten() {
        table.add_row(cells(row));
    }
    render::show(&table)
}
