//! Tests of pages: their text, their small size, and that nothing breaks out of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fluxgate_web::{Answers, Asking, ROWS_MAX, Recorded, Source, render};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::made::{Made, NOW, SMALL, first_waiting};

/// The answers of a machine with racks of four nodes, every second node in one of two chassis of its rack.
struct Racked(Made);

impl Source for Racked {
    fn ask<'a>(&'a self, topic: &'a str, payload: Value) -> Asking<'a> {
        if topic != "sched-fluxgate.levels" {
            return self.0.ask(topic, payload);
        }
        // The last nodes are in no rack; ranks are dealt out to the racks in turn.
        let ranks = |rack: u64| (0..4).map(|k| k * 3 + rack).collect::<Vec<_>>();
        let text = |ranks: &[u64]| ranks.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let racks = (0..3).map(|rack| json!({"name": format!("rack{rack}"), "ranks": text(&ranks(rack))}));
        let chassis = (0..3).flat_map(|rack| {
            (0..2).map(move |half| {
                let ranks = &ranks(rack)[2 * half..2 * half + 2];
                json!({"name": format!("rack{rack}/chassis{half}"), "ranks": text(ranks)})
            })
        });
        let levels = json!({"levels": [
            {"type": "rack", "vertices": racks.collect::<Vec<_>>()},
            {"type": "chassis", "vertices": chassis.collect::<Vec<_>>()},
        ]});
        Box::pin(std::future::ready(Ok(levels)))
    }
}

fn page_of(made: impl Source, address: &str) -> String {
    let answers = Arc::new(Answers::new(made, Box::new(|| Duration::ZERO)));
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(render(&answers, address, NOW)).unwrap_or_else(|| panic!("{address}: no page"))
}

/// The text that a reader without a style sheet sees, one element of a block to a line; pictures only by their labels.
fn text_of(page: &str) -> String {
    let main = page.split("<main").nth(1).unwrap().split("</main>").next().unwrap();
    let mut out = String::new();
    let (mut rest, mut picture) = (main.split_once('>').unwrap().1, 0);
    while let Some((text, tag)) = rest.split_once('<') {
        if picture == 0 {
            out.push_str(text);
        }
        let (tag, after) = tag.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        match (name, tag.starts_with('/')) {
            ("svg", true) => picture -= 1,
            ("svg", false) => {
                picture += 1;
                if let Some(label) = tag.split("aria-label=\"").nth(1) {
                    out.push_str(&format!("[{}]", label.split('"').next().unwrap()));
                }
            }
            ("td" | "th" | "dt" | "dd" | "a" | "span" | "strong", true) => out.push(' '),
            ("tr" | "p" | "h1" | "h2" | "h3" | "li" | "div" | "section" | "dl" | "form" | "nav", true) => {
                out.push('\n')
            }
            _ => {}
        }
    }
    let lines = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

const PAGES: [&str; 10] = [
    "/",
    "/queue",
    "/queue?show=running&sort=-ran",
    "/queue?show=ended",
    "/machine",
    "/machine?text=n3",
    "/timeline",
    "/policies",
    "/reservations",
    "/node/3",
];

#[test]
fn feat_63_the_pages_as_text() {
    for (name, address) in [
        ("now", "/".to_owned()),
        ("queue", "/queue".to_owned()),
        ("queue_running", "/queue?show=running&sort=-ran".to_owned()),
        ("job_waiting", format!("/job/{}", first_waiting())),
        ("machine", "/machine".to_owned()),
        ("node", "/node/3".to_owned()),
        ("timeline", "/timeline".to_owned()),
        ("policies", "/policies".to_owned()),
        ("reservations", "/reservations".to_owned()),
    ] {
        insta::assert_snapshot!(
            name,
            text_of(&page_of(SMALL, &address)).replace("&lt;", "<").replace("&gt;", ">")
        );
    }
}

/// The texts of the parts of pictures under the pointer.
fn titles(page: &str) -> String {
    let titles = page.split("<title>").skip(2).map(|rest| rest.split("</title>").next().unwrap());
    titles.collect::<Vec<_>>().join("\n")
}

#[test]
fn feat_63_the_machine_is_in_the_racks_of_its_site() {
    let page = page_of(Racked(SMALL), "/machine?rack=1");
    insta::assert_snapshot!("racks", text_of(&page));
    insta::assert_snapshot!("racks_pictured", titles(&page_of(Racked(SMALL), "/machine")));
    let names: Vec<String> = page_of(Racked(SMALL), "/machine")
        .split("class=\"rack\"")
        .skip(1)
        .map(|rest| rest.split_once('>').unwrap().1.split('<').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["rack0", "rack1", "rack2", "n12 – n15"]);
    // A job's rows follow the racks.
    assert!(page_of(Racked(SMALL), "/node/3").contains("rack0/chassis0"));
}

#[test]
fn feat_63_reservations_are_in_the_pictures() {
    let machine = page_of(SMALL, "/machine");
    assert!(machine.contains("class=\"s-kept\" d=\"M") && machine.contains("id=\"p-window\""));
    // One node of these is neither held nor out.
    let reserved = text_of(&page_of(Made { nodes: 18, ..SMALL }, "/machine?state=reserved"));
    assert!(reserved.contains("n15 15 reserved 0 of 32 0 0 reservation dat-1 until"), "{reserved}");
    assert!(reserved.contains("1 reserved"), "{reserved}");
    let timeline = page_of(SMALL, "/timeline?span=6h");
    insta::assert_snapshot!(
        "timeline_reservations",
        titles(&timeline).lines().filter(|line| line.contains("dat")).collect::<Vec<_>>().join("\n")
    );
    assert!(text_of(&timeline).contains("reservation"));
    assert_eq!(timeline.matches("class=\"w m\"").count(), 2, "maintenance");
}

#[test]
fn feat_64_every_page_names_its_command_and_its_json() {
    for address in PAGES {
        let page = page_of(SMALL, address);
        let path = address.split('?').next().unwrap();
        let json = if path == "/" { "/now.json".to_owned() } else { format!("{path}.json") };
        assert!(page.contains("<code>fluxgate ") && page.contains(&format!("href=\"{json}")), "{address}");
    }
}

#[test]
fn feat_64_pages_of_a_large_machine_are_small_and_their_lists_short() {
    let large = Made { nodes: 8192, running: 3000, ended: 1000, waiting: 100_000, private: false };
    for address in PAGES {
        let page = page_of(large, address);
        let rows = page.matches("<tr>").count();
        assert!(page.len() < 300_000, "{address}: {} bytes", page.len());
        assert!(rows <= ROWS_MAX + 60, "{address}: {rows} rows");
    }
    // The whole machine is drawn, and each rack leads to its nodes.
    let machine = page_of(large, "/machine");
    assert!(machine.contains("8,192 nodes") && machine.matches("/machine?rack=").count() >= 64);
    assert!(machine.contains("data-host=\"n384\""), "a browser can name each node of a rack");
    let rack = page_of(large, "/machine?rack=3");
    assert!(rack.contains(">n384<") && rack.contains(">n511<"));
    let queue = page_of(large, "/queue?page=2");
    assert!(queue.contains("101–200") && queue.contains("100,000"), "the second part of the list");
}

#[test]
fn feat_67_nothing_in_a_page_is_code_and_nothing_foreign_is_loaded() {
    let job = format!("/job/{}", first_waiting());
    for address in PAGES.into_iter().chain([job.as_str()]) {
        let page = page_of(SMALL, address);
        assert_eq!(page.matches("<script").count(), 1, "{address}");
        assert!(page.contains("<script src=\"/live.js\" defer></script>"), "{address}");
        for word in [" style=", "<style", " onclick", " onload", "javascript:", "<b>evil", "//cdn", "url("] {
            assert!(!page.contains(word), "{address}: {word}");
        }
        let leads: BTreeSet<&str> =
            page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(
            leads.iter().all(|to| (to.starts_with('/') && !to.starts_with("//")) || *to == "#main"),
            "{leads:?}"
        );
    }
}

#[test]
fn feat_69_what_a_guest_is_not_told_is_not_shown_and_the_page_says_so() {
    let guest = Made { private: true, ..SMALL };
    let page = text_of(&page_of(guest, &format!("/job/{}", first_waiting())));
    assert!(page.contains("No answer: guests can only look into their own jobs"), "{page}");
    assert!(text_of(&page_of(guest, "/queue")).contains("No job waits here."));
}

#[test]
fn feat_71_states_differ_in_more_than_colour() {
    let page = page_of(SMALL, "/machine");
    // Down nodes have a mark, drained ones a pattern; every state stands in the legend with its name and its number.
    assert!(page.contains("class=\"s-mark\" d=\"M") && page.contains("id=\"p-drained\""));
    let text = text_of(&page);
    assert!(text.contains("14 full") && text.contains("1 drained") && text.contains("1 down"), "{text}");
}

#[test]
fn an_instance_without_a_scheduler_still_has_pages() {
    let answers = Arc::new(Answers::new(Recorded::default(), Box::new(|| Duration::ZERO)));
    let runtime = Builder::new_current_thread().build().unwrap();
    for address in PAGES {
        let page = runtime.block_on(render(&answers, address, NOW)).unwrap();
        assert!(page.contains("No Fluxgate scheduler answers"), "{address}");
    }
    for none in ["/nowhere", "/job/x", "/job/", "/node/", "/../etc/passwd"] {
        assert!(runtime.block_on(render(&answers, none, NOW)).is_none(), "{none}");
    }
}
