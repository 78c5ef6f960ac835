//! `fluxgate sched`: the scheduler as an external client of a running instance.
//!
//! As a broker's module it begins in [`crate::module`] instead.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use fluxgate_sched::settings::Settings;
use fluxgate_sched::{Configuration, ServiceIdentity};
use fluxgate_wire::transport::{ConnectOptions, Connection};

use crate::args::{JournalArgs, PolicyArgs};
use crate::files::read_config;
use crate::render::READY;
use crate::service_manager::ServiceManager;
use crate::{audit_trail, driver, files, logging};

/// `fluxgate sched`.
#[derive(Debug, Args)]
pub(crate) struct Sched {
    /// Socket of the instance: local:///path or a path.
    #[arg(long, env = "FLUX_URI", value_name = "URI")]
    pub(crate) uri: String,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Serve at most this many requests at once (RFC 27 limited mode). Default: unlimited.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub(crate) queue_depth: Option<u32>,
    /// A Flux configuration (TOML) with the table [sched-fluxgate]. Default: the configuration of the instance.
    /// SIGHUP and `fluxgate config reload` read it again.
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// Settings as a broker module takes them; they win over flags, and these over the table. See `fluxgate
    /// config check`.
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
}

/// Runs the scheduler to its end.
pub(crate) fn run(args: &Sched) -> Result<()> {
    let lines = logging::to_broker(true);
    let manager = ServiceManager::from_environment();
    // Faults of the flags are reported before a connection is made.
    let given = arguments(args)?;
    Settings::default().with_args(&given)?;
    let file = args.config_file.as_deref().map(std::path::absolute).transpose().context("--config-file")?;
    let config = file.as_deref().map(read_config).transpose()?;
    let uri = args.uri.clone();
    driver::on_runtime(async move {
        let Connection { outbox, mut inbox } = Connection::connect(&uri, &ConnectOptions::default()).await?;
        let clock = driver::ask_clock(&outbox, &mut inbox).await?;
        let config = match config {
            Some(config) => config,
            None => driver::ask_config(&outbox, &mut inbox).await?,
        };
        let source = || file.as_deref().map_or("config.get".into(), |path| path.display().to_string());
        let settings = Settings::from_config(&config).with_context(source)?.with_args(&given)?;
        logging::set_broker_level(settings.log_level.filter())?;
        let audit_trail = audit_trail::default_path();
        let identity = ServiceIdentity { session: settings.session(), rank: 0, uuid: None, audit_trail };
        let configuration = Configuration::new(settings, given, file);
        let ends = (&outbox, &mut inbox);
        let told = (Some(READY), manager);
        let result = driver::serve(identity, configuration, clock, ends, lines, told).await;
        outbox.flush().await;
        match result {
            // The instance went down, and the scheduler with it.
            Err(error) if driver::is_orderly(&error) => Ok(()),
            result => result,
        }
    })
}

/// The flags of `fluxgate sched` in the words of a module's arguments, which win over them.
fn arguments(args: &Sched) -> Result<Vec<String>> {
    let mut given = Vec::new();
    given.extend(args.policy.policy.iter().map(|policy| format!("policy={policy}")));
    given.extend(
        files::settings(&args.policy.config)?.iter().map(|(key, value)| format!("policy.{key}={value}")),
    );
    given.extend(args.policy.policies.iter().map(|dir| format!("policies={}", dir.display())));
    if let Some(journal) = &args.journal.journal {
        let journal = std::path::absolute(journal).context("--journal")?;
        given.push(format!("journal={}", journal.display()));
    }
    given.extend(args.journal.journal_size.iter().map(|size| format!("journal-size={size}")));
    given.extend(args.queue_depth.iter().map(|depth| format!("queue-depth={depth}")));
    given.extend(args.settings.iter().cloned());
    Ok(given)
}
