//! The match commands and their output.
//!
//! This module must never know how a command line is parsed.

use std::fmt::Write as _;

use fluxgate_formats::jobspec::{Checks, Jobspec, Resource};

use crate::matching::{Miss, Op};

use super::{Job, Said, Session, Stream, World};

/// The longest duration that the planner's time can represent.
const SECONDS_MAX: f64 = 9e18;
pub(super) const RULE: &str = "INFO: =============================\n";

/// The outcome of a match.
struct Outcome {
    op: Op,
    job: u64,
    at: Option<i64>,
    unsatisfiable: bool,
    seconds: f64,
}

impl Session {
    pub(super) fn match_one(&mut self, args: &[&str], world: &mut dyn World, said: &mut Said) {
        let [op, path] = args else { return said.error("malformed command") };
        let Some(op) = Op::parse(op) else { return said.error(format!("unknown subcmd {op}")) };
        self.match_file(op, path, world, said);
    }

    pub(super) fn match_many(&mut self, args: &[&str], world: &mut dyn World, said: &mut Said) {
        let [op, paths @ ..] = args else { return said.error("malformed command") };
        if paths.len() < 2 {
            return said.error("malformed command");
        }
        let Some(op) = Op::parse(op) else { return said.error(format!("unknown subcmd {op}")) };
        for path in paths {
            if !self.match_file(op, path, world, said) {
                break;
            }
        }
    }

    /// Matches the jobspec of a file; false if it was not matched.
    fn match_file(&mut self, op: Op, path: &str, world: &mut dyn World, said: &mut Said) -> bool {
        let text = match world.read(path) {
            Ok(text) => text,
            Err(_) => {
                said.error(format!("can't open {path}"));
                return true;
            }
        };
        let job = self.next_job;
        let started = world.seconds();
        let mut outcome = Outcome { op, job, at: None, unsatisfiable: false, seconds: 0.0 };
        match Jobspec::from_yaml_with(&text, Checks::Scheduling) {
            Err(error) => said.say(Stream::Error, jobspec_error(job, &format!("{path}: {error}"))),
            Ok(jobspec) if jobspec.duration() > SECONDS_MAX => {
                let wrong = format!(
                    "{path}: jobspec: attributes.system.duration: found {:e}, expected {SECONDS_MAX:e} seconds or fewer",
                    jobspec.duration()
                );
                said.say(Stream::Error, jobspec_error(job, &wrong));
            }
            Ok(jobspec) => {
                let unknown = self.unknown_type(&jobspec.resources);
                if let Some(type_) = unknown {
                    let known = "Value of \"type\" must be a resource type known to fluxion";
                    said.say(Stream::Error, jobspec_error(job, known));
                    said.reason(format!("{path}: nothing in this graph is of the type '{type_}'"));
                }
                let numbered = op.books() && unknown.is_none();
                let request = self.matcher.compile(&jobspec);
                let result = self.matcher.run(&request, op, job, 0);
                let messages = self.matcher.take_messages();
                if !messages.is_empty() {
                    said.say(Stream::Error, format!("ERROR: {messages}"));
                }
                match &result {
                    Ok(matched) => {
                        outcome.at = Some(matched.at);
                        said.result(matched.booked.render(self.matcher.model(), self.format));
                    }
                    Err(miss) => outcome.unsatisfiable = *miss == Miss::Unsatisfiable,
                }
                if numbered && !matches!(result, Err(Miss::Invalid)) {
                    self.next_job += 1;
                }
            }
        }
        outcome.seconds = world.seconds() - started;
        if op == Op::Satisfiability {
            self.say_satisfiable(&outcome, said);
        } else {
            self.say_scheduled(&outcome, path, said);
        }
        outcome.at.is_some()
    }

    /// The first type that is not known.
    fn unknown_type<'j>(&self, resources: &'j [Resource]) -> Option<&'j str> {
        resources.iter().find_map(|it| match self.types.contains(&it.type_) {
            true => self.unknown_type(&it.with),
            false => Some(it.type_.as_str()),
        })
    }

    fn say_satisfiable(&self, outcome: &Outcome, said: &mut Said) {
        let word = if outcome.unsatisfiable { "Unsatisfiable" } else { "Satisfiable" };
        said.result(format!("{RULE}INFO: {word} request\n{RULE}"));
        self.say_elapsed(outcome.seconds, Stream::Info, said);
    }

    fn say_scheduled(&mut self, outcome: &Outcome, path: &str, said: &mut Said) {
        let job = outcome.job;
        let Some(at) = outcome.at else {
            let mut text = format!("{RULE}INFO: No matching resources found\n");
            if outcome.unsatisfiable {
                text += "INFO: Unsatisfiable request\n";
            }
            let _ = writeln!(text, "INFO: JOBID={job}");
            said.result(text);
            self.say_elapsed(outcome.seconds, Stream::Result, said);
            return said.result(RULE);
        };
        let books = outcome.op.books();
        let state = if at == 0 { "ALLOCATED" } else { "RESERVED" };
        self.say_booked(job, if books { state } else { "MATCHED" }, at, outcome.seconds, said);
        if books {
            let seconds = outcome.seconds;
            self.jobs.insert(job, Job { state, at, jobspec: path.to_owned(), seconds });
            self.time(seconds);
        }
    }

    /// Reports the selection of a job.
    pub(super) fn say_booked(&self, job: u64, word: &str, at: i64, seconds: f64, said: &mut Said) {
        let when = if at == 0 { "Now".to_owned() } else { at.to_string() };
        said.result(format!("{RULE}INFO: JOBID={job}\nINFO: RESOURCES={word}\nINFO: SCHEDULED AT={when}\n"));
        self.say_elapsed(seconds, Stream::Info, said);
        said.result(RULE);
    }

    fn say_elapsed(&self, seconds: f64, stream: Stream, said: &mut Said) {
        if !self.elapse {
            return;
        }
        let (before, after) = self.matcher.visit_counts();
        said.say(stream, format!("INFO: ELAPSE={seconds:.6}\n"));
        said.say(
            Stream::Info,
            format!("INFO: PREORDER VISIT COUNT={before}\nINFO: POSTORDER VISIT COUNT={after}\n"),
        );
    }

    pub(super) fn time(&mut self, seconds: f64) {
        let (least, most, all) = self.times;
        self.times = (least.min(seconds), most.max(seconds), all + seconds);
    }
}

fn jobspec_error(job: u64, what: &str) -> String {
    format!("match_allocate: ERROR: Jobspec error for {job}: {what}\n")
}
