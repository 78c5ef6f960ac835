//! The parser of command lines, and the short commands.
//!
//! This module must never know how matching works.

use fluxgate_graph::description::{State, VertexId};

use super::help::{COMMANDS, help};
use super::matches::RULE;
use super::{Said, Session, Stream, World};

impl Session {
    /// Executes a line. The errors of a command are text of its answer. Other lines, such as comments, are ignored and have an
    /// empty answer.
    pub fn obey(&mut self, line: &str, world: &mut dyn World) -> Said {
        let mut said = Said::default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((command, args)) = words.split_first() else { return said };
        let known = COMMANDS.iter().find(|(name, short, _)| command == name || command == short);
        match known.map_or(*command, |(name, ..)| name) {
            "match" => self.match_one(args, world, &mut said),
            "multi-match" => self.match_many(args, world, &mut said),
            "find" => self.find(args, &mut said),
            "update" => self.update(args, world, &mut said),
            "attach" => self.attach(args, world, &mut said),
            "remove" => self.remove(args, &mut said),
            "cancel" => self.cancel(args, &mut said),
            "partial-cancel" => self.partial_cancel(args, world, &mut said),
            "set-property" => self.set_property(args, &mut said),
            "get-property" => self.get_property(args, &mut said),
            "set-status" => self.set_status(args, &mut said),
            "get-status" => self.get_status(args, &mut said),
            "list" => self.list(&mut said),
            "info" => self.info(args, &mut said),
            "stat" => self.stat(args, &mut said),
            "cat" | "a" => cat(args, world, &mut said),
            "help" | "h" => help(args, &mut said),
            "quit" => said.quit = true,
            _ => {}
        }
        said
    }

    fn cancel(&mut self, args: &[&str], said: &mut Said) {
        let (id, stats) = match args {
            [id] => (id, false),
            [id, word] => (id, *word == "stats"),
            _ => return said.error("malformed command"),
        };
        let job = number(id);
        let held = |job: &super::Job| matches!(job.state, "ALLOCATED" | "RESERVED");
        if !self.jobs.get(&job).is_some_and(held) {
            return said.say(Stream::Error, format!("cancel: ERROR: nonexistent job {job}\n"));
        }
        if let Err(error) = self.matcher.cancel(job) {
            let text = format!("cancel: ERROR: error encountered while removing job {job}\n");
            said.say(Stream::Error, text);
            return said.reason(error);
        }
        if let Some(job) = self.jobs.get_mut(&job) {
            job.state = "CANCELED";
        }
        if stats {
            let (before, after) = self.matcher.visit_counts();
            said.result(format!(
                "{RULE}INFO: CANCEL PREORDER COUNT=\"{before}\"\nINFO: CANCEL POSTORDER COUNT=\"{after}\"\n{RULE}"
            ));
        }
    }

    fn set_property(&mut self, args: &[&str], said: &mut Said) {
        let [path, property] = args else { return said.error("malformed command") };
        let Some((key, value)) = property.split_once('=').filter(|(k, v)| !k.is_empty() && !v.is_empty())
        else {
            let usage = "Please use `set-property <resource> PROPERTY=VALUE`.";
            return said.result(format!("Incorrect input format. \n{usage}\n"));
        };
        let found = self.matcher.model().at_path(path);
        if found.is_empty() {
            return said.result(format!("Couldn't find path {path} in resource graph.\n"));
        }
        for vertex in found {
            if let Err(error) = self.matcher.set_property(vertex, key, value) {
                said.error(error);
            }
        }
    }

    /// The vertices at a path; reports an unknown path.
    fn named(&self, path: &str, said: &mut Said) -> Vec<VertexId> {
        let found = self.matcher.model().at_path(path);
        if found.is_empty() {
            said.result(format!("Could not find path {path} in resource graph.\n"));
        }
        found
    }

    fn get_property(&self, args: &[&str], said: &mut Said) {
        let [path] = args else { return said.error("malformed command") };
        let model = self.matcher.model();
        for vertex in self.named(path, said) {
            let lines: String =
                model.properties(vertex).map(|(key, value)| format!("{key}={value}\n")).collect();
            if lines.is_empty() {
                let unique = model.vertex(vertex).map_or(-1, |v| v.unique());
                let which = format!("{path} (vtx's uniq_id={unique})");
                said.result(format!("No properties were found for {which}.\n"));
            }
            said.result(lines);
        }
    }

    fn set_status(&mut self, args: &[&str], said: &mut Said) {
        let [path, word] = args else { return said.error("malformed command") };
        let found = self.named(path, said);
        if found.is_empty() {
            return;
        }
        let Some(state) = State::parse(word) else { return said.error("unrecognized status") };
        for vertex in found {
            if let Err(error) = self.matcher.set_state(vertex, state) {
                said.error(error);
            }
        }
    }

    fn get_status(&self, args: &[&str], said: &mut Said) {
        let [path] = args else { return said.error("malformed command") };
        let model = self.matcher.model();
        for vertex in self.named(path, said) {
            let state = model.vertex(vertex).map_or(State::Unknown, |v| v.state());
            said.result(format!("{path} is {}\n", state.text()));
        }
    }

    fn list(&self, said: &mut Said) {
        for id in self.jobs.keys() {
            said.say(Stream::Info, self.job_line(*id));
        }
    }

    fn job_line(&self, id: u64) -> String {
        let line =
            |j: &super::Job| format!("INFO: {id}, {}, {}, {}, {}\n", j.state, j.at, j.jobspec, j.seconds);
        self.jobs.get(&id).map(line).unwrap_or_default()
    }

    fn info(&self, args: &[&str], said: &mut Said) {
        let [id] = args else { return said.error("malformed command") };
        let job = number(id);
        if !self.jobs.contains_key(&job) {
            return said.say(Stream::Error, format!("info: ERROR: nonexistent job {job}\n"));
        }
        said.say(Stream::Info, self.job_line(job));
    }

    fn stat(&self, args: &[&str], said: &mut Said) {
        if !args.is_empty() {
            return said.error("malformed command");
        }
        let (count, (least, most, all)) = (self.jobs.len(), self.times);
        let (least, average) = if count == 0 { (0.0, 0.0) } else { (least, all / count as f64) };
        said.say(
            Stream::Info,
            format!(
                "INFO: Num. of Jobs Matched: {count}\nINFO: Min. Match Time: {least}\n\
                 INFO: Max. Match Time: {most}\nINFO: Avg. Match Time: {average}\n"
            ),
        );
    }
}

fn cat(args: &[&str], world: &mut dyn World, said: &mut Said) {
    let [path] = args else { return said.error("malformed command") };
    match world.read(path) {
        Ok(text) => {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            said.say(Stream::Info, format!("{text}{end}INFO: Jobspec in {path}\n"));
        }
        Err(error) => said.error(format!("can't open {path}: {error}")),
    }
}

/// The number at the start of a text, or 0.
pub(super) fn number(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}
