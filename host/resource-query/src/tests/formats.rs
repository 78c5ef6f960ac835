//! A booked selection in every format, to the letter.

use fluxgate_formats::jobspec::{Checks, Jobspec};

use super::{at, machine};
use crate::matching::{Matcher, Op, Policy, Setup};
use crate::render::Format;

/// Two cores of the second node, which has a property, for a job of a queue.
fn booked(format: Format, whole: bool) -> String {
    let mut model = machine(1, 2, 2);
    let node = at(&model, "/cluster0/rack0/node1");
    model.set_property(node, "ssd", "fast").unwrap();
    model.set_property(node, "new", "").unwrap();
    let setup = Setup { policy: Policy::parse("high").unwrap(), ..Setup::default() };
    let mut matcher = Matcher::new(model, &setup).unwrap();
    let exclusive = if whole { ", exclusive: true" } else { "" };
    let text = format!(
        "version: 9999\nresources: [{{type: node, count: 1, label: n{exclusive}, with: [\
         {{type: slot, count: 2, label: s, with: [{{type: core, count: 1}}]}}]}}]\n\
         tasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\n\
         attributes: {{system: {{duration: 60, queue: q}}}}"
    );
    let jobspec = Jobspec::from_yaml_with(&text, Checks::Scheduling).unwrap();
    let request = matcher.compile(&jobspec);
    let matched = matcher.run(&request, Op::Allocate, 1, 0).unwrap();
    matched.booked.render(matcher.model(), format)
}

#[test]
fn lines() {
    let simple = "      ------------core0[1:x]\n      ------------core1[1:x]\n      ---------node1[1:s]\n      \
                  ------rack0[1:s]\n      ---cluster0[1:s]\n";
    assert_eq!(booked(Format::Simple, false), simple);
    let pretty = "      ---cluster0[1:shared]\n      ------rack0[1:shared]\n      ---------node1[1:shared]\n      \
                  ------------core1[1:exclusive]\n      ------------core0[1:exclusive]\n";
    assert_eq!(booked(Format::PrettySimple, false), pretty);
}

#[test]
fn r() {
    assert_eq!(booked(Format::Rlite, false), "[{\"rank\": \"1\", \"children\": {\"core\": \"0-1\"}}]\n");
    let execution = "\"execution\": {\"R_lite\": [{\"rank\": \"1\", \"children\": {\"core\": \"0-1\"}}], \
                     \"nodelist\": [\"node1\"], \"properties\": {\"new\": \"1\", \"ssd=fast\": \"1\"}, \
                     \"starttime\": 0, \"expiration\": 60}";
    assert_eq!(booked(Format::Rv1Nosched, false), format!("{{\"version\": 1, {execution}}}\n"));
    let jgf = booked(Format::Jgf, false);
    let attributes = "\"attributes\": {\"system\": {\"scheduler\": {\"queue\": \"q\"}}}";
    let rv1 = format!("{{\"version\": 1, {execution}, \"scheduling\": {}, {attributes}}}\n", jgf.trim_end());
    assert_eq!(booked(Format::Rv1, false), rv1);
}

#[test]
fn jgf() {
    let cluster = r#"{"id": "0", "metadata": {"type": "cluster", "id": 0, "rank": -1, "paths": {"containment": "/cluster0"}}}"#;
    let rack = r#"{"id": "1", "metadata": {"type": "rack", "id": 0, "rank": -1, "paths": {"containment": "/cluster0/rack0"}}}"#;
    let node = |x: &str| {
        format!(
            r#"{{"id": "6", "metadata": {{"type": "node", "id": 1, "rank": 1, "properties": {{"new": "", "ssd": "fast"}}{x}, "paths": {{"containment": "/cluster0/rack0/node1"}}, "ephemeral": {{"label": "n"}}}}}}"#
        )
    };
    let core = |id: i64| {
        format!(
            r#"{{"id": "{}", "metadata": {{"type": "core", "id": {id}, "rank": -1, "exclusive": true, "paths": {{"containment": "/cluster0/rack0/node1/core{id}"}}}}}}"#,
            id + 7
        )
    };
    let edge = |from: i64, to: i64| format!(r#"{{"source": "{from}", "target": "{to}"}}"#);
    let graph = |nodes: &[String], edges: &[String], writer: &str| {
        format!(
            "{{\"graph\": {{\"nodes\": [{}], \"edges\": [{}]}}{writer}}}\n",
            nodes.join(", "),
            edges.join(", ")
        )
    };
    let above = [rack.to_owned(), cluster.to_owned()];
    let part = [&[core(0), core(1), node("")], &above[..]].concat();
    let up = [edge(1, 6), edge(0, 1)];
    let edges = [&[edge(6, 7), edge(6, 8)], &up[..]].concat();
    assert_eq!(booked(Format::Jgf, false), graph(&part, &edges, ""));
    assert_eq!(booked(Format::JgfShorthand, false), graph(&part, &edges, ""), "nothing is left out");
    let short = [&[node(", \"exclusive\": true")], &above[..]].concat();
    let writer = ", \"writer\": \"fluxion:jgf_shorthand\"";
    assert_eq!(booked(Format::JgfShorthand, true), graph(&short, &up, writer));
    assert!(booked(Format::Jgf, true).contains("\"size\": 32"), "the whole node, its memory too");
}
