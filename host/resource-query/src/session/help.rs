//! The help texts of the commands.
//!
//! This module must never know the implementation of a command.

use super::{Said, Stream};

/// Name, short name and description.
pub(super) const COMMANDS: [(&str, &str, &str); 16] = [
    (
        "match",
        "m",
        "match a jobspec: match SUBCOMMAND JOBSPEC, where the subcommand is allocate, allocate_orelse_reserve, allocate_with_satisfiability, satisfiability, without_allocating or without_allocating_future",
    ),
    ("multi-match", "M", "match several jobspecs one after another: multi-match SUBCOMMAND JOBSPEC..."),
    ("find", "f", "find resources: find EXPRESSION, such as 'status=down and sched-now=allocated'"),
    ("cancel", "c", "give back what a job holds: cancel JOBID [stats]"),
    ("partial-cancel", "pc", "give back part of it: partial-cancel JOBID (jgf|rv1exec) FILE [stats]"),
    (
        "update",
        "u",
        "book what a file says: update (allocate|reserve) (jgf|jgf_shorthand|rv1exec) FILE JOBID START DURATION",
    ),
    ("attach", "j", "add to the graph: attach JGF_FILE"),
    ("remove", "j", "take out of the graph: remove PATH true, or remove RANKS false"),
    ("set-property", "p", "give a resource a property: set-property PATH KEY=VALUE"),
    ("get-property", "g", "show the properties of a resource: get-property PATH"),
    ("set-status", "t", "set the state of a resource: set-status PATH (up|down)"),
    ("get-status", "e", "show the state of a resource: get-status PATH"),
    ("list", "l", "show all jobs"),
    ("info", "i", "show a job: info JOBID"),
    ("stat", "s", "show how long matching took"),
    ("quit", "q", "end the session"),
];

pub(super) fn help(args: &[&str], said: &mut Said) {
    let mut found = false;
    for (name, short, what) in COMMANDS {
        if args.first().is_none_or(|wanted| *wanted == name || *wanted == short) {
            found = true;
            said.say(Stream::Info, format!("INFO: {name} ({short}) -- {what}\n"));
        }
    }
    if let (false, Some(wanted)) = (found, args.first()) {
        said.say(Stream::Info, format!("ERROR: unknown command: {wanted}\n"));
    }
}
