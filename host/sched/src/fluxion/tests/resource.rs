//! The rows of `[sched-fluxion-resource]`, one test each.

use serde_json::{Value, json};

use super::*;
use crate::settings::KEYS;

/// A table with this one option: the level of its line, and a part of the text.
fn resource_row(key: &str, value: Value, level: Level, part: &str) -> Done {
    let done = resource(json!({ key: value }));
    let (found, text) = done.line(&format!("{RESOURCE}.{key}"));
    assert_eq!(found, level, "{key} = {value}: {text}");
    assert!(text.contains(part), "{key} = {value}: {text}");
    assert_eq!(done.settings.is_none(), level == Level::Error, "{key} = {value}");
    done
}

#[test]
fn site_91_load_file_is_ignored_with_a_warning() {
    resource_row("load-file", json!("/etc/x.json"), Level::Warn, "[resource] scheduling");
}

#[test]
fn site_91_load_format() {
    for format in ["rv1exec", "jgf", "jgf_shorthand"] {
        resource_row("load-format", json!(format), Level::Ok, "nothing to set");
    }
    resource_row("load-format", json!("hwloc"), Level::Warn, "ignored");
    resource_row("load-format", json!("grug"), Level::Warn, "ignored");
    resource_row("load-format", json!("xml"), Level::Warn, "default rv1exec");
    let forced = resource(json!({"load-format": "rv1exec_force"}));
    let known = KEYS.iter().any(|key| key.name == "ignore-graph");
    let (level, text) = forced.line(&format!("{RESOURCE}.load-format"));
    assert_eq!(level, if known { Level::Ok } else { Level::Warn });
    assert!(text.contains("ignore-graph = true") && forced.toml().contains("ignore-graph = true"), "{text}");
}

#[test]
fn site_91_load_allowlist_is_for_hwloc() {
    resource_row("load-allowlist", json!("node,core,gpu,foo"), Level::Info, "hwloc");
}

#[test]
fn site_91_match_policy_becomes_the_placement() {
    for (policy, placement, level) in [
        ("first", "first", Level::Info),
        ("firstnodex", "firstnodex", Level::Info),
        ("low", "low", Level::Ok),
        ("high", "high", Level::Ok),
        ("lonode", "lonode", Level::Ok),
        ("hinode", "hinode", Level::Ok),
        ("lonodex", "lonodex", Level::Ok),
        ("hinodex", "hinodex", Level::Ok),
        ("locality", "locality", Level::Ok),
        ("variation", "variation", Level::Ok),
        ("policy=low node_centric=true node_exclusive=true stop_on_1_matches=true", "firstnodex", Level::Ok),
        ("policy=high node_centric=true node_exclusive=true", "hinodex", Level::Ok),
        ("policy=low set_stop_on_1_matches=true", "first", Level::Warn),
    ] {
        for key in ["match-policy", "policy"] {
            let done = resource_row(key, json!(policy), level, placement);
            assert_eq!(done.set("placement"), placement, "{policy}");
        }
    }
    resource_row("match-policy", json!("nosuch"), Level::Error, "accepted are first");
    resource_row("match-policy", json!(5), Level::Error, "accepted are first");
}

#[test]
fn site_91_match_policy_that_is_not_set_is_the_default_of_fluxion() {
    let done = resource(json!({}));
    assert_eq!(done.line(&format!("{RESOURCE}.match-policy")).0, Level::Info);
    assert_eq!(done.set("placement"), "first");
}

#[test]
fn site_91_match_policy_and_its_other_name_are_one_option() {
    let done = resource(json!({"match-policy": "low", "policy": "low"}));
    assert_eq!(done.line(&format!("{RESOURCE}.policy")).0, Level::Error);
}

#[test]
fn site_91_match_format() {
    // While this version has no such setting a line is at least an info, and the text has it as a comment.
    let known = KEYS.iter().any(|key| key.name == "record-format");
    let same = if known { Level::Ok } else { Level::Info };
    for (format, record, level, part) in [
        ("rv1_nosched", "rv1_nosched", same, ""),
        ("rv1_shorthand", "rv1_shorthand", same, ""),
        ("rv1", "rv1", Level::Warn, "rv1_shorthand is much smaller"),
        ("simple", "rv1_nosched", Level::Warn, "tools"),
        ("pretty_simple", "rv1_nosched", Level::Warn, "tools"),
        ("jgf", "rv1_nosched", Level::Warn, "tools"),
        ("jgf_shorthand", "rv1_nosched", Level::Warn, "tools"),
        ("rlite", "rv1_nosched", Level::Warn, "tools"),
        ("nosuch", "rv1_nosched", Level::Warn, "its default"),
    ] {
        let done = resource_row("match-format", json!(format), level, part);
        let line = format!("record-format = \"{record}\"");
        let comment = if known { "" } else { "# " };
        assert!(done.toml().lines().any(|there| there == format!("{comment}{line}")), "{}", done.toml());
        let text = done.line(&format!("{RESOURCE}.match-format")).1;
        assert_eq!(text.contains("recorded in shorthand by default"), !known, "{text}");
    }
    assert_eq!(resource(json!({})).line(&format!("{RESOURCE}.match-format")).0, Level::Info);
}

#[test]
fn site_91_subsystems() {
    resource_row("subsystems", json!("containment"), Level::Ok, "nothing");
    resource_row("subsystems", json!("containment:contains,containment:in"), Level::Ok, "nothing");
    resource_row("subsystems", json!("containment,power"), Level::Warn, "containment");
}

#[test]
fn site_91_reserve_vtx_vec_prune_filters_and_update_interval_are_ignored() {
    resource_row("reserve-vtx-vec", json!(200_000), Level::Info, "ignored");
    resource_row("reserve-vtx-vec", json!("foo"), Level::Info, "ignored");
    resource_row("prune-filters", json!("ALL:core,ALL:gpu"), Level::Info, "ignored");
    resource_row("update-interval", json!(5), Level::Info, "ignored");
}

#[test]
fn site_91_traverser() {
    resource_row("traverser", json!("simple"), Level::Ok, "nothing");
    resource_row("traverser", json!("flexible"), Level::Warn, "or_slot");
    resource_row("traverser", json!("fast"), Level::Error, "simple and flexible");
}

#[test]
fn site_91_an_unknown_key_of_the_resource_table_is_an_error() {
    resource_row("foo", json!(1), Level::Error, "known are match-policy");
    let done = Done::of(json!({ FEASIBILITY: {"foo": 1} }), &[]);
    assert_eq!(done.line(&format!("{FEASIBILITY}.foo")).0, Level::Error);
    let done = qmanager(json!({"foo": 1}));
    assert_eq!(done.line(&qkey("foo")).0, Level::Error);
}
