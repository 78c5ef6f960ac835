//! Booking on whole models: the holders of vertices, and their display.

use std::collections::BTreeSet;

use fluxgate_formats::jobspec::{Checks, Jobspec};
use fluxgate_formats::rset::R;
use proptest::prelude::*;

use super::{at, machine, names};
use crate::matching::{Item, Matcher, Miss, Op, Policy, Setup, Term};
use crate::planner::FOREVER;
use crate::render::Format;
use fluxgate_graph::description::{Model, Pool, Relation, Source, State, VertexId};

/// A jobspec out of a tree in YAML flow style.
fn job(resources: &str, seconds: u32) -> Jobspec {
    let text = format!(
        "version: 9999\nresources: [{resources}]\ntasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\n\
         attributes: {{system: {{duration: {seconds}}}}}"
    );
    Jobspec::from_yaml_with(&text, Checks::Scheduling).unwrap()
}

fn slot(count: u32, with: &str) -> String {
    format!("{{type: slot, count: {count}, label: s, with: [{with}]}}")
}

fn cores(count: u32) -> String {
    format!("{{type: core, count: {count}}}")
}

fn matcher(model: Model, policy: &str) -> Matcher {
    Matcher::new(model, &Setup { policy: Policy::parse(policy).unwrap(), ..Setup::default() }).unwrap()
}

/// Names of the vertices that a job got, children first.
fn run(matcher: &mut Matcher, op: Op, id: u64, resources: &str, seconds: u32) -> Result<(i64, String), Miss> {
    let request = matcher.compile(&job(resources, seconds));
    let matched = matcher.run(&request, op, id, 0)?;
    let vertices = matched.booked.items.iter().filter_map(|item| match item {
        Item::Vertex { vertex, exclusive: true, .. } => Some(*vertex),
        _ => None,
    });
    Ok((matched.at, names(matcher.model(), &vertices.collect::<Vec<_>>()).join(" ")))
}

fn found(matcher: &Matcher, text: &str) -> Vec<String> {
    let (found, _) = matcher.find(text).unwrap();
    let vertices = found.items.iter().filter_map(|item| match item {
        Item::Vertex { vertex, .. } => Some(*vertex),
        Item::Edge { .. } => None,
    });
    names(matcher.model(), &vertices.collect::<Vec<_>>())
}

#[test]
fn policies_take_what_they_are_named_for() {
    for (policy, expected) in [
        ("low", "core0"),
        ("high", "core3"),
        ("lonode", "core0"),
        ("hinode", "core3"),
        ("locality", "core3"),
        ("variation", "core0"),
    ] {
        let mut matcher = matcher(machine(1, 2, 4), policy);
        assert_eq!(
            run(&mut matcher, Op::Allocate, 1, &slot(1, &cores(1)), 10),
            Ok((0, expected.to_owned())),
            "{policy}"
        );
    }
    let mut matcher = matcher(machine(1, 2, 2), "lonodex");
    let (_, got) = run(&mut matcher, Op::Allocate, 1, &slot(1, &cores(1)), 10).unwrap();
    assert_eq!(got, "core0 core1 memory0 node0", "all of the node");
}

#[test]
fn m4_2_coarse_and_fine_models_of_the_same_memory() {
    // 32 GB as one pool of the node, or 16 GB on each of two sockets.
    let build = |fine: bool| {
        let mut model = Model::new();
        let node = model.add(Pool::new("node", 0)).unwrap();
        for s in 0..2 {
            let socket = model.add(Pool::new("socket", s)).unwrap();
            model.connect(node, socket, &Relation::contains()).unwrap();
            if fine || s == 0 {
                let mut memory = Pool::new("memory", s);
                memory.size = if fine { 16 } else { 32 };
                let memory = model.add(memory).unwrap();
                model.connect(if fine { socket } else { node }, memory, &Relation::contains()).unwrap();
            }
        }
        model.finish().unwrap();
        matcher(model, "low")
    };
    let on_socket = slot(1, "{type: socket, count: 1, with: [{type: memory, count: 16}]}");
    assert!(run(&mut build(true), Op::Allocate, 1, &on_socket, 10).is_ok());
    assert_eq!(run(&mut build(false), Op::Allocate, 1, &on_socket, 10), Err(Miss::Busy));
    let fine = "{type: node, count: 1, with: [{type: socket, count: 2, with: [{type: memory, count: 16, exclusive: true}]}]}";
    assert!(run(&mut build(true), Op::Allocate, 1, fine, 10).is_ok());
    let coarse = "{type: node, count: 1, with: [{type: memory, count: 32, exclusive: true}]}";
    assert!(run(&mut build(false), Op::Allocate, 1, coarse, 10).is_ok());
}

#[test]
fn m4_10_m16_6_m16_16_what_is_held_can_be_found_and_what_is_not() {
    let mut matcher = matcher(machine(1, 2, 4), "low");
    run(&mut matcher, Op::Allocate, 7, &slot(1, &cores(3)), 100).unwrap();
    let held = found(&matcher, "jobid-alloc=7");
    assert_eq!(held, ["core0", "core1", "core2", "node0", "rack0", "cluster0"]);
    let all: Vec<String> = found(&matcher, "type=core");
    let (held, free) = (
        found(&matcher, "type=core and sched-now=allocated"),
        found(&matcher, "type=core and sched-now=free"),
    );
    let count = |list: &[String]| list.iter().filter(|n| n.starts_with("core")).count();
    assert_eq!(count(&held) + count(&free), count(&all), "allocated and available are everything");
    assert_eq!(count(&held), 3);
    matcher.cancel(7).unwrap();
    assert!(found(&matcher, "jobid-alloc=7").is_empty());
    assert!(matcher.cancel(7).is_err(), "m16_15: a second release frees nothing");
}

#[test]
fn m4_9_m4_22_find_reads_every_kind_of_term() {
    let mut model = machine(1, 2, 2);
    let node = at(&model, "/cluster0/rack0/node1");
    model.set_property(node, "ssd", "").unwrap();
    model.set_property(node, "class", "4").unwrap();
    model.set_tag(node, "owner", vec!["ops".to_owned()]).unwrap();
    model.set_state(at(&model, "/cluster0/rack0/node0"), State::Down).unwrap();
    let matcher = matcher(model, "low");
    let only = |text: &str| found(&matcher, text).into_iter().next().unwrap_or_default();
    for text in [
        "property=ssd",
        "property=class=4 and type=node",
        "tag=owner",
        "tag=owner=ops",
        "name=node1",
        "names=node[1-9]",
        "rank=1",
        "type=node and id=1",
        "basename=node and status=up",
        "(type=node or type=rack) status=up and id=1",
        "type=node state=up",
    ] {
        assert_eq!(only(text), "node1", "{text}");
    }
    assert_eq!(only("size=32 and unit=GB and status=up"), "memory0");
    assert_eq!(
        found(&matcher, "status=down").len(),
        1 + 2 + 1 + 2,
        "what is below a vertex that is down is down"
    );
    for text in [
        "",
        "status",
        "status=sideways",
        "type=core and",
        "(type=core",
        "type=core)",
        "colour=blue",
        "jobid-tag=x",
    ] {
        let error = matcher.find(text).unwrap_err().to_string();
        assert!(error.starts_with("invalid criteria: "), "{error}");
    }
}

#[test]
fn m16_7_m16_8_m16_11_m16_12_exclusive_above_and_below() {
    let node = "{type: node, count: 1, exclusive: true, with: [{type: slot, count: 1, label: s, with: [{type: core, count: 1}]}]}";
    let any =
        "{type: node, count: 1, with: [{type: slot, count: 1, label: s, with: [{type: core, count: 1}]}]}";
    let mut matcher = matcher(machine(1, 1, 2), "low");
    // A job on a vertex below excludes an exclusive request, and the reverse.
    run(&mut matcher, Op::Allocate, 1, any, 100).unwrap();
    assert_eq!(run(&mut matcher, Op::Allocate, 2, node, 100), Err(Miss::Busy));
    run(&mut matcher, Op::Allocate, 3, any, 100).unwrap();
    matcher.cancel(1).unwrap();
    assert_eq!(run(&mut matcher, Op::Allocate, 2, node, 100), Err(Miss::Busy), "job 3 is still there");
    matcher.cancel(3).unwrap();
    run(&mut matcher, Op::Allocate, 2, node, 100).unwrap();
    assert_eq!(run(&mut matcher, Op::Allocate, 4, any, 100), Err(Miss::Busy));
    matcher.cancel(2).unwrap();
    run(&mut matcher, Op::Allocate, 4, any, 100).unwrap();
}

#[test]
fn m16_13_a_tag_above_stays_until_the_last_below_is_gone() {
    let mut matcher = matcher(machine(1, 1, 4), "low");
    run(&mut matcher, Op::Allocate, 7, &slot(1, &cores(2)), 100).unwrap();
    let rack = |m: &Matcher| found(m, "jobid-tag=7 and type=rack");
    let one: BTreeSet<VertexId> = [at(matcher.model(), "/cluster0/rack0/node0/core0")].into();
    let other: BTreeSet<VertexId> = [at(matcher.model(), "/cluster0/rack0/node0/core1")].into();
    assert_eq!(matcher.release(7, &one), Ok(false));
    assert_eq!(rack(&matcher), ["rack0", "cluster0"]);
    assert!(matcher.release(7, &one).is_err());
    assert_eq!(matcher.release(7, &other), Ok(true));
    assert!(rack(&matcher).is_empty());
    run(&mut matcher, Op::Allocate, 8, &slot(1, &cores(4)), 100).unwrap();
}

#[test]
fn m16_9_reservations_begin_when_what_is_in_the_way_ends() {
    let mut matcher = matcher(machine(1, 1, 2), "low");
    run(&mut matcher, Op::Allocate, 1, &slot(1, &cores(2)), 100).unwrap();
    let reserve =
        |m: &mut Matcher, id| run(m, Op::AllocateOrElseReserve, id, &slot(1, &cores(2)), 50).map(|r| r.0);
    assert_eq!(reserve(&mut matcher, 2), Ok(100));
    assert_eq!(reserve(&mut matcher, 3), Ok(150));
    assert_eq!(found(&matcher, "type=core and sched-future=reserved").len(), 5);
    matcher.cancel(2).unwrap();
    assert_eq!(reserve(&mut matcher, 4), Ok(100), "a reservation given up makes room");
    assert_eq!(run(&mut matcher, Op::Allocate, 5, &slot(1, &cores(1)), 10), Err(Miss::Busy));
    let ever = run(&mut matcher, Op::Satisfiability, 6, &slot(1, &cores(2)), 10);
    assert!(ever.is_ok(), "satisfiability looks at the inventory alone");
    assert_eq!(run(&mut matcher, Op::Satisfiability, 6, &slot(1, &cores(3)), 10), Err(Miss::Unsatisfiable));
}

#[test]
fn of_slots_that_are_alternatives_one_is_enough_whichever_comes_last() {
    for taken in ["core", "memory"] {
        for turned in [false, true] {
            let policy = Policy::parse("low").unwrap();
            let setup =
                Setup { policy, flexible: true, prune: "ALL:core,ALL:memory".to_owned(), ..Setup::default() };
            let mut matcher = Matcher::new(machine(1, 1, 2), &setup).unwrap();
            let all = if taken == "core" { cores(2) } else { "{type: memory, count: 32}".to_owned() };
            run(&mut matcher, Op::Allocate, 1, &slot(1, &all), 100).unwrap();
            let mut either = [slot(1, &cores(1)), slot(1, "{type: memory, count: 1}")];
            if turned {
                either.reverse();
            }
            let found = run(&mut matcher, Op::Allocate, 2, &either.join(", "), 10);
            assert!(found.is_ok(), "{taken} is taken, turned {turned}: {found:?}");
        }
    }
}

#[test]
fn m16_14_what_cannot_be_booked_whole_is_not_booked_at_all() {
    let mut matcher = matcher(machine(1, 2, 2), "low");
    assert_eq!(run(&mut matcher, Op::Allocate, 1, &slot(5, &cores(1)), 100), Err(Miss::Busy));
    assert!(found(&matcher, "sched-now=allocated").is_empty());
    assert!(run(&mut matcher, Op::Allocate, 2, &slot(4, &cores(1)), 100).is_ok());
}

#[test]
fn m16_18_a_power_cap_refuses_a_node_though_cores_are_free() {
    // A rack of three nodes and 10 kW in units of 2; a node takes 4.
    let mut model = machine(1, 3, 1);
    let rack = at(&model, "/cluster0/rack0");
    for n in 0..5 {
        let mut power = Pool::new("power", n);
        (power.size, power.unit) = (2, "kW".to_owned());
        let power = model.add(power).unwrap();
        model.connect(rack, power, &Relation::contains()).unwrap();
    }
    let mut matcher = matcher(model, "low");
    let request = slot(1, "{type: power, count: 4}, {type: node, count: 1, with: [{type: core, count: 1}]}");
    for id in 1..=2 {
        run(&mut matcher, Op::Allocate, id, &request, 100).unwrap();
    }
    assert_eq!(run(&mut matcher, Op::Allocate, 3, &request, 100), Err(Miss::Busy));
    assert!(
        run(
            &mut matcher,
            Op::Allocate,
            4,
            &slot(1, "{type: node, count: 1, with: [{type: core, count: 1}]}"),
            9
        )
        .is_ok()
    );
}

#[test]
fn m4_20_one_request_meets_two_subsystems_only_where_both_fit() {
    let mut model = machine(1, 2, 2);
    let pdu = model.add(Pool::new("pdu", 0)).unwrap();
    let node = at(&model, "/cluster0/rack0/node1");
    model.connect(pdu, node, &Relation::of("power", "supplies_to", "draws_from")).unwrap();
    model.finish().unwrap();
    let setup = Setup {
        policy: Policy::parse("low").unwrap(),
        subsystems: vec!["power".to_owned()],
        ..Setup::default()
    };
    let mut by_power = Matcher::new(model, &setup).unwrap();
    let request =
        "{type: pdu, count: 1, with: [{type: slot, count: 1, label: s, with: [{type: node, count: 1}]}]}";
    let (_, got) = run(&mut by_power, Op::Allocate, 1, request, 10).unwrap();
    assert_eq!(got, "node1", "only what the power subsystem leads to");
}

#[test]
fn booked_written_and_claimed_again_is_the_same() {
    for format in [Format::Jgf, Format::JgfShorthand] {
        let mut matcher = matcher(machine(2, 2, 4), "low");
        run(&mut matcher, Op::Allocate, 1, &slot(1, &cores(2)), 100).unwrap();
        let whole = slot(1, "{type: node, count: 1, exclusive: true}");
        let request = matcher.compile(&job(&whole, 100));
        let matched = matcher.run(&request, Op::Allocate, 2, 0).unwrap();
        let text = matched.booked.render(matcher.model(), format);
        let before = found(&matcher, "sched-now=allocated");
        matcher.cancel(2).unwrap();
        let term = Term { job: 2, start: 0, end: 100, reserve: false };
        let shorthand = format == Format::JgfShorthand;
        let again = matcher.claim_jgf(&text, shorthand, term).unwrap();
        assert_eq!(found(&matcher, "sched-now=allocated"), before);
        assert_eq!(
            again.render(matcher.model(), Format::Simple),
            matched.booked.render(matcher.model(), Format::Simple)
        );
        // A second booking is refused, and changes nothing.
        let other = Term { job: 3, ..term };
        assert!(matcher.claim_jgf(&text, shorthand, other).is_err());
        assert_eq!(found(&matcher, "jobid-tag=3").len(), 0);
        matcher.cancel(2).unwrap();
        matcher.cancel(1).unwrap();
        assert!(found(&matcher, "sched-now=allocated").is_empty());
    }
}

#[test]
fn claims_that_do_not_fit_the_graph_say_why() {
    let mut matcher = matcher(machine(1, 1, 2), "low");
    let term = Term { job: 1, start: 0, end: 10, reserve: false };
    let node = |name: &str, rank: i64| {
        format!(
            r#"{{"graph":{{"nodes":[{{"id":"0","metadata":{{"type":"node","id":0,"name":"{name}","rank":{rank},
            "exclusive":true,"paths":{{"containment":"/cluster0/rack0/node0"}}}}}}],"edges":[]}}}}"#
        )
    };
    let error = |m: &mut Matcher, text: &str| m.claim_jgf(text, false, term).unwrap_err().to_string();
    assert!(error(&mut matcher, &node("nodeX", 0)).contains("the resource graph has 'node0'"));
    assert!(error(&mut matcher, &node("node0", 5)).contains("no vertex at"));
    assert!(found(&matcher, "sched-now=allocated").is_empty());
}

const TWO_NODES: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3","gpu":"0"}}],
    "nodelist":["fish[7-8]"],"properties":{"ssd":"1"},"starttime":0,"expiration":0}}"#;

/// R does not name the chassis above the nodes and the sockets in them.
#[test]
fn r_is_claimed_on_a_graph_with_levels_that_r_does_not_name() {
    let edges = [("c", "h", 1), ("h", "n", 2), ("n", "s", 2), ("s", "k", 2)];
    let edge = |(from, to, times): (&str, &str, u32)| {
        format!("<edge source=\"{from}\" target=\"{to}\"><data key=\"multi_scale\">{times}</data></edge>")
    };
    let kinds = [("h", "chassis"), ("n", "node"), ("s", "socket"), ("k", "core")];
    let kind =
        |(id, kind): (&str, &str)| format!("<node id=\"{id}\"><data key=\"type\">{kind}</data></node>");
    let text = format!(
        "<graphml><graph id=\"g\" edgedefault=\"directed\"><node id=\"c\"><data key=\"root\">1</data>\
         <data key=\"type\">cluster</data></node>{}{}</graph></graphml>",
        kinds.map(kind).concat(),
        edges.map(edge).concat()
    );
    let model = Model::load(&text, Some(Source::Grug)).unwrap();
    let mut matcher = matcher(model, "low");
    let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"1","children":{"core":"0"}}],
        "nodelist":["node1"],"starttime":0,"expiration":0}}"#;
    let term = Term { job: 5, start: 0, end: FOREVER, reserve: false };
    matcher.claim_r(&R::from_json(r).unwrap(), term).unwrap();
    let taken = found(&matcher, "sched-now=allocated");
    assert_eq!(taken, ["core0", "socket0", "node1", "chassis0", "cluster0"]);
    assert!(run(&mut matcher, Op::Allocate, 6, &slot(7, &cores(1)), 10).is_ok());
    assert_eq!(run(&mut matcher, Op::Allocate, 7, &slot(1, &cores(1)), 10), Err(Miss::Busy));
    assert_eq!(matcher.release_ranks(5, &[1].into()), Ok(true));
    assert!(run(&mut matcher, Op::Allocate, 7, &slot(1, &cores(1)), 10).is_ok());
}

#[test]
fn r_is_loaded_claimed_and_given_back_by_rank() {
    let model = Model::from_r(&R::from_json(TWO_NODES).unwrap()).unwrap();
    let node = model.vertex(at(&model, "/cluster0/fish8")).unwrap();
    assert_eq!((node.id(), node.rank(), model.text(node.basename())), (Some(8), Some(1), "fish"));
    assert_eq!(model.property(at(&model, "/cluster0/fish8"), "ssd"), Some(""));
    let mut matcher = matcher(model, "low");
    let part = TWO_NODES.replace("\"core\":\"0-3\",\"gpu\":\"0\"", "\"core\":\"1-2\"");
    let term = Term { job: 5, start: 0, end: FOREVER, reserve: false };
    let booked = matcher.claim_r(&R::from_json(&part).unwrap(), term).unwrap();
    assert!(booked.render(matcher.model(), Format::Rv1Nosched).contains("\"children\": {\"core\": \"1-2\"}"));
    assert_eq!(run(&mut matcher, Op::Allocate, 6, &slot(5, &cores(1)), 10), Err(Miss::Busy));
    assert_eq!(matcher.release_ranks(5, &[1].into()), Ok(false));
    assert!(run(&mut matcher, Op::Allocate, 6, &slot(6, &cores(1)), 10).is_ok());
    assert_eq!(matcher.release_ranks(5, &[0].into()), Ok(true));
    let wrong = R::from_json(&TWO_NODES.replace("fish[7-8]", "fish[8-9]")).unwrap();
    assert!(matcher.claim_r(&wrong, Term { job: 9, ..term }).unwrap_err().what.contains("fish8"));
}

#[test]
fn the_graph_grows_and_shrinks_under_running_jobs() {
    let mut matcher = matcher(machine(1, 2, 2), "low");
    run(&mut matcher, Op::Allocate, 1, &slot(3, &cores(1)), 100).unwrap();
    let node = r#"{"graph":{"nodes":[
        {"id":"r","metadata":{"type":"rack","id":0,"paths":{"containment":"/cluster0/rack0"}}},
        {"id":"n","metadata":{"type":"node","id":9,"rank":9,"paths":{"containment":"/cluster0/rack0/node9"}}},
        {"id":"c","metadata":{"type":"core","id":0,"rank":9,"paths":{"containment":"/cluster0/rack0/node9/core0"}}},
        {"id":"f","metadata":{"type":"fpga","id":0,"rank":9,"paths":{"containment":"/cluster0/rack0/node9/fpga0"}}}],
        "edges":[{"source":"r","target":"n"},{"source":"n","target":"c"},{"source":"n","target":"f"}]}}"#;
    assert_eq!(run(&mut matcher, Op::Satisfiability, 2, &slot(5, &cores(1)), 9), Err(Miss::Unsatisfiable));
    matcher.attach(node).unwrap();
    assert!(run(&mut matcher, Op::Satisfiability, 2, &slot(5, &cores(1)), 9).is_ok());
    assert!(
        run(&mut matcher, Op::Allocate, 2, &slot(1, "{type: core, count: 1}, {type: fpga, count: 1}"), 9)
            .is_ok()
    );
    assert!(matcher.attach(&node.replace("\"source\":\"r\"", "\"source\":\"x\"")).is_err());
    // A node is removed together with the allocations on it.
    assert!(matcher.remove_path("/cluster0/rack0/node0"));
    assert_eq!(found(&matcher, "jobid-alloc=1 and type=core").len(), 4, "one core is left, below three");
    assert!(!matcher.remove_path("/cluster0"), "the root stays");
    assert!(matcher.remove_ranks(&[9].into()));
    assert!(!matcher.remove_ranks(&[9].into()));
    matcher.cancel(1).unwrap();
    assert!(run(&mut matcher, Op::Allocate, 3, &slot(2, &cores(1)), 9).is_ok());
}

proptest! {
    /// M16-5, M16-16: for any bookings and releases, no core has two jobs, and at the end all units are free.
    #[test]
    fn m16_5_cores_are_never_held_twice(
        steps in prop::collection::vec((1..8u64, 1..4u32, 1..4u32, 1..5u32, any::<bool>()), 1..24),
        policy in prop::sample::select(vec!["low", "high", "first", "lonode", "hinodex", "locality", "variation"]),
    ) {
        let mut matcher = matcher(machine(2, 2, 3), policy);
        let mut spans: Vec<(u64, i64, i64, Vec<VertexId>)> = Vec::new();
        for (id, slots, per_slot, seconds, cancel) in steps {
            let held = spans.iter().any(|(job, ..)| *job == id);
            if cancel || held {
                prop_assert_eq!(matcher.cancel(id).is_ok(), held);
                spans.retain(|(job, ..)| *job != id);
                continue;
            }
            let request = matcher.compile(&job(&slot(slots, &cores(per_slot)), seconds * 10));
            let Ok(matched) = matcher.run(&request, Op::AllocateOrElseReserve, id, 0) else {
                // A request above the cores of one node never fits.
                prop_assert!(per_slot > 3 || slots * per_slot > 12 || 4 * (3 / per_slot) < slots, "{slots} x {per_slot}");
                continue;
            };
            let model = matcher.model();
            let core = model.name("core").unwrap();
            let mine: Vec<VertexId> = matched.booked.items.iter().filter_map(|item| match item {
                Item::Vertex { vertex, exclusive: true, .. }
                    if model.vertex(*vertex).unwrap().type_() == core => Some(*vertex),
                _ => None,
            }).collect();
            prop_assert!(mine.len() >= (slots * per_slot) as usize);
            let (start, end) = (matched.at, matched.at + i64::from(seconds) * 10);
            for (other, from, to, theirs) in &spans {
                let shared = mine.iter().any(|v| theirs.contains(v));
                prop_assert!(!shared || end <= *from || *to <= start, "jobs {id} and {other} share a core");
            }
            spans.push((id, start, end, mine));
        }
        for (id, ..) in spans {
            prop_assert!(matcher.cancel(id).is_ok());
        }
        prop_assert!(found(&matcher, "sched-now=allocated or sched-future=reserved").is_empty());
        let all = run(&mut matcher, Op::Allocate, 99, &slot(12, &cores(1)), 10);
        prop_assert!(all.is_ok(), "everything came back");
    }
}

proptest! {
    /// M16-4: find gives the result of a check of every vertex.
    #[test]
    fn m16_4_find_agrees_with_looking_at_every_vertex(
        marks in prop::collection::vec((0..22usize, 0..3u8), 0..12),
        terms in prop::collection::vec((0..5usize, any::<bool>()), 1..5),
    ) {
        let mut model = machine(2, 2, 3);
        let all: Vec<VertexId> = model.vertices().collect();
        for (vertex, mark) in marks {
            let vertex = all[vertex % all.len()];
            match mark {
                0 => model.set_property(vertex, "p", "1").unwrap(),
                1 => model.set_tag(vertex, "t", vec![]).unwrap(),
                _ => { model.set_state(vertex, State::Failing).unwrap(); }
            }
        }
        const TERMS: [&str; 5] = ["property=p", "tag=t", "state=failing", "type=core", "id=1"];
        let mut text = String::new();
        for (index, (term, or)) in terms.iter().enumerate() {
            if index > 0 {
                text += if *or { " or " } else { " and " };
            }
            text += TERMS[*term];
        }
        let holds = |v: VertexId| {
            let it = model.vertex(v).unwrap();
            let one = |term: usize| match term {
                0 => model.property(v, "p").is_some(),
                1 => model.tag(v, "t").is_some(),
                2 => it.state() == State::Failing,
                3 => model.text(it.type_()) == "core",
                _ => it.id() == Some(1),
            };
            let first = one(terms[0].0);
            terms[1..].iter().fold(first, |so_far, (term, or)| if *or { so_far || one(*term) } else { so_far && one(*term) })
        };
        // With a vertex, those above it are listed.
        let containment = model.name("containment").unwrap();
        let mut expected: BTreeSet<VertexId> = BTreeSet::new();
        for &v in all.iter().filter(|&&v| holds(v)) {
            let mut at = Some(v);
            while let Some(v) = at {
                expected.insert(v);
                at = model.parent(v, containment);
            }
        }
        let matcher = matcher(model.clone(), "low");
        let (found, _) = matcher.find(&text).unwrap();
        let found: BTreeSet<VertexId> = found.items.iter().filter_map(|item| match item {
            Item::Vertex { vertex, .. } => Some(*vertex),
            Item::Edge { .. } => None,
        }).collect();
        prop_assert_eq!(found, expected, "{}", text);
    }
}
