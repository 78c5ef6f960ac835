//! Recount and audit: the allocations that the job manager counts.
//!
//! This module has the questions and answers only. The engine, which has the ledger, decides what follows from them.
//! [`super::watch`] determines when this happens. This module does not know the allocation of any job.

use std::collections::BTreeSet;

use fluxgate_engine::{AuditReport, Event};
use fluxgate_formats::{Idset, JobId, R};

use super::start::words;
use super::watch::{self, Question, Step};
use super::{Output, Session, SessionError};
use crate::dialect::{self, HelloAnswer, HelloJob};
use crate::message::Message;
use crate::proto::errno;

impl Session {
    /// The resources counted as allocated; see [`Event::Audit`].
    pub(super) fn ask_allocated(&mut self, second: bool, out: &mut Vec<Output>) {
        self.watch.unsettled.clear();
        self.tell_unread(out);
        let request = Message::request("job-manager.resource-status");
        self.watch.tag = self.put(request, Question::Allocated, out);
        self.step(Step::Count { second });
    }

    /// The jobs that hold resources; see [`Event::Recount`]. Always with partial-ok: without it the job manager would
    /// end jobs whose resources are released in part (R27-HELLO-9).
    pub(super) fn repeat_hello(&mut self, out: &mut Vec<Output>) {
        self.stats.rehellos += 1;
        self.watch.hello_jobs.clear();
        self.watch.unsettled.clear();
        self.watch.complete = true;
        let request = self.hello_request();
        self.watch.tag = self.put(request, Question::Hello, out);
        self.step(Step::Hello);
    }

    pub(super) fn on_hello_again(&mut self, message: &Message, out: &mut Vec<Output>) {
        let (errnum, text) = words(message);
        match errnum {
            0 => {}
            errno::ENODATA => return self.recount(out),
            _ if watch::gone(errnum) && self.watch.offline => return self.hello_later(errnum),
            _ if watch::gone(errnum) => return self.go_offline("the job manager is gone", out),
            _ => return self.fatal(SessionError::Hello { errnum, text }, out),
        }
        let answer = message.json().map_err(|error| error.to_string());
        match answer.and_then(|payload| dialect::hello_answer(&payload).map_err(|error| error.to_string())) {
            Ok(HelloAnswer::Job(job)) => drop(self.watch.hello_jobs.insert(job.id, job)),
            Ok(HelloAnswer::All(jobs)) => {
                self.asked.remove(&message.matchtag());
                self.watch.hello_jobs = jobs.into_iter().map(|job| (job.id, job)).collect();
                self.recount(out);
            }
            Err(error) => {
                // An unknown job keeps its resources.
                self.watch.complete = false;
                self.malformed(message, &error);
            }
        }
    }

    fn recount(&mut self, out: &mut Vec<Output>) {
        self.step(Step::Recount);
        let jobs = self.watch.hello_jobs.values().map(|job| (job.id, job.free.clone())).collect();
        let unsettled = std::mem::take(&mut self.watch.unsettled);
        out.push(Output::Engine(Event::Recount { jobs, unsettled, complete: self.watch.complete }));
    }

    pub(super) fn on_recounted(
        &mut self,
        unknown: Vec<JobId>,
        released: &[(JobId, Option<Idset>)],
        out: &mut Vec<Output>,
    ) {
        if self.watch.step != Step::Recount {
            return;
        }
        for (id, ranks) in released {
            self.stats.reclaimed += 1;
            let ranks = ranks.as_ref().map_or_else(|| "all".to_owned(), Idset::to_string);
            fluxgate_log::log!(Released, job = %id, ranks, "released: the job manager has it as free");
        }
        let given_up = |id: &JobId| released.iter().any(|(job, ranks)| job == id && ranks.is_none());
        self.watch.blame(given_up);
        let mut hello_jobs = std::mem::take(&mut self.watch.hello_jobs);
        if self.watch.complete {
            let hold: BTreeSet<&JobId> = unknown.iter().collect();
            self.watch.unread.retain(|id| hold.contains(id));
            self.tell_unread(out);
        }
        // An R that could not be taken is not looked up again while the job manager is there: each time the job would get the
        // exception anew.
        let known = |id: &&JobId| self.watch.offline || !self.watch.unread.is_refused(**id);
        let unknown = unknown.iter().filter(known);
        let unknown: Vec<HelloJob> = unknown.filter_map(|id| hello_jobs.remove(id)).collect();
        self.stats.adopted += unknown.len() as u64;
        self.step(Step::Lookup);
        self.hello.again();
        for job in unknown {
            self.hello_lookup(job, out);
        }
        self.hello_progress(out);
    }

    /// All jobs of hello are known.
    pub(super) fn recounted(&mut self, out: &mut Vec<Output>) {
        if self.watch.offline {
            self.send_ready(out);
            self.watch.tag = self.last_tag;
            self.step(Step::Ready);
        } else if self.audits() {
            self.ask_allocated(true, out);
        } else {
            self.watch.step = Step::Idle;
        }
    }

    pub(super) fn on_allocated(&mut self, message: &Message, out: &mut Vec<Output>) {
        let Step::Count { second } = self.watch.step else { return };
        // The engine may have refused an R since the question.
        self.tell_unread(out);
        let (errnum, text) = words(message);
        match errnum {
            0 => {}
            _ if watch::gone(errnum) && self.watch.auditing == Some(true) => {
                return self.go_offline("the job manager is gone", out);
            }
            errno::ENOSYS => {
                if self.watch.auditing.is_none() {
                    fluxgate_log::log!(NoAudits, "the job manager does not tell what it counts: no audits");
                }
                self.watch.auditing = Some(false);
                self.watch.unread.clear();
                self.tell_unread(out);
                return self.audited(true);
            }
            // The job manager could not sum up its own jobs: two of them hold the same resource.
            errno::EINVAL if second => {
                return self.differs(format!("the job manager says: {text}"), None, out);
            }
            errno::EINVAL => return self.repeat_hello(out),
            _ => {
                fluxgate_log::log!(NoCount, errnum, text, "no count from the job manager");
                return self.audited(true);
            }
        }
        let theirs = message.json().map_err(|error| error.to_string()).and_then(|payload| {
            let r = payload.get("allocated").ok_or("field `allocated`: found nothing, expected R")?;
            R::from_value(r).map_err(|error| format!("field `allocated`: {error}"))
        });
        match theirs {
            Ok(theirs) => {
                self.watch.auditing = Some(true);
                self.step(Step::Audit { second });
                let unsettled = std::mem::take(&mut self.watch.unsettled);
                let (theirs, within) = (Box::new(theirs), self.ranks.clone());
                out.push(Output::Engine(Event::Audit { theirs, unsettled, within }));
            }
            Err(error) => {
                self.malformed(message, &error);
                self.audited(true);
            }
        }
    }

    pub(super) fn on_audited(&mut self, report: AuditReport, out: &mut Vec<Output>) {
        let Step::Audit { second } = self.watch.step else { return };
        self.stats.audits += 1;
        if report.agrees() {
            if self.watch.state.agrees == Some(false) {
                fluxgate_log::log!(CountsAgree, "the job manager's count and ours agree again");
            }
            self.withhold(Idset::new(), out);
            self.watch.state.agrees = Some(true);
            self.watch.state.text.clear();
            // The nodes of an unread job may all be lost to the inventory, and not be counted.
            return if second || self.watch.unread.is_empty() {
                self.audited(true);
            } else {
                self.repeat_hello(out);
            };
        }
        if second {
            return self.differs(report.text, Some(report.theirs), out);
        }
        // Ranks that may belong to a job are not used until hello has named the job.
        let both = self.watch.state.withheld.union(&report.theirs);
        self.withhold(both, out);
        self.repeat_hello(out);
    }

    fn differs(&mut self, text: String, foreign: Option<Idset>, out: &mut Vec<Output>) {
        self.stats.audit_differences += 1;
        if self.watch.state.text != text {
            fluxgate_log::log!(CountsDiffer, "the job manager's count and ours differ: {text}");
        }
        self.watch.state.agrees = Some(false);
        self.watch.state.text = text;
        if let Some(foreign) = foreign {
            self.withhold(foreign, out);
        }
        self.audited(false);
    }

    fn audited(&mut self, agrees: bool) {
        self.counted();
        self.watch.step = Step::Idle;
        let agrees = agrees && self.watch.unread.is_empty();
        let (period, most) = (self.config.watch.as_secs_f64(), self.config.audit.as_secs_f64());
        self.watch.recheck = if agrees { 0.0 } else { (self.watch.recheck * 2.0).max(period).min(most) };
        self.watch.next_audit = self.watch.now + if agrees { most } else { self.watch.recheck };
    }

    /// Exactly these ranks are withheld, that is, down by decision of the session.
    fn withhold(&mut self, ranks: Idset, out: &mut Vec<Output>) {
        let ranks = ranks.intersection(&self.ranks);
        let before = std::mem::replace(&mut self.watch.state.withheld, ranks.clone());
        let (down, up) = (ranks.difference(&before), before.difference(&ranks));
        let sets = [(down, Event::Down as fn(_) -> _), (up, Event::Up)];
        for (ranks, event) in sets {
            let ranks = ranks.intersection(&self.watch.up);
            if !ranks.is_empty() {
                out.push(Output::Engine(event(ranks)));
            }
        }
    }
}
