//! The scheduler's journal: opened when the schedule begins, with counters in `stats-get`.
//!
//! A journal that cannot be opened is logged and left out: scheduling goes on without. This module must never change a
//! decision.

use fluxgate_journal::{Options, Recorded, Writer};
use serde_json::{Value, json};

use super::Service;
use crate::host::Host;
use crate::settings::Settings;

/// The writer that the settings ask for.
pub(super) fn open(settings: &Settings, host: &dyn Host) -> Option<Writer> {
    let options = Options { bytes_max: settings.journal_size, ..Options::new(settings.journal.as_ref()?) };
    match host.journal(&options) {
        Ok(writer) => {
            fluxgate_log::log!(
                JournalOpened,
                "journal: {}, at most {} bytes",
                options.dir.display(),
                options.bytes_max
            );
            Some(writer)
        }
        Err(error) => {
            fluxgate_log::log!(NoJournal, "there will be no journal: {error}");
            None
        }
    }
}

impl Service {
    /// Between two passes: a checkpoint, if the journal wants one; `waiting` when there are messages that were not taken in yet.
    pub(super) fn keep_journal(&mut self, waiting: bool) {
        let (quiet, now) = (!waiting && !self.needs_pass(), self.host.now());
        let Some(engine) = &mut self.engine else { return };
        let actions = engine.keep_journal(quiet, now);
        if !actions.is_empty() {
            self.actions(actions);
            self.carry_out(Vec::new());
        }
    }
}

/// Counters for `stats-get`; null without a journal.
pub(super) fn figures(engine: &Recorded) -> Value {
    let Some(figures) = engine.figures() else { return Value::Null };
    json!({
        "records": figures.records, "bytes": figures.bytes, "dropped": figures.dropped, "gaps": figures.gaps,
        "waiting": figures.waiting, "size": figures.size, "files": figures.files, "trouble": figures.trouble,
    })
}
