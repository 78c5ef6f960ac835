//! Destinations of log lines: standard error, and for a scheduler also its broker, so that `flux dmesg` shows
//! them to administrators.
//!
//! Lines for the broker are queued here and sent by the scheduler's loop. The queue is bounded: the number of lines that did
//! not fit is appended to a later one. This module must never know a socket.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use fluxgate_wire::logging::Severity;
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::journald::Journal;

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

/// Environment variables for lines on standard error: their least level, and their format, `json` or `text`.
const LEVELS: &str = "FLUXGATE_LOG";
const FORMAT: &str = "FLUXGATE_LOG_FORMAT";

/// Standard error; or, where that is a stream of systemd's journal, the journal itself, which takes fields.
fn stderr_layer<S>() -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let filter = EnvFilter::try_from_env(LEVELS).unwrap_or_else(|_| EnvFilter::new("info"));
    let format = std::env::var(FORMAT).unwrap_or_default();
    let layer = match (format.as_str(), Journal::of_stderr()) {
        ("json", _) => json_layer(io::stderr),
        ("" | "text", Some(journal)) => Fields(journal).boxed(),
        _ => text_layer(io::stderr, io::stderr().is_terminal()),
    };
    if !matches!(format.as_str(), "" | "text" | "json") {
        // There is no log yet, and a wrong format must not stop the scheduler.
        let _ = writeln!(io::stderr(), "fluxgate: {FORMAT}: expected text or json, found {format:?}");
    }
    layer.with_filter(filter).boxed()
}

/// An object a line, with `id` beside `message`.
fn json_layer<S, W>(writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(writer).boxed()
}

fn text_layer<S, W>(writer: W, ansi: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt::layer().fmt_fields(People).with_ansi(ansi).with_writer(writer).boxed()
}

/// The fields of a line as [`Text`] puts them.
struct People;

impl<'w> FormatFields<'w> for People {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> std::fmt::Result {
        let mut text = Text::default();
        fields.record(&mut text);
        writer.write_str(&text.line())
    }
}

/// Lines as systemd's journal takes them.
struct Fields(Journal);

impl<S: Subscriber> Layer<S> for Fields {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        // There is no other place to report that the journal does not keep up.
        let _ = self.0.send(severity(*event.metadata().level()), &text.journal_id, &text.line());
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        Level::INFO => Severity::Info,
        Level::DEBUG | Level::TRACE => Severity::Debug,
    }
}

/// Sets the least level of the lines for the broker.
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
        let mut text = Text::default();
        event.record(&mut text);
        let mut text = text.line();
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = write!(text, " [{lost} lines before this one were lost]");
        }
        if self.lines.try_send(Line { severity: severity(*meta.level()), text }).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// `ID message key=value key=value`.
#[derive(Default)]
struct Text {
    id: String,
    journal_id: String,
    message: String,
    fields: String,
}

impl Text {
    fn line(&self) -> String {
        let gap = if self.id.is_empty() { "" } else { " " };
        format!("{}{gap}{}{}", self.id, self.message, self.fields)
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            fluxgate_log::ID => write!(self.id, "{value:?}"),
            fluxgate_log::JOURNAL_ID => write!(self.journal_id, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

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
    /// Somewhere to write that can be read.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn feat_96_ids_stand_in_front_of_lines_and_in_json() {
        let (text, object) = (Shared::default(), Shared::default());
        let (sender, mut lines) = mpsc::channel(2);
        let (for_text, for_object) = (text.clone(), object.clone());
        let subscriber = tracing_subscriber::registry()
            .with(Forward { lines: sender, lost: AtomicU64::new(0) })
            .with(text_layer(move || for_text.clone(), false))
            .with(json_layer(move || for_object.clone()));
        tracing::subscriber::with_default(subscriber, || {
            fluxgate_log::log!(PolicyFailed, policy = "mine", queue = "pbatch", "policy failed");
            tracing::debug!("without an id");
        });
        let line = "FG-1203 policy failed policy=mine queue=pbatch";
        let sent = lines.try_recv().unwrap();
        assert_eq!((sent.severity, sent.text.as_str()), (Severity::Error, line));
        let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
        let mut text = text.lines();
        assert!(text.next().unwrap().ends_with(&format!("ERROR fluxgate::logging::tests: {line}")));
        assert!(text.next().unwrap().ends_with("DEBUG fluxgate::logging::tests: without an id"));
        let object = object.0.lock().unwrap().clone();
        let object: serde_json::Value =
            serde_json::from_slice(object.split(|b| *b == b'\n').next().unwrap()).unwrap();
        assert_eq!(object["id"], "FG-1203");
        assert_eq!(object["message"], "policy failed");
        assert_eq!(object["level"], "ERROR");
        assert_eq!(object["queue"], "pbatch");
    }
}
