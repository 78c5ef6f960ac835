//! Figures of the conversation with the job manager, of the journal, of forecasts, and of the process.
//!
//! Must never decide anything.

use super::Service;
use crate::host::Usage;
use crate::openmetrics::{Kind, Page};

impl Service {
    pub(super) fn session_page(&self, page: &mut Page) {
        let stats = self.session.stats();
        for (name, help, value) in [
            ("session_teardowns", "Times that the job manager went offline or away.", stats.teardowns),
            ("session_handshakes", "Handshakes with the job manager after the first.", stats.rehellos),
            ("session_malformed", "Payloads, or fields of them, that could not be read.", stats.malformed),
            ("session_unexpected", "Messages that make no sense at their time.", stats.unexpected),
            ("session_hello_jobs", "Jobs that held resources at a handshake.", stats.hello_jobs),
            (
                "session_hello_lost",
                "Of these, jobs whose resources could not be determined.",
                stats.hello_lost,
            ),
            ("session_allocs", "Requests for resources, with repeated ones.", stats.allocs),
            ("session_allocs_repeated", "Requests of jobs that were being started.", stats.allocs_repeated),
            ("session_started", "Answers that a job has its resources.", stats.started),
            ("session_denied", "Answers that a job can never have its resources.", stats.denied),
            ("session_canceled", "Answers that a request was canceled.", stats.canceled),
            ("session_annotated", "Annotations sent.", stats.annotated),
            ("session_cancels_ignored", "Cancels of jobs that did not wait any more.", stats.cancels_ignored),
            ("session_frees", "Resources given back, whole or in part.", stats.frees),
            ("session_resource_updates", "Changes of the machine.", stats.resource_updates),
            ("session_reclaimed", "Jobs whose resources had been released without a word.", stats.reclaimed),
            ("session_adopted", "Jobs that held resources without a word.", stats.adopted),
            ("commits", "Allocations committed to the KVS.", stats.commits),
            ("audits", "Comparisons with the job manager's count.", stats.audits),
            ("audit_differences", "Differences that such comparisons found.", stats.audit_differences),
            ("feasibility_checks", "Questions whether a job could ever start.", {
                stats.feasibility_checks + self.responder.answered()
            }),
            ("requests_refused", "Requests of guests that were refused.", stats.guests_refused),
            ("requests_unknown", "Requests for methods that do not exist.", stats.unknown_methods),
            (
                "requests_put_off",
                "Requests refused since too many of their sender wait.",
                self.responder.refused(),
            ),
        ] {
            page.family(name, Kind::Counter, "", help).total(&[], value as f64);
        }
        let help = "Requests of people and programs that were served, by method and role, without those to the services of the graph scheduler.";
        let mut family = page.family("requests", Kind::Counter, "", help);
        for (method, counts) in self.request_counts.rows() {
            for (role, count) in counts {
                family.total(&[("method", method), ("role", role)], count as f64);
            }
        }
        let help = "Time in which the job manager was not served.";
        page.family("session_offline_seconds", Kind::Counter, "seconds", help)
            .total(&[], self.offline_seconds());
        let help = "Nodes that are not used because the job manager counts an allocation there that is not known here.";
        let withheld = self.session.audit().withheld.len();
        page.family("audit_withheld_nodes", Kind::Gauge, "", help).gauge(&[], withheld as f64);
        let help = "Waiting jobs that were told an expected start.";
        let told = self.forecasts.told();
        page.family("forecasts_told", Kind::Gauge, "", help).gauge(&[], told as f64);
    }

    pub(super) fn journal_page(&self, page: &mut Page) {
        let Some(figures) = self.engine.as_ref().and_then(|engine| engine.figures()) else { return };
        let help = "Size of the journal's files.";
        page.family("journal_bytes", Kind::Gauge, "bytes", help).gauge(&[], figures.size as f64);
        let help = "Files of the journal.";
        page.family("journal_files", Kind::Gauge, "", help).gauge(&[], figures.files as f64);
        let help = "Records that are not written yet.";
        page.family("journal_waiting", Kind::Gauge, "", help).gauge(&[], figures.waiting as f64);
        for (name, help, value) in [
            ("journal_records", "Records written to the journal.", figures.records),
            ("journal_written_bytes", "Bytes written to the journal.", figures.bytes),
            ("journal_dropped", "Records that could not be written to the journal.", figures.dropped),
            ("journal_gaps", "Places of the journal at which records are missing.", figures.gaps),
        ] {
            page.family(name, Kind::Counter, "", help).total(&[], value as f64);
        }
    }

    /// Figures of the process, with the names that all processes have.
    pub(super) fn process_page(&self, page: &mut Page) {
        let Ok(usage) = self.host.usage(Usage::Process) else { return };
        let number = |key: &str| usage[key].as_f64().unwrap_or_default();
        let help = "Processor time of the process.";
        page.plain("process_cpu_seconds", Kind::Counter, "seconds", help)
            .total(&[], number("utime") + number("stime"));
        let help = "Most memory that the process has had.";
        let peak = number("maxrss") * 1024.0;
        page.plain("process_resident_memory_peak_bytes", Kind::Gauge, "bytes", help).gauge(&[], peak);
        let (resident, files) = self.host.process_size();
        let help = "Memory of the process now.";
        page.plain("process_resident_memory_bytes", Kind::Gauge, "bytes", help).gauge(&[], resident as f64);
        let help = "Files and sockets that the process has open.";
        page.plain("process_open_fds", Kind::Gauge, "", help).gauge(&[], files as f64);
        let help = "When the process began, since the epoch.";
        page.plain("process_start_time_seconds", Kind::Gauge, "seconds", help).gauge(&[], self.began);
    }
}
