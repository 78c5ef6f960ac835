//! The text of answers, as people see it.

use clap::Parser;

use super::*;

fn window(name: &str, kind: &str, state: &str) -> Value {
    json!({
        "name": name, "kind": kind, "state": state,
        "start": 1_795_453_200.0, "end": 1_795_507_200.0,
        "occurrences": [[1_795_453_200.0, 1_795_507_200.0]],
        "margin": 300.0, "overrun": 0.0,
        "places": {"nodes": 512, "constraint": {"properties": ["gpu"]}},
        "ranks": "512-1023", "nodelist": "tuo[513-1024]", "nodes": 512,
        "who": {"users": [4_000_000_001u32, 4_000_000_002u32], "groups": ["matsci"], "queues": ["pdat"], "banks": ["physics"], "magnetic": false},
        "running": "shorten", "after": "wait", "flex": false, "overlap": false, "release_when_idle": null, "float": null, "fill": false, "pools": {}, "replace": false, "repeat": null, "note": "",
        "created": {"userid": 0, "time": 1_795_400_000.0}, "running_later": 3,
        "late": {"ranks": "", "nodelist": "", "nodes": 0, "jobs": 0},
    })
}

#[test]
fn feat_10_17_the_list_as_text() {
    let mut over = window("dst1201", "maintenance", "over");
    (over["start"], over["end"], over["running_later"]) = (Value::Null, Value::Null, json!(0));
    let mut late = window("dat43", "dedicated", "active");
    late["late"] = json!({"ranks": "512-513", "nodelist": "tuo[513-514]", "nodes": 2, "jobs": 1});
    insta::assert_snapshot!(render::text(&table(&[window("dat42", "dedicated", "planned"), over, late])));
}

#[test]
fn feat_10_17_one_reservation_as_text() {
    let mut weekly = window("weekly", "dedicated", "active");
    weekly["late"] = json!({"ranks": "512", "nodelist": "tuo513", "nodes": 1, "jobs": 1});
    weekly["repeat"] = json!({"every": "weekly", "zone": "Europe/Paris", "until": 0.0});
    weekly["occurrences"] = json!([[1_795_453_200.0, 1_795_507_200.0], [1_796_058_000.0, 1_796_112_000.0]]);
    weekly["queues_started"] = json!(["pdat"]);
    (weekly["release_when_idle"], weekly["fill"]) = (json!(1800.0), json!(true));
    insta::assert_snapshot!(render::text(&pairs(&weekly)));
}

#[test]
fn feat_16_what_was_done_and_what_would_be() {
    let late = json!([{"id": 7u64 << 24, "end": 1_795_460_000.0}, {"id": 8u64 << 24, "end": null}]);
    let row = window("dat42", "dedicated", "planned");
    let answer =
        |dry_run: bool, late: &Value| json!({"reservation": row, "in_the_way": late, "dry_run": dry_run});
    let mut over = answer(false, &json!([]));
    over["reservation"]["start"] = Value::Null;
    let mut pool = answer(false, &json!([]));
    (pool["reservation"]["nodes"], pool["reservation"]["pools"]) = (json!(0), json!({"io/pfs": "10 GB/s"}));
    let all = [
        said("create", &pool),
        said("create", &answer(false, &late)),
        said("create", &answer(true, &json!([]))),
        said("alter", &answer(false, &json!([]))),
        said("skip", &answer(false, &json!([]))),
        said("end", &over),
        said("cancel", &answer(true, &json!([]))),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn feat_26_that_reservations_are_lost_as_text() {
    let answer =
        |held: bool, dry: bool| json!({"lost": "version 2 is not known", "held": held, "dry_run": dry});
    let mut all = Vec::new();
    for held in [false, true] {
        all.extend(loss(&answer(held, false)));
        all.extend([accepted(&answer(held, true)), accepted(&answer(held, false))]);
    }
    assert_eq!(loss(&json!({"lost": null, "held": false})), None);
    all.push(accepted(&json!({"lost": null, "held": false})));
    insta::assert_snapshot!(all.join("\n"));
}

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: ReservationCmd,
}

fn parse(line: &str) -> Result<ReservationCmd, clap::Error> {
    Line::try_parse_from(std::iter::once("reservation").chain(line.split(' '))).map(|line| line.command)
}

#[test]
fn feat_10_requests_as_json() {
    let now = 1_795_431_600.0;
    let create = |line: &str| match parse(line).unwrap() {
        ReservationCmd::Create(args) => args.request(now),
        other => panic!("{other:?}"),
    };
    let one =
        "create dst --maintenance --start 2026-12-01T08:00 --duration 12h --hosts all --zone Europe/Paris";
    let two = "create dat --start +1h --end +15h --nodes 4 --requires gpu --users 7,8 --groups matsci --banks physics --queues pdat --magnetic --overlap --release-when-idle 30m --fill \
        --running shorten --after free --margin 10m --overrun 5m --repeat weekly --until 2027-01-01 --zone UTC --dry-run";
    let three = "create d7 --maintenance --float 1h --start now --duration 30d --hosts node7 --zone UTC";
    let four = "create pfs --maintenance --start now --duration 8h --pool io/pfs=all --pool power=50% --cores 96 --zone UTC";
    let all = [one, two, three, four].map(|line| create(line).unwrap());
    insta::assert_json_snapshot!(all);
    let present = json!({"start": now, "end": now + 3600.0});
    let alter = |line: &str| match parse(line).unwrap() {
        ReservationCmd::Alter(args) => args.request(now, &present),
        other => panic!("{other:?}"),
    };
    let asked = alter(
        "alter dat --end +2h --users +9,-7 --groups +bio,-matsci --banks -art --queues -pdat --running end --release-when-idle 0 --fill true",
    )
    .unwrap();
    assert_eq!(asked["end"], now + 3600.0 + 7200.0);
    assert_eq!((&asked["users_add"], &asked["users_remove"]), (&json!([9]), &json!([7])));
    assert_eq!((&asked["queues_remove"], &asked["running"]), (&json!(["pdat"]), &json!("end")));
    assert_eq!((&asked["groups_add"], &asked["groups_remove"]), (&json!(["bio"]), &json!(["matsci"])));
    assert_eq!((&asked["release_when_idle"], &asked["fill"]), (&json!(0.0), &json!(true)));
    assert_eq!((&asked["banks_add"], &asked["banks_remove"]), (&json!([]), &json!(["art"])));
    let wrong = alter("alter dat --users carol").unwrap_err().to_string();
    assert_eq!(wrong, "--users carol: expected +NAME or -NAME");
    for line in [
        "create dat --start now --hosts all",
        "create dat --start now --duration 1h",
        "create dat --start now --duration 1h --hosts all --nodes 4",
        "create dat --start now --duration 1h --hosts all --running later",
        "create dat --start now --duration 1h --hosts all --float 1h",
        "create dat --start now --duration 1h --hosts all --pool io=all",
        "create dst --maintenance --start now --duration 1h --pool io=all --requires gpu",
        "create dst --maintenance --start now --duration 1h --hosts all --requires gpu",
        "create dst --maintenance --start now --duration 1h --hosts all --release-when-idle 1h",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    let nobody = "create dat --start now --duration 1h --hosts all --users no-such-user-here";
    assert!(create(nobody).unwrap_err().to_string().contains("there is no such user"));
}
