//! Commands that find resources, book the allocation in a file, release part of one, and change the graph.
//!
//! This module must never know how matching works.

use std::collections::BTreeSet;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;

use crate::matching::{Matcher, Term};
use crate::render::Format;

use super::commands::number;
use super::matches::RULE;
use super::{Job, Said, Session, World};

impl Session {
    pub(super) fn find(&mut self, args: &[&str], said: &mut Said) {
        if args.is_empty() {
            return said.error("malformed command");
        }
        let text = args.join(" ");
        match self.matcher.find(&text) {
            Err(error) => said.error(error),
            Ok((found, usage)) => {
                let found = found.render_with(self.matcher.model(), self.format, &usage);
                if found.is_empty() && self.format == Format::Rlite {
                    return said.error("find: nothing found that this format can say");
                }
                said.result(found);
                said.result(format!("{RULE}INFO: EXPRESSION=\"{text}\"\n{RULE}"));
            }
        }
    }

    pub(super) fn update(&mut self, args: &[&str], world: &mut dyn World, said: &mut Said) {
        let [word, reader, path, id, start, long] = args else { return said.error("malformed command") };
        if !matches!(*word, "allocate" | "reserve") {
            return said.error(format!("unknown subcmd {word}"));
        }
        if !matches!(*reader, "jgf" | "jgf_shorthand" | "rv1exec") {
            return said.error(format!("unsupported reader {reader}"));
        }
        let Ok(text) = world.read(path) else { return said.error(format!("can't open {path}")) };
        let job = number(id);
        if self.is_held(job) {
            return said.error("existing Jobid ");
        }
        let time = |text: &str| text.parse::<i64>().unwrap_or(0);
        let (at, duration) = (time(start), time(long));
        if at < 0 || duration <= 0 {
            return said.error(format!("invalid time ({at}, {duration})"));
        }
        let started = world.seconds();
        let term = Term { job, start: at, end: at.saturating_add(duration), reserve: *word == "reserve" };
        let booked = match *reader {
            "rv1exec" => R::from_json(&text)
                .map_err(|e| e.to_string())
                .and_then(|r| self.matcher.claim_r(&r, term).map_err(|e| e.to_string())),
            reader => {
                let shorthand = reader == "jgf_shorthand";
                self.matcher.claim_jgf(&text, shorthand, term).map_err(|e| e.to_string())
            }
        };
        let seconds = world.seconds() - started;
        match booked {
            Err(error) => {
                said.error(format!("{path}: {error}"));
                said.result(format!("{RULE}INFO: No matching resources found\nINFO: JOBID={job}\n{RULE}"));
            }
            Ok(booked) => {
                said.result(booked.render(self.matcher.model(), self.format));
                let state = if at == 0 { "ALLOCATED" } else { "RESERVED" };
                self.say_booked(job, state, at, seconds, said);
                self.jobs.insert(job, Job { state, at, jobspec: (*path).to_owned(), seconds });
                self.time(seconds);
            }
        }
        self.next_job = job.saturating_add(1);
    }

    fn is_held(&self, job: u64) -> bool {
        self.jobs.get(&job).is_some_and(|job| matches!(job.state, "ALLOCATED" | "RESERVED"))
    }

    pub(super) fn partial_cancel(&mut self, args: &[&str], world: &mut dyn World, said: &mut Said) {
        let (id, reader, path, stats) = match args {
            [id, reader, path] => (id, reader, path, false),
            [id, reader, path, word] => (id, reader, path, *word == "stats"),
            _ => return said.error("malformed command"),
        };
        let job = number(id);
        if !matches!(*reader, "jgf" | "rv1exec") {
            return said.error(format!("unsupported reader {reader}"));
        }
        let Ok(text) = world.read(path) else { return said.error(format!("can't open {path}")) };
        match self.jobs.get(&job).map(|job| job.state) {
            Some("ALLOCATED") => {}
            Some("RESERVED") => {
                return said.error("reservations not currently supported by partial cancel");
            }
            _ => return said.error(format!("nonexistent job {job}")),
        }
        let released = match *reader {
            "rv1exec" => R::from_json(&text).map_err(|e| e.to_string()).and_then(|r| {
                let ranks = Matcher::ranks_of(&r);
                self.matcher.release_ranks(job, &ranks).map_err(|e| e.to_string())
            }),
            _ => self
                .matcher
                .named_by_jgf(&text)
                .map_err(|e| e.to_string())
                .and_then(|vertices| self.matcher.release(job, &vertices).map_err(|e| e.to_string())),
        };
        match released {
            Ok(false) => {}
            Ok(true) => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.state = "CANCELED";
                }
            }
            Err(error) => {
                said.error(format!("error encountered while removing job {job}"));
                said.reason(format!("{path}: {error}"));
            }
        }
        if stats {
            let (before, after) = self.matcher.visit_counts();
            said.result(format!(
                "{RULE}INFO: PARTIAL CANCEL PREORDER COUNT=\"{before}\"\n\
                 INFO: PARTIAL CANCEL POSTORDER COUNT=\"{after}\"\n{RULE}"
            ));
        }
    }

    pub(super) fn attach(&mut self, args: &[&str], world: &mut dyn World, said: &mut Said) {
        let [path] = args else { return said.error("malformed command") };
        let Ok(text) = world.read(path) else { return said.error(format!("can't open {path}")) };
        match self.matcher.attach(&text) {
            Ok(_) => self.types = super::types_of(self.matcher.model()),
            Err(error) => {
                said.error("can't attach JGF subgraph ");
                said.reason(format!("{path}: {error}"));
            }
        }
    }

    pub(super) fn remove(&mut self, args: &[&str], said: &mut Said) {
        let [target, is_path] = args else { return said.error("malformed command") };
        let removed = match *is_path {
            "true" => self.matcher.remove_path(target.trim_end_matches('/')),
            "false" => match target.parse::<Idset>() {
                Ok(ranks) => {
                    let ranks: BTreeSet<i64> = ranks.iter().map(i64::from).collect();
                    self.matcher.remove_ranks(&ranks)
                }
                Err(error) => return said.error(format!("failed to decode ranks: {error}")),
            },
            _ => return said.error("invalid path boolean input"),
        };
        if !removed {
            said.error(format!("can't remove subgraph: nothing below the root is at '{target}'"));
        }
    }
}
