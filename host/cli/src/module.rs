//! The scheduler as the process of a broker module (RFC 5).
//!
//! `flux module load --loader=/path/of/fluxgate --name=sched-fluxgate /path/of/fluxgate policy=easy` makes the
//! broker run this binary with nothing but a file descriptor and the name of a file. Name, arguments and
//! configuration come in the broker's welcome; or, when a Python shim took it and became this program, in
//! the environment. Under the name of the graph scheduler's module for queues, its tables and arguments are read.
//!
//! Every fault is reported to the broker before the process ends: a module that just ends takes the broker
//! with it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fluxgate_log::Id;
use fluxgate_sched::{Configuration, ServiceIdentity};
use fluxgate_wire::graph_service::QUEUE_SERVICE;
use fluxgate_wire::logging::{Severity, append};
use fluxgate_wire::module::{MODULE_URI_ENV, Status, Welcome};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::{SessionConfig, SessionError};
use fluxgate_wire::transport::{Connection, Inbox, Options, Outbox};
use serde_json::{Map, Value};

use crate::audit_trail;
use crate::clock::Clock;
use crate::driver::{self, is_orderly};
use crate::logging::{self, Lines};
use crate::service_manager::ServiceManager;

/// Longest time for the broker to answer that the module ends.
const FINALIZE_TIMEOUT: Duration = Duration::from_secs(10);
/// Matchtag of the report that the module ends; a session never comes near it.
const FINALIZE_TAG: u32 = u32::MAX;

/// The configuration, if the shim found room for it.
const CONF_ENV: &str = "FLUXGATE_MODULE_CONF";

/// The way in which the broker started this process.
pub(crate) struct Birth {
    /// `fd://N`.
    uri: String,
    /// The welcome that a shim has taken in already.
    welcome: Option<Result<Welcome>>,
}

impl Birth {
    /// The start of this process by a broker, if it is a module.
    pub(crate) fn find() -> Option<Birth> {
        let uri = std::env::var(MODULE_URI_ENV).ok()?;
        if let Ok(name) = std::env::var("FLUXGATE_MODULE_NAME") {
            return Some(Birth { uri, welcome: Some(from_shim(name)) });
        }
        // The loader is called with the file to load and nothing else.
        let mut args = std::env::args().skip(1);
        match (args.next(), args.next()) {
            (Some(path), None) if path.contains('/') => Some(Birth { uri, welcome: None }),
            _ => None,
        }
    }
}

/// The welcome that the shim hands on.
fn from_shim(name: String) -> Result<Welcome> {
    let json = |key: &str, otherwise: &str| -> Result<Value> {
        let text = std::env::var(key).unwrap_or_else(|_| otherwise.to_owned());
        serde_json::from_str(&text).with_context(|| format!("{key}: no JSON"))
    };
    let args = serde_json::from_value(json("FLUXGATE_MODULE_ARGS", "[]")?);
    let conf: Map<String, Value> =
        serde_json::from_value(json(CONF_ENV, "{}")?).context("FLUXGATE_MODULE_CONF: expected an object")?;
    Ok(Welcome {
        name,
        uuid: std::env::var("FLUXGATE_MODULE_UUID").unwrap_or_default(),
        args: args.context("FLUXGATE_MODULE_ARGS: expected an array of strings")?,
        attrs: BTreeMap::new(),
        conf,
    })
}

/// Runs the module to its end.
pub(crate) fn run(birth: Birth) -> ExitCode {
    let lines = logging::to_broker(false);
    let ended = driver::on_runtime(live(birth, lines));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The broker could not be told; this is the last place to say it.
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "fluxgate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs from the welcome to the last report. An error is one that could not be reported to the broker.
async fn live(birth: Birth, lines: Lines) -> Result<()> {
    let greeted = birth.welcome.is_some();
    let connection = Connection::inherit(&birth.uri, greeted, Options::default()).await?;
    let Connection { outbox, mut inbox } = connection;
    let mut welcome = match &birth.welcome {
        Some(Ok(welcome)) => welcome.clone(),
        Some(Err(error)) => return Err(anyhow!("{error:#}")),
        None => Welcome::read(&inbox.recv().await?)?,
    };
    if greeted
        && std::env::var_os(CONF_ENV).is_none()
        && let Value::Object(conf) = driver::ask_config(&outbox, &mut inbox).await?
    {
        welcome.conf = conf;
    }
    let result = serve(&welcome, &outbox, &mut inbox, lines).await;
    let errnum = match &result {
        Ok(()) => 0,
        Err(error) if is_orderly(error) => 0,
        Err(error) => {
            let (time, rank, name) = (Clock::real().now(), welcome.rank(), &welcome.name);
            let text = format!("{} {error:#}", Id::ModuleEnds.text());
            outbox.send(&append(Severity::Critical, time, rank, name, &text))?;
            errno_of(error)
        }
    };
    finalize(&outbox, &mut inbox, errnum).await
}

/// The number that `flux module load` shows.
fn errno_of(error: &anyhow::Error) -> i32 {
    match error.downcast_ref::<SessionError>() {
        Some(SessionError::ServiceTaken { .. }) => errno::EEXIST,
        Some(SessionError::ResourcesBusy) => errno::EBUSY,
        Some(SessionError::NoResourceService) => errno::ENOSYS,
        Some(_) => errno::EIO,
        None => errno::EINVAL,
    }
}

async fn serve(welcome: &Welcome, outbox: &Outbox, inbox: &mut Inbox, lines: Lines) -> Result<()> {
    let translated = welcome.name == QUEUE_SERVICE;
    let conf = Value::Object(welcome.conf.clone());
    let configuration = Configuration::of_module(&conf, welcome.args.clone(), translated)?;
    let settings = configuration.settings();
    logging::set_broker_level(settings.log_level.filter())?;
    let session = SessionConfig { name: welcome.name.clone(), module: true, ..settings.session() };
    let uuid = Some(welcome.uuid.clone()).filter(|uuid| !uuid.is_empty());
    let audit_trail = audit_trail::default_path();
    let identity = ServiceIdentity { session, rank: welcome.rank(), uuid, audit_trail };
    // Standard output and the service manager are the broker's.
    let told = (None, ServiceManager::none());
    driver::serve(identity, configuration, Clock::real(), (outbox, inbox), lines, told).await
}

/// Tells the broker that the module ends, answers the requests that are still there, and reports the result.
async fn finalize(outbox: &Outbox, inbox: &mut Inbox, errnum: i32) -> Result<()> {
    outbox.send(&Status::Finalizing.report().with_matchtag(FINALIZE_TAG))?;
    let heard = tokio::time::timeout(FINALIZE_TIMEOUT, async {
        while let Ok(message) = inbox.recv().await {
            if message.is_response() && message.matchtag() == FINALIZE_TAG {
                return true;
            }
            if message.wants_response() {
                // A broker that is gone needs no answer.
                let _ = outbox.send(&message.respond_error(errno::ENOSYS, ""));
            }
        }
        false
    });
    if heard.await != Ok(true) {
        return Err(anyhow!("the broker did not answer that we are going"));
    }
    while let Some(message) = inbox.try_recv() {
        if message.wants_response() {
            let _ = outbox.send(&message.respond_error(errno::ENOSYS, ""));
        }
    }
    outbox.send(&Status::Exited(errnum).report())?;
    outbox.flush().await;
    Ok(())
}
