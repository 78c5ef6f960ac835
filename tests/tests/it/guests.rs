//! A guest and the job manager on one socket: the real binary, and a broker that answers at once.

use std::collections::BTreeMap;

use fluxgate_formats::jobspec::Simple;
use fluxgate_tests::fixture::folder;
use fluxgate_tests::patience;
use fluxgate_tests::stand_in::{OWNER, Site, StandIn, listen, request, scheduler};
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

const GUEST: u32 = 7777;
const NODES: u32 = 8;

fn jobspec(nodes: u32) -> Value {
    let slots = nodes;
    let simple = Simple {
        nodes: Some(nodes),
        slots,
        duration: 60.0,
        command: vec!["app".into()],
        ..Simple::default()
    };
    simple.build().to_value()
}

/// Every request of a guest is answered once, with what it may know, and jobs start all the while.
#[test]
fn requests_of_a_guest_are_answered_beside_those_of_the_job_manager() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (answers, started) = runtime.block_on(async {
        let folder = folder();
        let listener = listen(folder.path());
        let mut sched = scheduler(&listener.uri());
        let site = Site { nodes: u64::from(NODES), cores: 4, ..Site::default() };
        let mut broker = StandIn::accept(&listener, site).await;
        broker.begin().await;
        let mut tag = 0;
        let mut ask = |broker: &StandIn, topic: &str, payload: &Value| {
            tag += 1;
            broker.send(&request(GUEST, topic, payload).with_matchtag(tag));
        };
        // Half of these fit the machine.
        for nodes in 1..=2 * NODES {
            ask(&broker, "feasibility.check", &json!({ "jobspec": jobspec(nodes) }));
            let job =
                json!({"id": nodes, "priority": 16, "userid": OWNER, "t_submit": 1.0, "jobspec": jobspec(1)});
            broker.send(&request(OWNER, "sched.alloc", &job));
        }
        ask(&broker, "sched-fluxgate.ping", &json!({"seq": 1}));
        ask(&broker, "sched-fluxgate.stats-get", &json!({}));
        ask(&broker, "sched-fluxgate.explain", &json!({"id": 1}));
        ask(&broker, "sched-fluxgate.policy-swap", &json!({"name": "fcfs"}));
        ask(&broker, "sched.alloc", &json!({"id": 99}));
        let (mut answers, mut started) = (BTreeMap::new(), 0);
        while answers.len() < tag as usize || started < 2 * NODES {
            let message = broker.next().await;
            match message.topic() {
                "sched.alloc" if message.matchtag() == 0 => {
                    started += u32::from(message.json().unwrap()["type"] == 0);
                }
                _ => assert!(answers.insert(message.matchtag(), message.errnum()).is_none(), "{message:?}"),
            }
        }
        sched.kill().unwrap();
        patience::end(&mut sched);
        (answers.into_values().collect::<Vec<i32>>(), started)
    });
    let (fit, fit_not) = (vec![0; NODES as usize], vec![errno::EOVERFLOW; NODES as usize]);
    let rest = vec![0, 0, errno::EINVAL, errno::EPERM, errno::EPERM];
    assert_eq!(answers, [fit, fit_not, rest].concat());
    assert_eq!(started, 2 * NODES, "all of them fit");
}
