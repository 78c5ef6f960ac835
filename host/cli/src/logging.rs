//! Where log lines go: to standard error, and from a scheduler also to its broker, so that `flux dmesg` shows
//! them to administrators.
//!
//! Lines for the broker are queued here and sent by the scheduler's loop. The queue is bounded: the number of lines that did
//! not fit is appended to a later one. This module must never know a socket.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use fluxgate_wire::logging::Severity;
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Most lines that wait to be sent.
const LINES_MAX: usize = 4096;

/// A line for the broker's log.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) severity: Severity,
    pub(crate) text: String,
}

/// The scheduler's end of the queue.
#[derive(Debug)]
pub(crate) struct Lines(mpsc::Receiver<Line>);

impl Lines {
    /// The next line; waits for ever when there is none.
    pub(crate) async fn recv(&mut self) -> Option<Line> {
        self.0.recv().await
    }

    /// The next line that is there.
    pub(crate) fn try_recv(&mut self) -> Option<Line> {
        self.0.try_recv().ok()
    }
}

static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Log to standard error.
pub(crate) fn to_stderr() {
    tracing_subscriber::registry().with(stderr_layer()).init();
}

/// Log to the broker, at level info until [`set_broker_level`] says otherwise, and with `stderr` to standard
/// error as well: a module's standard error is the broker's own.
pub(crate) fn to_broker(stderr: bool) -> Lines {
    let (sender, receiver) = mpsc::channel(LINES_MAX);
    let (filter, handle) = reload::Layer::new(LevelFilter::INFO);
    let forward = Forward { lines: sender, lost: AtomicU64::new(0) };
    let _ = LEVEL.set(handle);
    tracing_subscriber::registry().with(forward.with_filter(filter)).with(stderr.then(stderr_layer)).init();
    Lines(receiver)
}

fn stderr_layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let filter = EnvFilter::try_from_env("FLUXGATE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(filter)
}

/// From which level on lines go to the broker.
///
/// # Errors
/// The logger is gone.
pub(crate) fn set_broker_level(level: LevelFilter) -> Result<()> {
    // Without a broker there is nothing to set.
    let Some(handle) = LEVEL.get() else { return Ok(()) };
    handle.reload(level).map_err(|error| anyhow!("log-level: {error}"))
}

struct Forward {
    lines: mpsc::Sender<Line>,
    lost: AtomicU64,
}

impl<S: Subscriber> Layer<S> for Forward {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        // The libraries' own lines are of no use to an administrator.
        if !meta.target().starts_with("fluxgate") {
            return;
        }
        let severity = match *meta.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Info,
            Level::DEBUG | Level::TRACE => Severity::Debug,
        };
        let mut text = Text::default();
        event.record(&mut text);
        text.message.push_str(&text.fields);
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = write!(text.message, " [{lost} lines before this one were lost]");
        }
        if self.lines.try_send(Line { severity, text: text.message }).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// `message key=value key=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_as_a_person_reads_them_and_lost_ones_are_counted() {
        let (sender, mut lines) = mpsc::channel(2);
        let forward = Forward { lines: sender, lost: AtomicU64::new(0) };
        let subscriber = tracing_subscriber::registry().with(forward);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "fluxgate::x", policy = "easy", count = 2, "ready: {}", "rank0/core0");
            tracing::warn!(target: "wasmtime::y", "not ours");
            tracing::error!(target: "fluxgate_wire", "second");
            tracing::error!(target: "fluxgate_wire", "third");
            tracing::error!(target: "fluxgate_wire", "fourth");
            let first = lines.try_recv().unwrap();
            assert_eq!(first.text, "ready: rank0/core0 policy=easy count=2");
            assert_eq!(first.severity, Severity::Info);
            tracing::error!(target: "fluxgate_wire", "fifth");
        });
        assert_eq!(lines.try_recv().unwrap().text, "second");
        assert_eq!(lines.try_recv().unwrap().text, "fifth [2 lines before this one were lost]");
        assert!(lines.try_recv().is_err());
    }

    #[test]
    fn what_a_policy_logs_goes_to_the_broker() {
        let (sender, mut lines) = mpsc::channel(2);
        let forward = Forward { lines: sender, lost: AtomicU64::new(0) };
        let subscriber = tracing_subscriber::registry().with(forward);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: fluxgate_policy::LOG_TARGET, policy = "mine", "few nodes");
        });
        let line = lines.try_recv().unwrap();
        assert_eq!((line.severity, line.text.as_str()), (Severity::Warning, "few nodes policy=mine"));
    }
}
