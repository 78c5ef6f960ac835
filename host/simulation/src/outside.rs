//! Everything that the scheduler service reaches outside of itself: clocks, messages, work, documents, the journal's disk.
//!
//! Must never know what the service does with any of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fluxgate_journal::{Appender, OpenError, Options, Writer};
use fluxgate_sched::{Document, Host, Store, Usage, Work};
use fluxgate_wire::message::Message;
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use crate::disk::SimulatedDisk;

/// The state that changes while the service runs.
#[derive(Debug, Default)]
struct State {
    now: f64,
    elapsed: Duration,
    sent: Vec<Message>,
    work: Vec<Work>,
    appender: Option<Appender>,
    groups: Option<BTreeMap<String, BTreeSet<u32>>>,
}

/// See the module text. One for each life of the scheduler.
#[derive(Debug)]
pub struct Outside {
    state: Mutex<State>,
    disk: SimulatedDisk,
}

impl Outside {
    /// The outside of a scheduler with this disk.
    pub fn new(disk: SimulatedDisk) -> Outside {
        Outside { state: Mutex::default(), disk }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time on the clock of the instance, and the time since the process began.
    pub fn set_time(&self, now: f64, elapsed: Duration) {
        let mut state = self.state();
        (state.now, state.elapsed) = (now, elapsed);
    }

    /// Sets the users of groups; without them, no group can be looked up.
    pub fn set_groups(&self, groups: Option<BTreeMap<String, BTreeSet<u32>>>) {
        self.state().groups = groups;
    }

    /// The messages that were sent since the last call.
    pub fn sent(&self) -> Vec<Message> {
        std::mem::take(&mut self.state().sent)
    }

    /// The work that was started since the last call.
    pub fn work(&self) -> Vec<Work> {
        std::mem::take(&mut self.state().work)
    }

    /// The journal writes what waits, if there is one.
    pub fn pump(&self) {
        let mut state = self.state();
        let now = state.elapsed.as_secs_f64();
        if let Some(appender) = &mut state.appender {
            appender.pump(now);
        }
    }

    /// The process ends in order: the journal writes what is left.
    pub fn close(&self) {
        let mut state = self.state();
        let now = state.elapsed.as_secs_f64();
        if let Some(appender) = state.appender.take() {
            appender.close(now);
        }
    }
}

impl Host for Outside {
    fn now(&self) -> f64 {
        self.state().now
    }

    fn elapsed(&self) -> Duration {
        self.state().elapsed
    }

    fn wall_clock(&self) -> f64 {
        self.now()
    }

    fn send(&self, message: Message) {
        self.state().sent.push(message);
    }

    fn start(&self, work: Work) {
        self.state().work.push(work);
    }

    fn read(&self, document: Document<'_>) -> Result<Option<Vec<u8>>> {
        match document {
            Document::Config(path) => bail!("{}: there are no such files here", path.display()),
            Document::PolicyState { path, bytes_max } => {
                let mut found = self.disk.document(path)?;
                if let Some(bytes) = &mut found {
                    bytes.truncate(usize::try_from(bytes_max).unwrap_or(usize::MAX));
                }
                Ok(found)
            }
        }
    }

    fn store(&self, store: Store<'_>) -> io::Result<()> {
        match store {
            Store::AuditTrail(..) => self.disk.trail(),
            Store::PolicyState(path, bytes) => self.disk.put_document(path, Some(bytes)),
            Store::NoPolicyState(path) => self.disk.put_document(path, None),
        }
    }

    fn journal(&self, options: &Options) -> Result<Writer, OpenError> {
        let (writer, appender) = Writer::on(Box::new(self.disk.clone()), options)?;
        self.state().appender = Some(appender);
        Ok(writer)
    }

    fn local_time(&self, time: f64) -> String {
        format!("at {time}")
    }

    fn next_occurrence(&self, every: &str, _: &str, after: f64) -> Result<f64> {
        Ok(after + fluxgate_formats::fsd::parse(every)?)
    }

    fn group_members(&self, group: &str) -> Result<BTreeSet<u32>> {
        let state = self.state();
        let groups = state.groups.as_ref().context("groups cannot be looked up")?;
        groups.get(group).cloned().with_context(|| format!("there is no group {group}"))
    }

    fn usage(&self, _: Usage) -> Result<Value> {
        Ok(json!({}))
    }

    fn set_log_level(&self, _: LevelFilter) -> Result<()> {
        Ok(())
    }
}

/// The outside of a service that is shared with the world.
pub type Shared = Arc<Outside>;
