//! The past of an instance for the dashboard: its journal is run again until a time, and the engine of that time is asked.
//!
//! Must never know a page.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use fluxgate_journal::Journal;
use fluxgate_journal::past::{PastError, at};
use fluxgate_sched::Viewer;
use fluxgate_web::{Asking, Looking, Past, Refused, Source};
use fluxgate_wire::proto::errno;
use nix::unistd::getuid;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::client::Client;
use crate::cmd::replay::ByDigest;
use crate::render;

/// A journal with the policies that decided.
pub(super) struct OfJournal(Arc<Shared>);

/// The rights of the user of this server.
pub(super) struct Rights {
    /// It is the owner of the instance.
    pub(super) owner: bool,
    /// The address of the instance.
    pub(super) uri: String,
}

impl Rights {
    /// The rights as of now. An instance that does not tell its mode counts as private.
    fn viewer(&self) -> Viewer {
        let asked = || Client::connect_uri(&self.uri)?.sched("sched-fluxgate.stats-get", json!({}));
        let private = !self.owner && asked().map_or(true, |stats| stats["private_mode"] != false);
        Viewer { userid: getuid().as_raw(), admin: self.owner, private }
    }
}

struct Shared {
    folder: PathBuf,
    rights: Rights,
    /// Locked during a rerun, so that there is one at a time.
    policies: Mutex<ByDigest>,
}

impl OfJournal {
    /// A journal. It grows, so it is read anew for each time.
    pub(super) fn open(folder: &Path, policies: Option<&Path>, rights: Rights) -> Result<OfJournal> {
        Journal::open(folder)?;
        let policies = Mutex::new(ByDigest::open(policies)?);
        Ok(OfJournal(Arc::new(Shared { folder: folder.to_owned(), rights, policies })))
    }
}

impl Shared {
    fn find(&self, time: f64) -> Result<fluxgate_sched::Past, String> {
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        let journal = Journal::open(&self.folder).map_err(|error| error.to_string())?;
        let engine = at(&journal, &mut *policies, time).map_err(|error| in_words(&error))?;
        Ok(fluxgate_sched::Past::new(engine, time, self.rights.viewer()))
    }
}

fn in_words(error: &PastError) -> String {
    let span = |from: f64, until: f64| format!("{} and {}", render::time(from), render::time(until));
    match error {
        PastError::Outside { from, until } => {
            format!("The journal tells of times between {}.", span(*from, *until))
        }
        PastError::Gap { from, until, lost, why } => {
            format!(
                "The journal has a gap between {}: {lost} records are missing ({why}).",
                span(*from, *until)
            )
        }
        PastError::Away { from, until } => {
            format!("No scheduler wrote to the journal between {}.", span(*from, *until))
        }
        PastError::Rerun(error) => format!("The journal cannot be run again until then: {error}"),
    }
}

impl Past for OfJournal {
    fn at(&self, time: f64) -> Looking<'_> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let found = spawn_blocking(move || shared.find(time)).await;
            let found =
                found.unwrap_or_else(|error| Err(format!("The journal cannot be run again: {error}")))?;
            Ok(Box::new(Then(Arc::new(Mutex::new(found)))) as Box<dyn Source>)
        })
    }
}

/// The scheduler at a past time.
struct Then(Arc<Mutex<fluxgate_sched::Past>>);

impl Source for Then {
    fn ask<'a>(&'a self, topic: &'a str, payload: Value) -> Asking<'a> {
        let (then, topic) = (Arc::clone(&self.0), topic.to_owned());
        Box::pin(async move {
            let answered = spawn_blocking(move || {
                let begin = Instant::now();
                let then = then.lock().unwrap_or_else(PoisonError::into_inner);
                then.answer(&topic, &payload, &|| begin.elapsed())
            });
            let refused = |text: String| Refused { errnum: errno::ENOENT, text };
            match answered.await {
                Ok(answer) => answer.map_err(|error| refused(format!("{error:#}"))),
                Err(error) => Err(refused(error.to_string())),
            }
        })
    }
}
