//! A dashboard: pages about an instance over HTTP, for browsers, and the same in a terminal.
//!
//! The server is a process of its own and a client of the broker: no HTTP is in the scheduler, and the server shows nothing that
//! its user may not ask. A page is made on the server and needs no script; a small one sends for changes.
//!
//! - `source.rs` asks an instance; `answers.rs` keeps answers, so that many viewers cost the same as one.
//! - `known.rs` has the answers for a page; `machine.rs`, `reserved.rs`, `jobs.rs` and `metrics.rs` read them.
//! - `summary.rs` puts them into words and numbers; `rates.rs` has the changes between two looks at the counters.
//! - `terminal/` shows them in a terminal.
//! - `past.rs` has the answers of times of the past.
//! - `page/` makes pages of answers, `draw/` their pictures.
//! - `live.rs` finds the changes of pages that are watched.
//! - `server/` has HTTP: access, answers, and their bounds.
//!
//! Must never know how a schedule is made, and must never change anything unless it was started with control.

#![forbid(unsafe_code)]

mod answers;
mod draw;
pub mod explained;
mod jobs;
mod known;
mod live;
mod machine;
mod metrics;
mod page;
mod past;
pub mod rates;
mod reserved;
mod server;
mod source;
mod summary;
pub mod terminal;
pub mod words;

use std::sync::Arc;

pub use answers::{Answers, Elapsed, KEPT_MAX, KEPT_MIN};
pub use page::ROWS_MAX;
pub use past::Times;
pub use server::{Listen, Options, ServeError, serve};
pub use source::{Asking, Live, Looking, Past, Recorded, Refused, Source};

/// Text of a page of this address as it is served, made from the answers of `source`; `None` where there is no such page. For
/// tests and measurements: `clock` is the time of an instance that tells none, seconds since the epoch.
pub async fn render(answers: &Arc<Answers>, address: &str, clock: f64) -> Option<String> {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let page = page::Page::read(path, query)?;
    let known = page.gather(answers, clock).await;
    Some(page::frame(&recorded(false), &page, &known, &page.show(&known), None).into_string())
}

/// The same of an address with a time, `?at=`, from the answers of `times`. `None` without such a page or without a time; the error says
/// why the page cannot be shown.
pub async fn render_past(times: &Times, address: &str) -> Option<Result<String, String>> {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let (at, query) = past::At::split(query);
    let page = page::Page::read(path, &query)?;
    let at = match at? {
        Ok(at) => at,
        Err(wrong) => return Some(Err(wrong)),
    };
    let known = times.gather(&page, &at).await;
    Some(known.map(|known| {
        page::frame(&recorded(true), &page, &known, &page.show(&known), Some(&at)).into_string()
    }))
}

fn recorded(past: bool) -> page::Chrome {
    page::Chrome { instance: "local:///recorded".to_owned(), program: "fluxgate".to_owned(), past }
}
