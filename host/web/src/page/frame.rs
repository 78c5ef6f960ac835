//! The frame of every page: head, menu, foot; and the pages that are no pages of an instance.
//!
//! Must never know what a section says.

use maud::{DOCTYPE, Markup, html};

use super::{MENU, Page, Shown};
use crate::draw;
use crate::known::Known;
use crate::live::hash;
use crate::past::At;
use crate::words;

/// Settings that all pages of a server share.
#[derive(Debug, Clone)]
pub(crate) struct Chrome {
    /// The name of the instance.
    pub(crate) instance: String,
    /// The word before a command: `fluxgate`, or `flux gate`.
    pub(crate) program: String,
    /// Pages of the past can be shown.
    pub(crate) past: bool,
}

fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " · Fluxgate" }
        link rel="stylesheet" href="/style.css";
        link rel="icon" href="/icon.svg" type="image/svg+xml";
    }
}

/// The whole page; of the past with its time.
pub(crate) fn frame(chrome: &Chrome, page: &Page, known: &Known, shown: &Shown, at: Option<&At>) -> Markup {
    let address = page.address();
    let carried = |part: Markup| match at {
        Some(at) => maud::PreEscaped(at.carried(&part.into_string())),
        None => part,
    };
    let title = match at {
        Some(at) => format!("{} as of {}", shown.title, words::date_time(at.time)),
        None => shown.title.clone(),
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&title))
                @if known.is_late() {
                    noscript { meta http-equiv="refresh" content="2"; }
                }
                script src="/live.js" defer {}
            }
            body data-address=[at.is_none().then_some(&address)] {
                a class="skip" href="#main" { "Skip to the content" }
                (carried(html! { header {
                    a class="brand" href="/" { (logo()) span { "fluxgate" } }
                    nav aria-label="Pages" {
                        @for (number, (to, name)) in MENU.iter().enumerate() {
                            a href=(to) accesskey=(number + 1)
                                aria-current=[(*to == page.entry()).then_some("page")] { (name) }
                        }
                    }
                    form class="find" action="/find" role="search" {
                        input type="search" name="text" placeholder="Job or node" aria-label="Find a job or a node"
                            autocomplete="off" maxlength="64";
                    }
                    p class="as-of" {
                        @if at.is_none() { span id="live" class="dot" title="Not live: reload the page for news" {} }
                        span id="as-of" { (as_of(known)) }
                    }
                } }))
                main id="main" {
                    (draw::patterns())
                    @if let Some(at) = at { (banner(at, &address)) }
                    @for section in &shown.sections {
                        @let body = section.body.clone().into_string();
                        section id=(section.id) data-hash=[at.is_none().then(|| hash(&body))] {
                            (carried(maud::PreEscaped(body)))
                        }
                    }
                }
                footer {
                    p {
                        @if at.is_none() { "The same in a terminal: " code { (chrome.program) " " (shown.command) } " · " }
                        "as JSON: " (carried(html! { a href=(json_address(&address)) { "this page" } }))
                        @if at.is_none() { " · " a href="/metrics" { "metrics" } }
                    }
                    @if chrome.past && page.not_in_past().is_none() { (another_time(&address, at)) }
                    p { (chrome.instance) " · times are UTC · keys: " kbd { "1" } "–" kbd { (MENU.len()) } " pages, "
                        kbd { "/" } " find, " kbd { "j" } " " kbd { "k" } " rows" }
                }
            }
        }
    }
}

/// The notice at the head of a page of the past.
fn banner(at: &At, address: &str) -> Markup {
    html! {
        p class="alarm" id="past" {
            "As of " (words::date_time(at.time)) " UTC, from the journal. "
            a href=(address) { "To the present" }
            ". A journal does not have the names of jobs, their events, which jobs had ended, and which nodes were drained."
        }
    }
}

/// A form for the same page as of another time.
fn another_time(address: &str, at: Option<&At>) -> Markup {
    let path = address.split_once('?').map_or(address, |(path, _)| path);
    let value = at.map(|at| words::instant(at.time));
    html! {
        form class="filter" action=(path) {
            label { "This page as of, UTC " input type="datetime-local" name="at" step="1" required value=[value]; }
            button { "Show" }
        }
    }
}

/// The time of a page.
pub(crate) fn as_of(known: &Known) -> String {
    words::date_time(known.now())
}

/// The address of a page's answers as JSON.
fn json_address(address: &str) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let path = if path == "/" { "/now" } else { path };
    if query.is_empty() { format!("{path}.json") } else { format!("{path}.json?{query}") }
}

/// A gate: bars of different lengths, one of them let through.
fn logo() -> Markup {
    html! {
        svg class="logo" viewBox="0 0 24 24" aria-hidden="true" {
            path class="logo-a" d="M3 4h11v4H3z" {}
            path class="logo-b" d="M10 10h11v4H10z" {}
            path class="logo-c" d="M3 16h7v4H3z" {}
        }
    }
}

/// A page with one message.
pub(crate) fn message(title: &str, text: &str) -> Markup {
    lone(title, html! { h1 { (title) } p { (text) } p { a href="/" { "To the first page" } } })
}

/// A page that says one thing.
pub(crate) fn lone(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head(title)) }
            body {
                header { a class="brand" href="/" { (logo()) span { "fluxgate" } } }
                main { section class="lone" { (body) } }
            }
        }
    }
}

/// The page for a viewer without a cookie.
pub(crate) fn locked() -> Markup {
    message(
        "A key is needed",
        "Open the address that `fluxgate web` printed last. It holds a key that is good for one use; the next one is printed \
         when it has been used.",
    )
}

/// The page for a viewer that came with a key. It leads on to the first page from here, so that the cookie goes along.
pub(crate) fn entered() -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head("Welcome")) meta http-equiv="refresh" content="0;url=/"; }
            body { main { section class="lone" { p { a href="/" { "To the first page" } } } } }
        }
    }
}
