//! Pages of the past: which time is asked for, and the answers of then, kept for the last few times.
//!
//! The state of a time is found by something that has a journal ([`Past`]), which may take long: one at a time.
//!
//! Must never know a journal, or how a page looks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use tokio::sync::Semaphore;

use crate::answers::Answers;
use crate::known::Known;
use crate::page::Page;
use crate::page::query::{Query, encoded};
use crate::source::Past;

/// Most times whose answers are kept; each holds a whole machine with its jobs.
const KEPT_MAX: usize = 4;
/// Most viewers that wait for a time that is not kept.
const WAITING_MAX: usize = 16;
/// Most characters of a time that is none, in the words about it.
const WRONG_CHARS: usize = 64;
/// Accepted times, in words.
pub(crate) const ACCEPTED: &str = "accepted are 2026-11-23, 2026-11-23T12:00 and 2026-11-23T12:00:30, in UTC or with an offset such as \
                        +01:00 after them, and seconds since the epoch";

/// A time of the past, and how the address has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At {
    /// Seconds since the epoch.
    pub(crate) time: f64,
    /// As in the address, encoded.
    pub(crate) text: String,
}

impl At {
    /// The time in the part of an address after `?`, and that part without it. The error is for people.
    pub(crate) fn split(query: &str) -> (Option<Result<At, String>>, String) {
        let query = Query::read(query);
        let at = query.get("at").map(|text| match seconds(text) {
            Some(time) => Ok(At { time, text: encoded(text) }),
            None => {
                let wrong: String = text.chars().take(WRONG_CHARS).collect();
                Err(format!("{wrong:?} is no time: {ACCEPTED}."))
            }
        });
        let rest = query.with("at", "").on("");
        (at, rest.trim_start_matches('?').to_owned())
    }

    /// HTML with this time in each link to a page, and in each form.
    pub(crate) fn carried(&self, html: &str) -> String {
        let mut out = String::with_capacity(html.len());
        let mut rest = html;
        while let Some(found) = rest.find("href=\"/").into_iter().chain(rest.find("action=\"/")).min() {
            let is_link = rest[found..].starts_with('h');
            let value = found + rest[found..].find('/').unwrap_or_default();
            let end = value + rest[value..].find(if is_link { '"' } else { '>' }).unwrap_or_default();
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            match is_link {
                true => {
                    let sign = if out[out.len() - (end - value)..].contains('?') { "&amp;" } else { "?" };
                    out.push_str(&format!("{sign}at={}", self.text));
                }
                false => {
                    let value = crate::page::query::decoded(&self.text);
                    let value = maud::html! { input type="hidden" name="at" value=(value); }.into_string();
                    out.push('>');
                    out.push_str(&value);
                    rest = &rest[1..];
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// A time as an address may have it; see [`ACCEPTED`].
pub(crate) fn seconds(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(seconds).filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    }
    let found = text.parse::<Timestamp>().or_else(|_| {
        let time: DateTime = text.parse()?;
        Offset::UTC.to_timestamp(time)
    });
    Some(found.ok()?.as_duration().as_secs_f64())
}

/// The answers of the past, kept for the last few times.
#[derive(Clone)]
pub struct Times(Arc<Shared>);

struct Shared {
    past: Option<Box<dyn Past>>,
    began: Instant,
    kept: Mutex<VecDeque<(f64, Arc<Answers>)>>,
    waiting: Arc<Semaphore>,
    /// Held by the task that looks for a state.
    looks: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Times").field("past", &self.is_there()).finish_non_exhaustive()
    }
}

impl Times {
    /// The answers for the times that `past` knows; without it, no page of the past is shown.
    pub fn new(past: Option<Box<dyn Past>>) -> Times {
        Times(Arc::new(Shared {
            past,
            began: Instant::now(),
            kept: Mutex::default(),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            looks: tokio::sync::Mutex::default(),
        }))
    }

    /// Is anything known of the past?
    pub(crate) fn is_there(&self) -> bool {
        self.0.past.is_some()
    }

    /// The answers for a page as of then. The error is for people.
    pub(crate) async fn gather(&self, page: &Page, at: &At) -> Result<Known, String> {
        if let Some(why) = page.not_in_past() {
            return Err(why.to_owned());
        }
        let answers = self.answers(at.time).await?;
        Ok(page.gather(&answers, at.time).await)
    }

    async fn answers(&self, time: f64) -> Result<Arc<Answers>, String> {
        if !self.is_there() {
            return Err(
                "No journal was given: only the present is shown. fluxgate web --journal DIR shows the past."
                    .to_owned(),
            );
        }
        if let Some(kept) = self.0.kept(time) {
            return Ok(kept);
        }
        let Ok(place) = Arc::clone(&self.0.waiting).try_acquire_owned() else {
            return Err("Too many others wait for a time of the past. Try again later.".to_owned());
        };
        let shared = Arc::clone(&self.0);
        // A task of its own: a viewer that leaves must not have the next one begin before this one ends.
        let looking = tokio::spawn(async move {
            let _place = place;
            let _looks = shared.looks.lock().await;
            match shared.kept(time) {
                Some(kept) => Ok(kept),
                None => shared.look(time).await,
            }
        });
        looking.await.unwrap_or_else(|_| Err("The state of then could not be found.".to_owned()))
    }
}

impl Shared {
    fn kept(&self, time: f64) -> Option<Arc<Answers>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(of, _)| of.to_bits() == time.to_bits()).map(|(_, answers)| Arc::clone(answers))
    }

    async fn look(&self, time: f64) -> Result<Arc<Answers>, String> {
        let Some(past) = &self.past else { return Err(String::new()) };
        let (source, began) = (past.at(time).await?, self.began);
        let answers = Arc::new(Answers::new(source, Box::new(move || began.elapsed())));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((time, Arc::clone(&answers)));
        kept.truncate(KEPT_MAX);
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_66_times_of_addresses() {
        let noon = 1_795_435_200.0;
        for text in [
            "1795435200",
            "2026-11-23T12:00",
            "2026-11-23 12:00",
            "2026-11-23T12:00:00Z",
            "2026-11-23T13:00+01:00",
        ] {
            assert_eq!(seconds(text), Some(noon), "{text}");
        }
        assert_eq!(seconds("2026-11-23"), Some(noon - 43_200.0));
        for text in ["noon", "-5", "nan", "inf", "2026-13-01", "12:00"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        let (at, rest) = At::split("queue=a%26b&at=2026-11-23T12:00&sort=size");
        assert_eq!(at, Some(Ok(At { time: noon, text: "2026-11-23T12%3A00".to_owned() })));
        assert_eq!(rest, "queue=a%26b&sort=size");
        assert_eq!(At::split("queue=x"), (None, "queue=x".to_owned()));
        let words = At::split("at=<noon>").0.unwrap().unwrap_err();
        assert!(words.contains("<noon>") && words.contains("2026-11-23T12:00"), "{words}");
    }

    #[test]
    fn feat_66_links_and_forms_stay_in_the_past() {
        let at = At { time: 0.0, text: "1970%2B".to_owned() };
        let html = "<a href=\"/\">a</a><a href=\"/queue?x=1\">b</a><a href=\"#main\">c</a>\
                    <form class=\"f\" action=\"/queue\" role=\"search\"><input></form>";
        let wanted = "<a href=\"/?at=1970%2B\">a</a><a href=\"/queue?x=1&amp;at=1970%2B\">b</a><a href=\"#main\">c</a>\
                      <form class=\"f\" action=\"/queue\" role=\"search\"><input type=\"hidden\" name=\"at\" value=\"1970+\"><input></form>";
        assert_eq!(at.carried(html), wanted);
    }
}
