//! Channeled pools on the compiled graph: power and bandwidth beside nodes and cores, in one request.

use serde_json::{Value, json};

use super::*;
use crate::RequestError;

/// Two racks of two nodes with four cores each: 20 kW for both racks, 12 kW for each rack, 8 kW for each node; 10
/// GB/s for all.
fn flow() -> Value {
    json!({
        "power": {"unit": "kW", "pools": [
            {"name": "row", "size": 20},
            {"name": "rack0", "size": 12, "from": "row", "hosts": "n[0-1]", "each": 8},
            {"name": "rack1", "size": 12, "from": "row", "hosts": "n[2-3]", "each": 8}]},
        "io": {"unit": "GB/s", "pools": [{"name": "pfs", "type": "filesystem", "size": 10, "hosts": "n[0-3]"}]},
    })
}

fn with(flow: Value) -> Resources {
    let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-3", "children": {"core": "0-3"}}],
        "nodelist": ["n[0-3]"], "starttime": 0, "expiration": 0}, "scheduling": {"writer": "fluxgate", "flow": flow}});
    let mut machine = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    machine.set_up(&ids("0-3"));
    machine
}

fn machine() -> Resources {
    let machine = with(flow());
    assert_eq!(machine.unused_topology(), None);
    machine
}

/// A number of nodes with one core and this flow each, as the resource list of a jobspec.
fn on_nodes(count: u32, flow: &str) -> String {
    format!(
        r#"[{{"type":"node","count":{count},"with":[{{"type":"slot","count":1,"label":"x","with":[{{"type":"core","count":1}},{flow}]}}]}}]"#
    )
}

fn kw(count: u32, amount: u32) -> String {
    on_nodes(count, &format!(r#"{{"type":"power","count":{amount}}}"#))
}

fn ask(machine: &mut Resources, text: &str) -> Arc<Request> {
    machine.compile(&jobspec(text)).unwrap()
}

fn held(machine: &Resources, id: u64) -> Value {
    machine.allocation_r(JobId(id)).unwrap().scheduling.unwrap()["flow"].clone()
}

#[test]
fn m4_18_power_is_given_on_every_pool_or_not_at_all() {
    let mut m = machine();
    // Two times 8 kW exceed the 12 kW of a rack: the second node is one of the other rack.
    let two = ask(&mut m, &kw(2, 8));
    assert_eq!(start(&mut m, 1, &two, 0.0, 100.0, Placement::First).unwrap(), "rank[0,2]/core0");
    assert_eq!(held(&m, 1), json!({"power": {"unit": "kW", "pools": [{"hosts": "n[0,2]", "each": 8}]}}));
    // 4 kW are left in each rack and in the row, although twelve cores are free.
    let five = ask(&mut m, &kw(1, 5));
    assert_eq!(m.match_now(&five, 0.0, 10.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(m.shortage(&five).unwrap(), "insufficient power: needs 5 kW, row has too little left");
    let four = ask(&mut m, &kw(1, 4));
    assert_eq!(start(&mut m, 2, &four, 0.0, 100.0, Placement::High).unwrap(), "rank3/core3");
    let one = ask(&mut m, &kw(1, 1));
    assert_eq!(m.match_now(&one, 0.0, 10.0, Placement::First), Err(NoFit::Busy));
    // A request without flow is not limited.
    let plain = cores(&mut m, 13, 1);
    assert!(m.match_now(&plain, 0.0, 10.0, Placement::First).is_ok());
    // A part of the flow is released with its node, and waiting requests are searched again.
    let before = m.helped(&five);
    assert_eq!(m.release(JobId(1), Some(&ids("2"))), Ok(false));
    assert!(m.helped(&five) > before);
    assert_eq!(held(&m, 1), json!({"power": {"unit": "kW", "pools": [{"hosts": "n0", "each": 8}]}}));
    assert_eq!(start(&mut m, 3, &five, 0.0, 10.0, Placement::First).unwrap(), "rank2/core0");
    for id in 1..=3 {
        assert_eq!(m.release(JobId(id), None), Ok(true));
    }
    assert_eq!(m.machine.ledger.upper(), &*m.idle_upper, "exactly what was there");
}

#[test]
fn m4_18_what_pools_can_never_carry_is_never_satisfiable() {
    let mut m = machine();
    let mut why = |text: &str| {
        let request = ask(&mut m, text);
        m.satisfiable(&request).map_err(|e| e.why)
    };
    assert_eq!(why(&kw(4, 5)), Ok(()));
    assert_eq!(why(&kw(2, 8)), Ok(()));
    assert_eq!(why(&kw(3, 8)), Err("it asks for 3 times 8 kW of 'power', and row carries 20 kW".into()));
    assert_eq!(why(&kw(1, 9)), Err("it asks for 9 kW of 'power', and supply of n0 carries 8 kW".into()));
    let both = on_nodes(4, r#"{"type":"power","count":5},{"type":"io","count":2500,"unit":"MB/s"}"#);
    assert_eq!(why(&both), Ok(()));
    let both = both.replace("2500", "2501");
    assert_eq!(why(&both), Err("it asks for 4 times 2501000000 B/s of 'io', and pfs carries 10 GB/s".into()));
    let none = on_nodes(1, r#"{"type":"water","count":1}"#);
    assert!(why(&none).unwrap_err().starts_with("this machine has no resource of type 'water'"));
}

#[test]
fn m4_18_flow_is_asked_for_where_something_uses_it() {
    let mut m = machine();
    // Two slots on a node request 4 kW each; then the same with the slots inside the node.
    let slots = r#"[{"type":"node","count":1,"with":[{"type":"slot","count":2,"label":"x","with":[
        {"type":"core","count":1},{"type":"power","count":3500,"unit":"W"}]}]}]"#;
    let slots = ask(&mut m, slots);
    start(&mut m, 1, &slots, 0.0, 10.0, Placement::First).unwrap();
    assert_eq!(held(&m, 1), json!({"power": {"unit": "kW", "pools": [{"hosts": "n0", "each": 7}]}}));
    let free = r#"[{"type":"slot","count":3,"label":"x","with":[{"type":"core","count":1},
        {"type":"power","count":2500,"unit":"W"}]}]"#;
    let free = ask(&mut m, free);
    assert_eq!(start(&mut m, 2, &free, 0.0, 10.0, Placement::First).unwrap(), "rank1/core[0-1] rank2/core0");
    assert_eq!(
        held(&m, 2)["power"]["pools"],
        json!([{"hosts": "n2", "each": 2500, "unit": "W"}, {"hosts": "n1", "each": 5}])
    );
    let slot = |with: &str| format!(r#"[{{"type":"slot","count":1,"label":"x","with":[{with}]}}]"#);
    let core = r#"{"type":"core","count":1}"#;
    let node = |with: &str| format!(r#"{{"type":"node","count":1,"with":[{with}]}}"#);
    let power = r#"{"type":"power","count":1}"#;
    let mut refused = |text: String| match m.compile(&jobspec(&text)) {
        Err(RequestError::Flow(kind, why)) => {
            assert_eq!(kind, "power");
            why
        }
        other => panic!("{text}: {other:?}"),
    };
    assert!(refused(slot(&format!("{},{power}", node(core)))).contains("outside of a node"));
    assert!(
        refused(format!("[{power},{}]", &slot(core)[1..slot(core).len() - 1])).contains("outside of a node")
    );
    assert!(refused(slot(power)).contains("where no core or gpu is"));
    assert!(refused(slot(&format!(r#"{core},{{"type":"power","count":1,"unit":"GB"}}"#))).contains("units"));
    assert!(
        refused(slot(&format!(r#"{core},{{"type":"power","count":1,"exclusive":true}}"#)))
            .contains("exclusive")
    );
    let range = node(&format!(r#"{{"type":"slot","count":"1-2","label":"x","with":[{core},{power}]}}"#));
    assert!(refused(format!("[{range}]")).contains("one number"));
    assert!(m.compile(&jobspec(&slot(&node(&format!("{core},{power}"))))).is_ok());
}

#[test]
fn m4_18_a_job_for_itself_on_its_node_gets_its_flow_with_it() {
    let mut m = machine();
    let whole = r#"[{"type":"slot","count":2,"label":"x","with":[{"type":"node","count":1,"with":[
        {"type":"core","count":1},{"type":"power","count":7},{"type":"io","count":1}]}]}]"#;
    let whole = ask(&mut m, whole);
    assert_eq!(start(&mut m, 1, &whole, 0.0, 10.0, Placement::First).unwrap(), "rank[0,2]/core[0-3]");
    assert_eq!(
        held(&m, 1),
        json!({"power": {"unit": "kW", "pools": [{"hosts": "n[0,2]", "each": 7}]},
            "io": {"unit": "GB/s", "pools": [{"hosts": "n[0,2]", "each": 1}]}})
    );
    // Also with exclusive nodes by placement.
    let core = ask(&mut m, &kw(1, 5));
    let alone = m.with_whole_nodes(core.clone(), true);
    assert_eq!(start(&mut m, 2, &alone, 0.0, 10.0, Placement::FirstNodeX).unwrap(), "rank1/core[0-3]");
    assert_eq!(held(&m, 2)["power"]["pools"], json!([{"hosts": "n1", "each": 5}]));
}

#[test]
fn m4_18_flow_over_time() {
    let mut m = machine();
    let [eight, four, one] = [kw(2, 8), kw(1, 4), kw(1, 1)].map(|text| ask(&mut m, &text));
    start(&mut m, 1, &eight, 0.0, 100.0, Placement::First).unwrap();
    start(&mut m, 2, &four, 0.0, 50.0, Placement::First).unwrap();
    // The row has 0 kW left until 50 s, and 4 kW until 100 s.
    assert_eq!(m.earliest(&one, 0.0, 10.0), Some(50.0));
    assert_eq!(m.earliest(&eight, 0.0, 10.0), Some(100.0));
    m.reserve(JobId(9), &eight, 100.0, 50.0).unwrap();
    m.release(JobId(2), None).unwrap();
    // A job that ends by then may start. A job that would take the reserved power may not, although cores are free.
    let five = ask(&mut m, &kw(1, 4));
    assert!(m.match_now(&five, 10.0, 100.0, Placement::First).is_ok());
    let long = m.match_now(&five, 10.0, 101.0, Placement::First);
    assert!(long.is_ok(), "16 of 20 are reserved, 8 of 12 in each rack: {long:?}");
    let six = on_nodes(1, r#"{"type":"power","count":4001,"unit":"W"}"#);
    let six = ask(&mut m, &six);
    m.release(JobId(1), None).unwrap();
    assert!(m.match_now(&six, 10.0, 100.0, Placement::First).is_ok());
    let delay = Err(NoFit::WouldDelay(JobId(9), 100.0));
    assert_eq!(m.match_now(&six, 10.0, 101.0, Placement::First), delay);
    assert_eq!(m.earliest(&six, 10.0, 200.0), Some(150.0));
    // A start without flow delays no reservation.
    let plain = cores(&mut m, 8, 1);
    assert!(m.match_now(&plain, 10.0, 1000.0, Placement::First).is_ok());
}

#[test]
fn r27_hello_6_what_flowed_to_a_job_flows_after_a_restart() {
    let mut m = machine();
    let [eight, four] = [kw(2, 8), kw(1, 4)].map(|text| ask(&mut m, &text));
    start(&mut m, 1, &eight, 0.0, 100.0, Placement::First).unwrap();
    start(&mut m, 2, &four, 0.0, 100.0, Placement::First).unwrap();
    let [first, second] = [1, 2].map(|id| m.allocation_r(JobId(id)).unwrap());
    // R is read from its text, as on the wire.
    let first = R::from_json(&first.to_value().to_string()).unwrap();
    let mut again = machine();
    again.allocate_r(JobId(1), &first, &Idset::new(), 0.0, 100.0).unwrap();
    again.allocate_r(JobId(2), &second, &Idset::new(), 0.0, 100.0).unwrap();
    assert_eq!(again.machine.ledger.upper(), m.machine.ledger.upper());
    assert_eq!(again.allocation_r(JobId(1)), m.allocation_r(JobId(1)));
    // R27-HELLO-5: without the ranks that were released meanwhile.
    let mut partly = machine();
    partly.allocate_r(JobId(1), &first, &ids("2"), 0.0, 100.0).unwrap();
    assert_eq!(held(&partly, 1)["power"]["pools"], json!([{"hosts": "n0", "each": 8}]));
    // A capacity that was lowered meanwhile ends no job, and no job starts until enough power is released.
    let mut lower = flow();
    lower["power"]["pools"][0]["size"] = json!(14);
    let mut lower = with(lower);
    lower.allocate_r(JobId(1), &first, &Idset::new(), 0.0, 100.0).unwrap();
    lower.allocate_r(JobId(2), &second, &Idset::new(), 0.0, 100.0).unwrap();
    let one = ask(&mut lower, &kw(1, 1));
    assert_eq!(lower.match_now(&one, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(lower.earliest(&one, 0.0, 10.0), Some(100.0));
    lower.release(JobId(2), None).unwrap();
    assert_eq!(lower.match_now(&one, 0.0, 1.0, Placement::First), Err(NoFit::Busy), "16 of 14");
    lower.release(JobId(1), None).unwrap();
    assert!(lower.match_now(&one, 0.0, 1.0, Placement::First).is_ok());
    assert_eq!(lower.machine.ledger.upper(), &*lower.idle_upper);
    // A machine without power has no flow to hold.
    let mut none = cluster(4, 4, 0);
    none.allocate_r(JobId(1), &first, &Idset::new(), 0.0, 100.0).unwrap();
    assert_eq!(none.allocation(JobId(1)).unwrap().cores(), 2);
}

#[test]
fn m16_17_the_r_of_a_job_is_the_machine_of_an_instance_in_it() {
    let mut m = machine();
    let two = ask(&mut m, &kw(2, 8));
    start(&mut m, 1, &two, 0.0, 100.0, Placement::First).unwrap();
    let mut r = m.allocation_r(JobId(1)).unwrap().to_value();
    // The ranks differ there, `scheduling` is unchanged.
    r["execution"]["R_lite"] = json!([{"rank": "0-1", "children": {"core": "0"}}]);
    let mut child = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    child.set_up(&ids("0-1"));
    let [all, more] = [kw(2, 8), kw(1, 9)].map(|text| ask(&mut child, &text));
    assert!(child.satisfiable(&all).is_ok() && child.satisfiable(&more).is_err());
    assert_eq!(start(&mut child, 1, &all, 0.0, 9.0, Placement::First).unwrap(), "rank[0-1]/core0");
    // The R of a job without flow describes no flow.
    let plain = cores(&mut m, 1, 1);
    start(&mut m, 2, &plain, 0.0, 9.0, Placement::First).unwrap();
    let mut child = Resources::from_r(&m.allocation_r(JobId(2)).unwrap()).unwrap();
    let one = ask(&mut child, &kw(1, 1));
    assert!(child.satisfiable(&one).unwrap_err().why.contains("no resource of type 'power'"));
}

#[test]
fn a_machine_is_written_as_it_was_read() {
    let m = machine();
    let r = m.to_r_all();
    let again = Resources::from_r(&R::from_json(&r.to_value().to_string()).unwrap()).unwrap();
    assert_eq!(again.unused_topology(), None);
    assert_eq!(again.to_r_all(), r);
    assert_eq!(*again.idle_upper, *m.idle_upper);
    assert_eq!(again.graph().subsystems(), ["containment", "power", "io"]);
    // Pools without names keep their names from the first reading.
    let pool = |n: u32| json!({"size": 1, "hosts": format!("n{n}")});
    let unnamed = with(json!({"power": {"pools": [pool(0), pool(1)]}})).to_r_all();
    let named = unnamed.scheduling.as_ref().unwrap()["flow"]["power"]["pools"].clone();
    assert_eq!((&named[0]["name"], &named[1]["name"]), (&json!("pool0"), &json!("pool1")));
    assert_eq!(Resources::from_r(&unnamed).unwrap().to_r_all(), unnamed);
    // Other keys of `scheduling` are kept, also with the topology of nodes.
    let mut value = cluster(4, 4, 0).to_r_all().to_value();
    value["scheduling"] = json!({"writer": "TreePool", "children": [{"ranks": "0-3", "topo": {"socket": [
        {"cores": "0-1"}, {"cores": "2-3"}]}}], "flow": flow()});
    let both = Resources::from_r(&R::from_value(&value).unwrap()).unwrap();
    assert_eq!(both.unused_topology(), None);
    let scheduling = both.to_r_all().scheduling.unwrap();
    assert_eq!(
        (&scheduling["writer"], &scheduling["children"][0]["ranks"]),
        (&json!("TreePool"), &json!("0-3"))
    );
    assert_eq!(scheduling["flow"], r.scheduling.unwrap()["flow"]);
}

#[test]
fn the_graph_of_rfc_40_is_read_for_what_flows() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/graphs/power.json"))
        .unwrap();
    let mut m = Resources::from_jgf(&text).unwrap();
    m.set_up(&ids("0-2"));
    let four = ask(&mut m, &kw(1, 4));
    start(&mut m, 1, &four, 0.0, 10.0, Placement::First).unwrap();
    start(&mut m, 2, &four, 0.0, 20.0, Placement::First).unwrap();
    assert_eq!(m.match_now(&four, 0.0, 10.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(m.shortage(&four).unwrap(), "insufficient power: needs 4 kW, pdu0 has too little left");
    assert_eq!(m.earliest(&four, 0.0, 10.0), Some(10.0));
    // As R, with the pool of each node; and R with that graph as its `scheduling`.
    let r = m.to_r_all();
    assert_eq!(
        r.scheduling.as_ref().unwrap()["flow"]["power"]["pools"],
        json!([{"name": "pdu0", "type": "pdu", "size": 10}, {"each": 5, "from": "pdu0", "hosts": "Node[7-9]"}])
    );
    let idle = |r: &R| {
        let mut m = Resources::from_r(r).unwrap();
        assert_eq!(m.unused_topology(), None);
        let ever = |m: &mut Resources, text: String| {
            let request = ask(m, &text);
            m.satisfiable(&request).is_ok()
        };
        assert!(ever(&mut m, kw(2, 5)) && !ever(&mut m, kw(1, 6)) && !ever(&mut m, kw(3, 4)));
    };
    idle(&r);
    let mut value = r.to_value();
    value["scheduling"] = serde_json::from_str(&text).unwrap();
    idle(&R::from_value(&value).unwrap());
}

#[test]
fn what_is_no_tree_carries_nothing_and_says_why() {
    let pools = |pools: Value| json!({"power": {"unit": "W", "pools": pools}});
    for (flow, why) in [
        (
            pools(
                json!([{"name": "a", "size": 1, "from": "b"}, {"name": "b", "size": 1, "from": "a", "hosts": "n0"}]),
            ),
            "feeds itself",
        ),
        (
            pools(json!([{"name": "a", "size": 1, "hosts": "n0"}, {"name": "b", "size": 1, "hosts": "n0"}])),
            "two edges lead to n0",
        ),
        (pools(json!([{"name": "a", "size": 0, "hosts": "n0"}])), "size 0"),
        (pools(json!([{"name": "a", "hosts": "n0"}])), "pools[0]: no 'size' found"),
        (pools(json!([{"name": "a", "size": 1, "from": "c"}])), "pools[0].from: there is no pool 'c'"),
        (pools(json!([{"name": "a", "size": 1}, {"name": "a", "size": 1}])), "pools[1].name: another pool"),
        (
            pools(
                json!([{"name": "a", "size": 1, "unit": "GB/s", "from": "b", "hosts": "n0"}, {"name": "b", "size": 1}]),
            ),
            "a counts in GB/s",
        ),
        (pools(json!([{"name": "a", "size": 1, "hosts": "n[0-"}])), "pools[0].hosts"),
        (pools(json!([{"name": "a", "size": u64::MAX >> 9, "unit": "MW", "hosts": "n0"}])), "more than"),
        (
            pools(json!([{"name": "a", "type": "power", "size": 1, "hosts": "n0"}])),
            "given away by its own type",
        ),
        (
            pools(json!(vec![json!({"name": null, "each": 1, "hosts": "n[10-1000000]"}); 9])),
            "pools[8].hosts: more than",
        ),
        (json!({"power": {"pool": []}}), "unknown field `pool`"),
        (json!({"containment": {"pools": []}}), "no name for a subsystem"),
    ] {
        let mut m = with(flow.clone());
        let said = m.unused_topology().unwrap_or_else(|| panic!("{flow}"));
        assert!(said.starts_with("scheduling: ") && said.contains(why), "{said}");
        let request = ask(&mut m, &kw(1, 1));
        assert!(m.satisfiable(&request).is_err(), "{flow}");
        let plain = cores(&mut m, 16, 1);
        assert!(m.satisfiable(&plain).is_ok(), "the rest is as it was");
    }
}

#[test]
fn m4_19_flow_that_goes_both_ways_is_not_given_away() {
    let edge = |directed: bool| {
        let text = json!({"graph": {"nodes": [
            {"id": "0", "metadata": {"type": "node", "rank": 0}}, {"id": "1", "metadata": {"type": "core", "id": 0}},
            {"id": "2", "metadata": {"type": "switch", "id": 0, "size": 5}},
            {"id": "3", "metadata": {"type": "switch", "id": 1, "size": 4}}],
            "edges": [{"source": "0", "target": "1"},
                {"source": "2", "target": "3", "directed": directed, "metadata": {"subsystem": "io", "relationship": "conduit_of"}},
                {"source": "3", "target": "0", "metadata": {"subsystem": "io", "relationship": "conduit_of"}}]}});
        let mut m = Resources::from_jgf(&text.to_string()).unwrap();
        let request = ask(&mut m, &on_nodes(1, r#"{"type":"io","count":4}"#));
        m.satisfiable(&request).map_err(|e| e.why)
    };
    // For any number of subsystems in a file, each edge is examined once.
    let many: Vec<Value> = (0..20_000)
        .map(|n| json!({"source": "0", "target": "1", "metadata": {"subsystem": format!("s{n}"), "relationship": "r"}}))
        .chain([json!({"source": "0", "target": "1"})])
        .collect();
    let nodes = json!([{"id": "0", "metadata": {"type": "node", "rank": 0}}, {"id": "1", "metadata": {"type": "core"}}]);
    assert!(Resources::from_jgf(&json!({"graph": {"nodes": nodes, "edges": many}}).to_string()).is_ok());
    assert_eq!(edge(true), Ok(()));
    assert_eq!(
        edge(false),
        Err("this machine can not give away 'io': switch0 feeds itself, or lies too deep".into())
    );
}

/// The example in the pages for administrators.
#[test]
fn the_capped_machine_of_the_documents() {
    let read = |name: &str| {
        std::fs::read_to_string(format!("{}/../../docs/graphs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let mut m = Resources::from_r(&R::from_json(&read("capped.json")).unwrap()).unwrap();
    assert_eq!(m.unused_topology(), None);
    m.set_up(&ids("0-7"));
    let request = m.compile(&Jobspec::from_yaml(&read("capped.yaml")).unwrap()).unwrap();
    assert_eq!(start(&mut m, 1, &request, 0.0, 3600.0, Placement::First).unwrap(), "rank[0-2]/core[0-3]");
    assert_eq!(
        held(&m, 1),
        json!({"power": {"unit": "W", "pools": [{"hosts": "node[0-2]", "each": 900}]},
            "bandwidth": {"unit": "GB/s", "pools": [{"hosts": "node[0-2]", "each": 2}]}})
    );
    assert_eq!(m.match_now(&request, 0.0, 3600.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(
        m.shortage(&request).unwrap(),
        "insufficient power: needs 3 times 900 W, row has too little left"
    );
    assert_eq!(m.earliest(&request, 0.0, 3600.0), Some(3600.0));
}

/// Ranks of equal host name are distinguished by rank, and renumbered by their order.
#[test]
fn m16_17_ranks_of_one_host_keep_their_flow() {
    let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-2", "children": {"core": "0-3"}}],
        "nodelist": ["h,h,h"], "starttime": 0, "expiration": 0}, "scheduling": {"flow": {"power": {"pools": [
            {"name": "strip", "size": 9, "ranks": "0-2"}]}}}});
    let mut m = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    assert_eq!(m.unused_topology(), None);
    m.set_up(&ids("1-2"));
    let [two, one] = [kw(2, 3), kw(1, 2)].map(|text| ask(&mut m, &text));
    start(&mut m, 1, &two, 0.0, 9.0, Placement::First).unwrap();
    start(&mut m, 2, &one, 0.0, 9.0, Placement::High).unwrap();
    let pools = json!([{"ranks": "1-2", "each": 3}]);
    assert_eq!(held(&m, 1), json!({"power": {"of": "1-2", "pools": pools}}));
    let given = [1, 2].map(|id| m.allocation_r(JobId(id)).unwrap());
    let mut again = Resources::from_r(&m.to_r_all()).unwrap();
    for (id, r) in (1..).zip(&given) {
        again.allocate_r(JobId(id), r, &Idset::new(), 0.0, 9.0).unwrap();
        assert_eq!(again.allocation_r(JobId(id)).as_ref(), Some(r));
    }
    assert_eq!(again.machine.ledger.upper(), m.machine.ledger.upper());
    // In an instance in the second job, its only rank is 0.
    let mut r = given[1].to_value();
    r["execution"]["R_lite"] = json!([{"rank": "0", "children": {"core": "0"}}]);
    let mut child = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    let [fits, more] = [kw(1, 2), kw(1, 3)].map(|text| ask(&mut child, &text));
    assert!(child.satisfiable(&fits).is_ok() && child.satisfiable(&more).is_err());
}

#[test]
fn flow_as_policies_see_it() {
    let mut m = machine();
    let kinds = |m: &Resources| {
        let kinds = m.flow_kinds().into_iter();
        kinds.map(|kind| (kind.name, kind.unit, kind.total, kind.free)).collect::<Vec<_>>()
    };
    let kind = |name: &str, unit: &str, total, free| (name.to_owned(), unit.to_owned(), total, free);
    let (power, io) = (kind("power", "W", 20_000, 20_000), kind("io", "B/s", 10_000_000_000, 10_000_000_000));
    assert_eq!(kinds(&m), [power.clone(), io.clone()]);
    // For each of two slots on each of three nodes, and once for each node.
    let each = r#"[{"type":"node","count":3,"with":[
        {"type":"slot","count":2,"label":"x","with":[{"type":"core","count":1},{"type":"power","count":500,"unit":"W"}]},
        {"type":"io","count":1}]}]"#;
    let each = ask(&mut m, each);
    assert_eq!(m.flow_asked(&each), [3000, 3_000_000_000]);
    let anywhere = ask(
        &mut m,
        r#"[{"type":"slot","count":5,"label":"x","with":[{"type":"core","count":1},{"type":"power","count":1}]}]"#,
    );
    assert_eq!(m.flow_asked(&anywhere), [5000, 0]);
    let plain = cores(&mut m, 3, 1);
    assert_eq!(m.flow_asked(&plain), [0, 0]);

    start(&mut m, 1, &each, 0.0, 100.0, Placement::First).unwrap();
    start(&mut m, 2, &anywhere, 0.0, 50.0, Placement::First).unwrap();
    start(&mut m, 3, &plain, 0.0, 70.0, Placement::First).unwrap();
    assert_eq!(
        kinds(&m),
        [kind("power", "W", 20_000, 12_000), kind("io", "B/s", 10_000_000_000, 7_000_000_000)]
    );
    let begun = f64::NEG_INFINITY;
    let spans = |m: &Resources, kind| {
        m.flow_spans(kind).iter().map(|s| (s.start, s.end, s.amount)).collect::<Vec<_>>()
    };
    assert_eq!(spans(&m, 0), [(begun, 50.0, 5000), (begun, 100.0, 3000)]);
    assert_eq!(spans(&m, 1), [(begun, 100.0, 3_000_000_000)]);
    assert_eq!(spans(&m, 2), []);
    m.reserve(JobId(4), &each, 100.0, 30.0).unwrap();
    m.reserve(JobId(5), &plain, 100.0, 30.0).unwrap();
    assert_eq!(spans(&m, 0), [(begun, 50.0, 5000), (begun, 100.0, 3000), (100.0, 130.0, 3000)]);
    for id in 1..=3 {
        m.release(JobId(id), None).unwrap();
    }
    assert_eq!(kinds(&m), [power, io]);
    assert_eq!(spans(&m, 0), [(100.0, 130.0, 3000)]);
}

#[test]
fn what_ends_last_stands_together() {
    let flow =
        json!({"power": {"unit": "W", "pools": [{"name": "row", "size": 100_000, "hosts": "n[0-3]"}]}});
    let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-3", "children": {"core": "0-2047"}}],
        "nodelist": ["n[0-3]"], "starttime": 0, "expiration": 0}, "scheduling": {"writer": "fluxgate", "flow": flow}});
    let mut m = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    m.set_up(&ids("0-3"));
    let one = ask(&mut m, &kw(1, 1));
    let jobs = crate::FLOW_SPANS_MAX as u64 + 3;
    for id in 1..=jobs {
        start(&mut m, id, &one, 0.0, id as f64, Placement::First).unwrap();
    }
    let spans = m.flow_spans(0);
    assert_eq!(spans.len(), crate::FLOW_SPANS_MAX);
    assert_eq!((spans[0].end, spans[0].amount), (1.0, 1));
    let last = spans[spans.len() - 1];
    assert_eq!((last.end, last.amount), (jobs as f64, 4));
    assert_eq!(spans.iter().map(|span| span.amount).sum::<u64>(), jobs);
}
