//! `fluxgate web`: the dashboard, a process of its own and a client of the instance.
//!
//! Must never know a page.

mod past;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use fluxgate_web::{Listen, Live, Options, Past};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Target;
use crate::client::Client;
use crate::cmd::web::past::Rights;
use crate::fail::usage;
use crate::{directory, invoked, place, render};

/// `fluxgate web`.
#[derive(Debug, Args)]
#[command(
    after_help = "The address that is printed holds a key for one use, which the server exchanges for a cookie; the next key is \
    printed when it was used. To look from another host: ssh -L 8080:127.0.0.1:8080."
)]
pub(crate) struct Web {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Where to listen: a port of this host, 0 for a free one, or a socket of mode 0600.
    #[arg(long, value_name = "127.0.0.1:PORT|unix:PATH", default_value = "127.0.0.1:0")]
    pub(crate) listen: Listen,
    /// Offer changes too, each after a second click: cancel, hold, release and expedite jobs, swap, shadow and promote policies. For
    /// the owner of the instance.
    #[arg(long)]
    pub(crate) control: bool,
    /// A proxy leads here that tells in this header who asks, such as X-Remote-User; it must take away what browsers send under that
    /// name. Only with --listen unix:PATH, whose mode is 0660 then.
    #[arg(long, value_name = "HEADER")]
    pub(crate) behind_proxy: Option<String>,
    /// For --behind-proxy by the owner of an instance in private mode (access.private-mode): all who come by the proxy may see the jobs
    /// of all users.
    #[arg(long, requires = "behind_proxy")]
    pub(crate) all_users: bool,
    /// The scheduler's journal, for pages of the past: `?at=2026-11-23T12:00` (UTC) after an address. It is run again here, with the
    /// policies of then. A user other than the owner of the instance sees the answers for a guest.
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    /// For --journal: a folder with the policies that decided.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
}

/// Serve until a signal.
pub(crate) fn run(args: &Web) -> Result<()> {
    if args.behind_proxy.is_some() && matches!(args.listen, Listen::Port(_)) {
        return Err(usage(
            "--behind-proxy: only with --listen unix:PATH: on a port, others could tell any name",
        ));
    }
    // An instance that is not there is told now and not to the first viewer.
    let uri = place::uri(&args.target)?;
    let client = Client::connect(&args.target)?;
    // The settings are told to the owner alone.
    let settings = client.sched("sched-fluxgate.config-show", json!({}));
    let owner = settings.is_ok();
    if args.control {
        settings.context("--control")?;
    }
    let private =
        || client.sched("sched-fluxgate.stats-get", json!({})).is_ok_and(|it| it["private_mode"] == true);
    if owner && args.behind_proxy.is_some() && !args.all_users && private() {
        return Err(usage(
            "--behind-proxy: access.private-mode is on, and viewers would see the jobs of all users, as the owner does; \
             --all-users says that all who come by the proxy may",
        ));
    }
    drop(client);
    let open = |folder: &Path| {
        past::OfJournal::open(folder, args.policies.as_deref(), Rights { owner, uri: uri.clone() })
    };
    let past = args.journal.as_deref().map(open);
    let past = past.transpose().context("--journal")?.map(|past| Box::new(past) as Box<dyn Past>);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let options = Options {
        listen: args.listen.clone(),
        instance: uri.clone(),
        program: invoked::name().to_owned(),
        control: args.control,
        behind_proxy: args.behind_proxy.clone(),
        user_of: directory::user,
    };
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let stop = async move {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        };
        // A reader of the addresses that went away is no reason to end.
        let announce = |address: &str| drop(render::line(address));
        Ok(fluxgate_web::serve(options, Live::new(uri), past, announce, stop).await?)
    })
}
