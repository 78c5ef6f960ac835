//! The pages: their addresses, their questions, and their looks. A page is a function of its answers ([`Known`]).
//!
//! A page consists of sections with names. Sections that changed are sent again to the clients that watch the page, so a section
//! must say the same as long as nothing changed. No list has more rows than [`ROWS_MAX`].
//!
//! Must never know the clients that watch, or how a page is sent.

pub(crate) mod act;
mod frame;
pub(crate) mod job;
mod machine;
mod node;
mod now;
mod policies;
pub(crate) mod query;
mod queue;
mod reservations;
pub(crate) mod reserve;
mod timeline;

use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};

use crate::answers::Answers;
use crate::known::{Ask, Known};
use crate::summary;
use query::Query;

pub(crate) use frame::{Chrome, entered, frame, locked, lone, message};

/// Most rows of a list.
pub const ROWS_MAX: usize = 200;
/// Longest time that the first page waits for expected starts.
const SOON: Duration = Duration::from_millis(50);

/// A page, with what its address says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Page {
    Now,
    Queue(Query),
    Job(u64),
    Machine(Query),
    Node(String),
    Timeline(Query),
    Policies,
    Reservations,
}

/// A part of a page that is sent again when it has changed.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) body: Markup,
}

/// A page as it looks now.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) title: String,
    /// The command that prints the same in a terminal.
    pub(crate) command: String,
    pub(crate) sections: Vec<Section>,
}

/// The pages of the menu.
pub(crate) const MENU: [(&str, &str); 6] = [
    ("/", "Now"),
    ("/queue", "Queue"),
    ("/machine", "Machine"),
    ("/timeline", "Timeline"),
    ("/policies", "Policies"),
    ("/reservations", "Reservations"),
];

impl Page {
    /// The page of an address.
    pub(crate) fn read(path: &str, query: &str) -> Option<Page> {
        let query = Query::read(query);
        Some(match path {
            "/" | "/now" => Page::Now,
            "/queue" => Page::Queue(query),
            "/machine" => Page::Machine(query),
            "/timeline" => Page::Timeline(query),
            "/policies" => Page::Policies,
            "/reservations" => Page::Reservations,
            _ => match path.strip_prefix('/')?.split_once('/')? {
                ("job", id) => Page::Job(query::decoded(id).parse::<fluxgate_formats::JobId>().ok()?.0),
                ("node", node) if !node.is_empty() => Page::Node(query::decoded(node)),
                _ => return None,
            },
        })
    }

    /// Its address.
    pub(crate) fn address(&self) -> String {
        match self {
            Page::Now => "/".to_owned(),
            Page::Queue(query) => query.on("/queue"),
            Page::Job(id) => format!("/job/{id}"),
            Page::Machine(query) => query.on("/machine"),
            Page::Node(node) => format!("/node/{}", query::encoded(node)),
            Page::Timeline(query) => query.on("/timeline"),
            Page::Policies => "/policies".to_owned(),
            Page::Reservations => "/reservations".to_owned(),
        }
    }

    /// The entry of the menu that it belongs to.
    pub(crate) fn entry(&self) -> &'static str {
        match self {
            Page::Now => "/",
            Page::Queue(_) | Page::Job(_) => "/queue",
            Page::Machine(_) | Page::Node(_) => "/machine",
            Page::Timeline(_) => "/timeline",
            Page::Policies => "/policies",
            Page::Reservations => "/reservations",
        }
    }

    /// The reason why a journal cannot tell it, if it cannot.
    pub(crate) fn not_in_past(&self) -> Option<&'static str> {
        let text =
            "Which policies were loaded is not in a journal. The page Now names the policy that decided.";
        (*self == Page::Policies).then_some(text)
    }

    /// Asks for the answers that it needs; `clock` is real time, seconds since the epoch.
    pub(crate) async fn gather(&self, answers: &Arc<Answers>, clock: f64) -> Known {
        self.gather_for(answers, Known::at(clock, answers.control())).await
    }

    /// The same for a person who waits for the page: an answer that takes long is sent later to a page that changes.
    pub(crate) async fn gather_soon(&self, answers: &Arc<Answers>, clock: f64) -> Known {
        let known = Known::at(clock, answers.control());
        let known = if *self == Page::Now { known.within(SOON) } else { known };
        self.gather_for(answers, known).await
    }

    async fn gather_for(&self, answers: &Arc<Answers>, mut known: Known) -> Known {
        known.ask(answers, &[Ask::Info, Ask::Stats]).await;
        let asks: Vec<Ask> = match self {
            Page::Now => vec![
                Ask::Policies,
                Ask::Metrics,
                Ask::Order,
                Ask::Running,
                Ask::Ended,
                Ask::Resources,
                Ask::Levels,
                Ask::Drains,
                Ask::Reservations,
            ],
            Page::Queue(query) => match query.get("show") {
                Some("running") => vec![Ask::Running],
                Some("ended") => vec![Ask::Ended],
                _ => vec![Ask::Order],
            },
            Page::Job(id) => return job::gather(*id, answers, known).await,
            Page::Machine(_) => {
                vec![Ask::Resources, Ask::Levels, Ask::Drains, Ask::Running, Ask::Reservations]
            }
            Page::Node(node) => {
                vec![Ask::Node(node.clone()), Ask::Resources, Ask::Levels, Ask::Drains, Ask::Reservations]
            }
            Page::Timeline(_) => {
                vec![Ask::Order, Ask::Running, Ask::Ended, Ask::Resources, Ask::Levels, Ask::Reservations]
            }
            Page::Policies => vec![Ask::Policies],
            Page::Reservations => vec![Ask::Reservations],
        };
        known.ask(answers, &asks).await;
        if *self == Page::Policies {
            let name = known.get("policies")["active"].as_str().unwrap_or_default().to_owned();
            if !name.is_empty() {
                known.ask(answers, &[Ask::Policy(name)]).await;
            }
        }
        known
    }

    /// How it looks.
    pub(crate) fn show(&self, known: &Known) -> Shown {
        let mut shown = match self {
            Page::Now => now::show(known),
            Page::Queue(query) => queue::show(known, query),
            Page::Job(id) => job::show(known, *id),
            Page::Machine(query) => machine::show(known, query),
            Page::Node(node) => node::show(known, node),
            Page::Timeline(query) => timeline::show(known, query),
            Page::Policies => policies::show(known),
            Page::Reservations => reservations::show(known),
        };
        shown.sections.insert(0, Section { id: "trouble", body: trouble(known) });
        shown
    }
}

/// Warnings for operators, on every page.
fn trouble(known: &Known) -> Markup {
    html! {
        @for (bad, text) in summary::trouble(known) {
            p class=(if bad { "alarm bad" } else { "alarm" }) { (text) }
        }
    }
}

/// The reason why an answer is missing, in the place of the answer.
fn missing(known: &Known, name: &str) -> Markup {
    html! {
        @if let Some(why) = known.refusal(name) { p class="none" { "No answer: " (why) } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::source::{Asking, Source};

    /// Expected starts are found when there is a permit.
    struct Slow(Arc<Semaphore>);

    impl Source for Slow {
        fn ask<'a>(&'a self, topic: &'a str, _: Value) -> Asking<'a> {
            Box::pin(async move {
                if topic == "sched-fluxgate.order" {
                    drop(self.0.acquire().await);
                }
                Ok(
                    json!({"jobs": [{"id": 17, "expected": 40.0, "as": "forecast", "nodes": 1, "duration": 60.0}]}),
                )
            })
        }
    }

    #[test]
    fn the_first_page_does_not_wait_for_expected_starts() {
        let found = Arc::new(Semaphore::new(0));
        let answers = Answers::new(Slow(Arc::clone(&found)), Box::new(|| Duration::ZERO));
        let answers = Arc::new(answers);
        let chrome =
            Chrome { instance: "local:///slow".to_owned(), program: "fluxgate".to_owned(), past: false };
        let text =
            |known: &Known| frame(&chrome, &Page::Now, known, &Page::Now.show(known), None).into_string();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let first = text(&Page::Now.gather_soon(&answers, 10.0).await);
            assert!(first.contains("it takes a moment, and comes by itself"), "{first}");
            assert!(
                first.contains(r#"<noscript><meta http-equiv="refresh" content="2"></noscript>"#),
                "{first}"
            );
            assert!(!first.contains("No start is expected"), "{first}");
            found.add_permits(1);
            // Viewers with a script are sent this.
            let then = text(&Page::Now.gather(&answers, 10.0).await);
            let again = text(&Page::Now.gather_soon(&answers, 10.0).await);
            for page in [then, again] {
                assert!(page.contains("forecast") && !page.contains("noscript"), "{page}");
            }
        });
    }
}
