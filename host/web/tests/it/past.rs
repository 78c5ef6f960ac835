//! Pages as of a time of the past.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxgate_web::{Asking, Looking, Past, Refused, Source, Times, render_past};
use serde_json::Value;
use tokio::runtime::Builder;

use super::made::{Made, NOW, SMALL, first_waiting};

/// A journal of one hour, which ends at the time of the made instance.
#[derive(Default)]
struct Hour {
    looked: Arc<AtomicU64>,
}

/// The made instance as a journal tells it, at a time.
struct Then(Made, f64);

impl Source for Then {
    fn ask<'a>(&'a self, topic: &'a str, payload: Value) -> Asking<'a> {
        let refused =
            |text: &str| Box::pin(std::future::ready(Err(Refused { errnum: 2, text: text.to_owned() })));
        match topic {
            "fluxgate-instance.info" => Box::pin(std::future::ready(Ok(serde_json::json!({"now": self.1})))),
            "job-list.list" if payload["constraint"]["states"][0] == 64 => refused("not in a journal"),
            "resource.status" | "job-info.lookup" => refused("not in a journal"),
            _ => self.0.ask(topic, payload),
        }
    }
}

impl Past for Hour {
    fn at(&self, time: f64) -> Looking<'_> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        let found = match (NOW - 3600.0..=NOW).contains(&time) {
            true => Ok(Box::new(Then(SMALL, time)) as Box<dyn Source>),
            false => Err("The journal tells of times between A and B.".to_owned()),
        };
        Box::pin(std::future::ready(found))
    }
}

fn pages(times: &Times, addresses: &[String]) -> Vec<Result<String, String>> {
    let runtime = Builder::new_current_thread().build().unwrap();
    let page = |address: &String| {
        runtime.block_on(render_past(times, address)).unwrap_or_else(|| panic!("{address}: no page"))
    };
    addresses.iter().map(page).collect()
}

#[test]
fn feat_66_pages_of_the_past_say_so_and_stay_there() {
    let hour = Hour::default();
    let looked = Arc::clone(&hour.looked);
    let times = Times::new(Some(Box::new(hour)));
    let at = NOW - 60.0;
    let job = format!("/job/{}", first_waiting());
    let addresses =
        ["/", "/queue", "/queue?show=running", &job, "/machine", "/node/3", "/timeline", "/reservations"];
    let addresses =
        addresses.map(|page| format!("{page}{}at={at}", if page.contains('?') { '&' } else { '?' }));
    for (address, page) in addresses.iter().zip(pages(&times, &addresses)) {
        let page = page.unwrap_or_else(|why| panic!("{address}: {why}"));
        assert!(page.contains("As of 2025-11-23 12:12:20 UTC, from the journal"), "{address}: {page}");
        // Nothing is live, and nothing can be changed.
        assert!(!page.contains("data-address") && !page.contains("id=\"live\""), "{address}");
        assert!(!page.contains("/act?") && !page.contains("href=\"/metrics\""), "{address}");
        // One link leads to the present: the one that says so.
        let body = page.split("<body").nth(1).unwrap();
        let present = body.split("href=\"/").skip(1).filter(|link| {
            let to = link.split('"').next().unwrap();
            !to.contains("at=")
        });
        assert_eq!(present.count(), 1, "{address}: {body}");
        assert!(body.contains("<input type=\"hidden\" name=\"at\" value=\""), "{address}: forms stay too");
    }
    assert_eq!(looked.load(Ordering::SeqCst), 1, "the state of a time is found once");
    let ended = pages(&times, &[format!("/queue?show=ended&at={at}")]).remove(0).unwrap();
    assert!(ended.contains("No answer: not in a journal") && !ended.contains("No job has ended"), "{ended}");
}

#[test]
fn feat_66_what_is_no_time_of_the_journal_is_refused_with_what_is_accepted() {
    let times = Times::new(Some(Box::new(Hour::default())));
    let none = Times::new(None);
    for (times, address, word) in [
        (&times, "/?at=yesterday", "2026-11-23T12:00"),
        (&times, "/queue?at=12", "between A and B"),
        (&times, "/policies?at=1763899990", "not in a journal"),
        (&none, "/?at=1763899990", "--journal"),
    ] {
        let why = pages(times, &[address.to_owned()]).remove(0).unwrap_err();
        assert!(why.contains(word), "{address}: {why}");
    }
}

#[test]
fn feat_66_the_number_of_kept_times_is_bounded() {
    let hour = Hour::default();
    let looked = Arc::clone(&hour.looked);
    let times = Times::new(Some(Box::new(hour)));
    let address = |back: u32| format!("/queue?at={}", NOW - f64::from(back));
    for back in [1, 2, 3, 4, 5, 5, 4, 1] {
        pages(&times, &[address(back)]).remove(0).unwrap();
    }
    // The first has given way to the fifth.
    assert_eq!(looked.load(Ordering::SeqCst), 6);
}
