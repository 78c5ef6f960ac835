//! The options of the modules that place jobs and say what can ever run: `[sched-fluxion-resource]` and
//! `[sched-fluxion-feasibility]`.
//!
//! Must never know queues.

use super::options::{FEASIBILITY, Found, Options, RESOURCE, Sources};
use super::ours::Ours;
use super::placement;
use super::report::{Level, Report, default, quoted};

/// Reader of a Fluxion that is told none.
const LOAD_FORMAT: &str = "rv1exec";
/// Format of R of a Fluxion that is told none.
const MATCH_FORMAT: &str = "rv1_nosched";
/// Formats that R has under Fluxgate too.
const RECORDS: [&str; 3] = [MATCH_FORMAT, "rv1", "rv1_shorthand"];
/// Formats of Fluxion that are for its tools.
const TOOLS: [&str; 5] = ["simple", "pretty_simple", "jgf", "jgf_shorthand", "rlite"];

/// Translate both tables.
pub(super) fn translate(sources: &Sources, ours: &mut Ours, report: &mut Report) {
    match_policy(&sources.resource, ours, report);
    match_format(&sources.resource, ours, report);
    for (key, found) in &sources.resource {
        other(key, found, ours, report);
    }
    for (key, found) in &sources.feasibility {
        feasibility(key, found, sources.resource.get(key), report);
    }
}

fn match_policy(options: &Options, ours: &mut Ours, report: &mut Report) {
    let given = options.get("match-policy");
    let text = given.map_or_else(|| placement::DEFAULT.to_owned(), Found::text);
    let (name, shown) = match given {
        Some(found) => (found.name.clone(), quoted(&text)),
        None => (format!("{RESOURCE}.match-policy"), default(&text)),
    };
    match placement::translate(&text) {
        Ok(choice) => {
            ours.set("placement", choice.placement);
            let note = if choice.note.is_empty() { String::new() } else { format!("; {}", choice.note) };
            report.line(choice.level, name, shown, format!("placement = \"{}\"{note}", choice.placement));
        }
        Err(why) => report.error(name, shown, why),
    }
}

fn match_format(options: &Options, ours: &mut Ours, report: &mut Report) {
    let given = options.get("match-format");
    let text = given.map_or_else(|| MATCH_FORMAT.to_owned(), Found::text);
    let (name, shown) = match given {
        Some(found) => (found.name.clone(), quoted(&text)),
        None => (format!("{RESOURCE}.match-format"), default(&text)),
    };
    let record = RECORDS.into_iter().find(|known| *known == text);
    let there = ours.set("record-format", record.unwrap_or(MATCH_FORMAT));
    let becomes = format!("record-format = \"{}\"", record.unwrap_or(MATCH_FORMAT));
    let mut notes = Vec::new();
    let mut level = if given.is_some() { Level::Ok } else { Level::Info };
    if record.is_none() {
        level = Level::Warn;
        notes.push(if TOOLS.contains(&text.as_str()) {
            "that format is for Fluxion's tools; R has none of the site's graph"
        } else {
            "unknown: Fluxion uses its default"
        });
    }
    if record == Some("rv1") {
        level = Level::Warn;
        notes.push("every R has a vertex for each resource of the job; rv1_shorthand is much smaller");
    }
    if !there {
        level = level.max(Level::Info);
        notes.push("only a comment, as this version has no such setting: a site's graph is recorded in shorthand by default");
    }
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    report.line(level, name, shown, becomes + &notes);
}

/// The options beside policy and format.
fn other(key: &str, found: &Found, ours: &mut Ours, report: &mut Report) {
    let text = found.text();
    let (name, shown) = (found.name.clone(), found.shown());
    match key {
        "load-file" => {
            report.warn(name, shown, "ignored: the graph of a machine is named by [resource] scheduling");
        }
        "load-format" => load_format(&text, (name, shown), ours, report),
        "load-allowlist" => report.info(name, shown, "ignored: it is for reading hwloc only"),
        "subsystems" => {
            let containment = |one: &str| one.split(':').next() == Some("containment");
            if text.split(',').all(containment) {
                report.ok(name, shown, "nothing to set: containment is what jobs are placed in");
            } else {
                report.warn(name, shown, "ignored: jobs are placed in containment; accepted is containment");
            }
        }
        "reserve-vtx-vec" => report.info(name, shown, "ignored: memory is not reserved ahead"),
        "prune-filters" => {
            report.info(name, shown, "ignored: they change how fast a search is, not its result")
        }
        "update-interval" => report.info(name, shown, "ignored: what is allocated is always current"),
        "traverser" => match text.as_str() {
            "simple" => report.ok(name, shown, "nothing to set"),
            "flexible" => {
                report.warn(name, shown, "ignored: xor_slot is supported without it, or_slot is not");
            }
            _ => report.error(name, shown, "Fluxion does not load with it; accepted are simple and flexible"),
        },
        // Both have functions of their own.
        _ => {}
    }
}

fn load_format(text: &str, (name, shown): (String, String), ours: &mut Ours, report: &mut Report) {
    match text {
        LOAD_FORMAT | "jgf" | "jgf_shorthand" => {
            report.ok(name, shown, "nothing to set: the graph in R is used if there is one");
        }
        "rv1exec_force" => {
            if ours.set("ignore-graph", true) {
                report.ok(name, shown, "ignore-graph = true");
            } else {
                let why = "ignore-graph = true; only a comment, as this version has no such setting: the graph in R is used";
                report.warn(name, shown, why);
            }
        }
        "hwloc" | "grug" => {
            report.warn(
                name,
                shown,
                "ignored: resources are those of the resource module, and the graph in R",
            );
        }
        _ => {
            let why = "unknown: Fluxion uses its default rv1exec; nothing to set for that";
            report.warn(name, shown, why);
        }
    }
}

/// An option of the feasibility module: of account only where it differs from the same one of the resource module.
fn feasibility(key: &str, found: &Found, resource: Option<&Found>, report: &mut Report) {
    let (name, shown) = (found.name.clone(), found.shown());
    if key == "match-policy"
        && let Err(why) = placement::translate(&found.text())
    {
        return report.error(name, shown, why);
    }
    if key == "traverser" && !["simple", "flexible"].contains(&found.text().as_str()) {
        return report.error(name, shown, "Fluxion does not load with it; accepted are simple and flexible");
    }
    if key != "match-policy" && !key.starts_with("load-") {
        return report.info(name, shown, format!("ignored: what can ever run follows from {RESOURCE}"));
    }
    let unset = match key {
        "match-policy" => placement::DEFAULT,
        "load-format" => LOAD_FORMAT,
        _ => "",
    };
    let there = resource.map_or_else(|| unset.to_owned(), Found::text);
    if found.text() == there {
        report.ok(name, shown, format!("the same as in {RESOURCE}"));
    } else {
        let there = if there.is_empty() { "nothing".to_owned() } else { quoted(&there) };
        let why = format!(
            "ignored, though it differs from {there} in {RESOURCE}: Fluxgate has one set of settings and answers \
             {FEASIBILITY} requests with it"
        );
        report.warn(name, shown, why);
    }
}
