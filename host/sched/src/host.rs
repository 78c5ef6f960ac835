//! The one door between the service and everything outside of it: clocks, the broker, work done elsewhere, files.
//!
//! All that can differ between two runs comes through this trait. Must never know what the service does with it.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use fluxgate_journal::{OpenError, Options, Writer};
use fluxgate_wire::message::Message;
use serde_json::Value;
use tracing::level_filters::LevelFilter;

use crate::work::Work;

/// The interface of a service to the outside. Work items are handed the same host and may use everything but
/// [`Host::send`] and [`Host::start`].
pub trait Host: Send + Sync {
    /// The time on the clock of the instance, seconds since the epoch. The service accepts a clock that is set back.
    fn now(&self) -> f64;

    /// Real time since the host began, whatever the speed of the instance's clock. Never goes back.
    fn elapsed(&self) -> Duration;

    /// Real time, seconds since the epoch. It goes into the audit trail and reports, and no decision depends on it.
    fn wall_clock(&self) -> f64;

    /// Sends a message to the broker. A message that cannot be sent is dropped: a connection that is lost shows when it is
    /// read.
    fn send(&self, message: Message);

    /// Has this work done, now or later; its result goes to [`Service::finished`](crate::Service::finished).
    fn start(&self, work: Work);

    /// Reads a document; `None` if a policy has no state.
    ///
    /// # Errors
    /// The reason for which the document cannot be read.
    fn read(&self, document: Document<'_>) -> Result<Option<Vec<u8>>>;

    /// Stores a document or adds to one. It is on the disk when this returns.
    ///
    /// # Errors
    /// The error of the file system.
    fn store(&self, store: Store<'_>) -> io::Result<()>;

    /// Opens the journal, and begins to write its entries.
    ///
    /// # Errors
    /// As [`Writer::open`].
    fn journal(&self, options: &Options) -> Result<Writer, OpenError>;

    /// A time, in seconds since the epoch, in words and in the time zone of the people who read it.
    fn local_time(&self, time: f64) -> String;

    /// The next time after `after` by a rule (`hourly`, `daily`, `weekly`, `weekdays`, `weekend`, or a duration in RFC 23), in a
    /// time zone of this name. All times are seconds since the epoch.
    ///
    /// # Errors
    /// The rule or the zone is not known.
    fn next_occurrence(&self, every: &str, zone: &str, after: f64) -> Result<f64>;

    /// The users of a group of this name. May take long: it is asked for by work, never by the service itself.
    ///
    /// # Errors
    /// There is no such group, or the directory of users does not answer.
    fn group_members(&self, group: &str) -> Result<BTreeSet<u32>>;

    /// The resources that the process has used so far (RFC 5 `rusage`).
    ///
    /// # Errors
    /// The error of the operating system.
    fn usage(&self, of: Usage) -> Result<Value>;

    /// The memory of this process now, in bytes, and the number of its open files; 0 for an unknown number.
    fn process_size(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Sets the least serious level of the lines that go to the broker's log.
    ///
    /// # Errors
    /// There is no log any more.
    fn set_log_level(&self, level: LevelFilter) -> Result<()>;
}

/// A document that a host reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document<'a> {
    /// A configuration file, as text. Of a file longer than [`CONFIG_BYTES_MAX`](crate::settings::CONFIG_BYTES_MAX) at least one byte
    /// more than that is read, so that it is refused.
    Config(&'a Path),
    /// The state of a policy. It is refused unless it belongs to the user of this process and no other user may write
    /// it.
    PolicyState {
        /// Its file.
        path: &'a Path,
        /// Most bytes that are read; the rest is left out.
        bytes_max: u64,
    },
}

/// A document that a host stores, or a change of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Store<'a> {
    /// An entry is appended to the audit trail in this file.
    AuditTrail(&'a Path, &'a Value),
    /// The state of a policy is replaced as a whole, and its folder made if need be. Only its owner can read it.
    PolicyState(&'a Path, &'a [u8]),
    /// The state of a policy is removed.
    NoPolicyState(&'a Path),
}

/// The process or thread that a request for resource usage is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// The process itself.
    Process,
    /// Its children that ended.
    Children,
    /// The thread that asks.
    Thread,
}
