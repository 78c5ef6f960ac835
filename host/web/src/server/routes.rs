//! Answers by address, and their headers.
//!
//! Must never know how a page is made.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxgate_formats::JobId;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{Semaphore, mpsc};

use super::body::{self, Sent};
use super::door::{Door, Viewer, is_form_of, name_in};
use crate::answers::Answers;
use crate::known::Known;
use crate::live::Boards;
use crate::page::act::{Act, NoAct};
use crate::page::query::{Query, encoded};
use crate::page::reserve::UserOf;
use crate::page::{self, Chrome, Page};
use crate::past::{At, Times};

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/live.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// Nothing of another origin is loaded, nothing in a page is code, and no other page shows this one.
const POLICY: &str =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/// Most streams of events.
const STREAMS_MAX: usize = 256;
/// Longest time for a form.
const FORM_TIME: Duration = Duration::from_secs(10);
/// A line to a browser that has no news, so that both sides find out when the other is gone.
const STILL_THERE: Duration = Duration::from_secs(15);
/// Most sections that a browser says it has.
const HAVE_MAX: usize = 32;

/// State that all connections share.
pub(crate) struct Server {
    answers: Arc<Answers>,
    times: Times,
    chrome: Chrome,
    door: Door,
    /// The header in which a proxy tells the viewer's name.
    identity: Option<HeaderName>,
    began: Instant,
    clock: fn() -> f64,
    /// The user of a name.
    user_of: UserOf,
    announce: Box<dyn Fn(&str) + Send + Sync>,
    boards: Boards,
    streams: Arc<Semaphore>,
}

type Answer = Response<Sent>;

impl Server {
    pub(crate) fn new(
        (answers, times): (Arc<Answers>, Times),
        chrome: Chrome,
        (door, identity): (Door, Option<HeaderName>),
        began: Instant,
        (clock, user_of): (fn() -> f64, UserOf),
        announce: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Server {
        let (boards, streams) = (Boards::default(), Arc::new(Semaphore::new(STREAMS_MAX)));
        Server { answers, times, chrome, door, identity, began, clock, user_of, announce, boards, streams }
    }
}

fn typed(status: StatusCode, kind: &'static str, body: impl Into<Sent>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn html(status: StatusCode, page: maud::Markup) -> Answer {
    typed(status, "text/html; charset=utf-8", page.into_string())
}

fn elsewhere(to: &str) -> Answer {
    let mut answer = typed(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", String::new());
    if let Ok(to) = HeaderValue::from_str(to) {
        answer.headers_mut().insert(header::LOCATION, to);
    }
    answer
}

fn text_of(request: &Request<Incoming>, name: HeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}

/// The answer to a request, with the headers that all answers have.
pub(crate) async fn answer(server: Arc<Server>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let mut answer = routed(&server, request).await;
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(answer)
}

async fn routed(server: &Arc<Server>, request: Request<Incoming>) -> Answer {
    let host = text_of(&request, header::HOST);
    if !server.door.is_meant(host, text_of(&request, header::ORIGIN)) {
        let text = "This server is for requests to 127.0.0.1 or localhost, from its own pages.";
        return html(StatusCode::FORBIDDEN, page::message("Not here", text));
    }
    if *request.method() == Method::POST && request.uri().path() == "/act" && server.answers.control() {
        return act(server, request).await;
    }
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer =
            html(StatusCode::METHOD_NOT_ALLOWED, page::message("Read only", "Nothing can be changed here."));
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let past = Query::read(query).get("at").is_some();
    if past && matches!(path, "/metrics" | "/live" | "/act") {
        return not_then(StatusCode::NOT_FOUND, "This is of the present only.");
    }
    // These need no viewer: they tell nothing of an instance, or only facts that every user may know.
    match path {
        "/style.css" => return typed(StatusCode::OK, "text/css; charset=utf-8", STYLE.to_owned()),
        "/live.js" => return typed(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT.to_owned()),
        "/icon.svg" | "/favicon.ico" => return typed(StatusCode::OK, "image/svg+xml", ICON.to_owned()),
        "/metrics" => return metrics(server).await,
        "/enter" => return enter(server, query),
        _ => {}
    }
    let Some(viewer) = viewer(server, &request) else {
        return html(StatusCode::UNAUTHORIZED, page::locked());
    };
    match path {
        "/live" => live(server, query),
        "/act" if server.answers.control() => match Act::read(&Query::read(query), server.user_of) {
            Ok(act) => {
                let would = match act.dry_run() {
                    Some((topic, payload)) => Some(server.answers.would(topic, payload).await),
                    None => None,
                };
                let body = act.confirm(&server.chrome.program, &viewer.form, would.as_ref());
                html(StatusCode::OK, page::lone("Are you sure?", body))
            }
            Err(NoAct::Wrong(why)) => html(StatusCode::BAD_REQUEST, page::message("Nothing was done", &why)),
            Err(NoAct::Unknown) => lost(path),
        },
        "/find" => {
            let query = Query::read(query);
            let (to, at) = (found(query.get("text").unwrap_or_default()), query.get("at"));
            elsewhere(&at.map_or(to.clone(), |at| {
                format!("{to}{}at={}", if to.contains('?') { '&' } else { '?' }, encoded(at))
            }))
        }
        _ => match path.strip_suffix(".json") {
            Some(path) => json(server, path, query).await,
            None => shown(server, path, query).await,
        },
    }
}

/// The viewer of a request, if it has access.
fn viewer(server: &Server, request: &Request<Incoming>) -> Option<Viewer> {
    let name = server
        .identity
        .as_ref()
        .and_then(|header| name_in(request.headers().get_all(header).iter().map(HeaderValue::as_bytes)));
    server.door.viewer(text_of(request, header::COOKIE), name, server.began.elapsed())
}

/// A change that a viewer has confirmed with a form of this server.
async fn act(server: &Arc<Server>, request: Request<Incoming>) -> Answer {
    let Some(viewer) = viewer(server, &request) else {
        return html(StatusCode::UNAUTHORIZED, page::locked());
    };
    let form = tokio::time::timeout(FORM_TIME, body::read(request.into_body())).await.ok().flatten();
    let form = Query::read(&form.unwrap_or_default());
    let act = Act::read(&form, server.user_of).ok();
    let ours = is_form_of(&viewer, form.get("token").unwrap_or_default());
    let Some(act) = act.filter(|_| ours) else {
        let text = "This is no form of this server, or it is from another day. Open the page again.";
        return html(StatusCode::FORBIDDEN, page::message("Nothing was done", text));
    };
    let (topic, payload) = act.request(viewer.name.as_deref());
    match server.answers.change(topic, payload).await {
        Ok(_) => {
            tracing::info!(?act, viewer = viewer.name, "changed by a viewer");
            elsewhere(&act.back())
        }
        Err(refused) => html(StatusCode::CONFLICT, page::message("Nothing was done", &refused.to_string())),
    }
}

fn enter(server: &Arc<Server>, query: &str) -> Answer {
    let query = Query::read(query);
    let cookie = server.door.enter(query.get("key").unwrap_or_default(), server.began.elapsed());
    let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) else {
        return html(StatusCode::UNAUTHORIZED, page::locked());
    };
    if let Some(next) = server.door.invitation() {
        (server.announce)(&next);
    }
    let mut answer = html(StatusCode::OK, page::entered());
    answer.headers_mut().insert(header::SET_COOKIE, cookie);
    answer
}

async fn metrics(server: &Arc<Server>) -> Answer {
    let answer = server.answers.get("sched-fluxgate.metrics-get", serde_json::json!({})).await;
    match answer.as_ref().map(|answer| answer["metrics"].as_str()) {
        Ok(Some(text)) => typed(
            StatusCode::OK,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            text.to_owned(),
        ),
        Ok(None) => typed(StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", "no figures\n".to_owned()),
        Err(refused) => {
            typed(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", format!("{refused}\n"))
        }
    }
}

fn lost(path: &str) -> Answer {
    html(StatusCode::NOT_FOUND, page::message("No such page", &format!("There is nothing at {path}.")))
}

/// A page with its answers, of the present or of a time of the past; or the reply that takes its place. `soon`: an answer that
/// takes long may be missing.
async fn gathered(
    server: &Arc<Server>,
    path: &str,
    query: &str,
    soon: bool,
) -> Result<(Page, Known, Option<At>, StatusCode), Answer> {
    let (at, query) = At::split(query);
    let Some(page) = Page::read(path, &query) else { return Err(lost(path)) };
    let at = at.transpose().map_err(|wrong| not_then(StatusCode::BAD_REQUEST, &wrong))?;
    let known = match &at {
        Some(at) => {
            let known = server.times.gather(&page, at).await;
            known.map_err(|why| not_then(StatusCode::NOT_FOUND, &why))?
        }
        None if soon => page.gather_soon(&server.answers, (server.clock)()).await,
        None => page.gather(&server.answers, (server.clock)()).await,
    };
    let status = if known.gone().is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    Ok((page, known, at, status))
}

fn not_then(status: StatusCode, why: &str) -> Answer {
    html(status, page::message("Not as of then", why))
}

async fn shown(server: &Arc<Server>, path: &str, query: &str) -> Answer {
    match gathered(server, path, query, true).await {
        Ok((page, known, at, status)) => {
            html(status, page::frame(&server.chrome, &page, &known, &page.show(&known), at.as_ref()))
        }
        Err(instead) => instead,
    }
}

async fn json(server: &Arc<Server>, path: &str, query: &str) -> Answer {
    match gathered(server, path, query, false).await {
        Ok((_, known, _, status)) => typed(status, "application/json", known.to_json().to_string()),
        Err(instead) => instead,
    }
}

/// The address of the page of a job or a node of this name.
fn found(text: &str) -> String {
    match text.trim().parse::<JobId>() {
        // A bare number of few digits is a rank; ids of jobs are long.
        Ok(id) if id.0 > 1 << 24 => format!("/job/{}", id.0),
        _ if text.trim().is_empty() => "/".to_owned(),
        _ => format!("/machine?text={}", encoded(text.trim())),
    }
}

/// Changes of a page, as long as the browser listens.
fn live(server: &Arc<Server>, query: &str) -> Answer {
    let query = Query::read(query);
    let address = query.get("page").unwrap_or("/");
    let (path, of_page) = address.split_once('?').unwrap_or((address, ""));
    // The past does not change.
    let (None, of_page) = At::split(of_page) else { return lost(path) };
    let Some(page) = Page::read(path, &of_page) else { return lost(path) };
    let full = || {
        let text = "Too many pages are watched: this one is not live.";
        html(StatusCode::SERVICE_UNAVAILABLE, page::message("Not live", text))
    };
    let Ok(place) = Arc::clone(&server.streams).try_acquire_owned() else { return full() };
    let Some(mut watching) = server.boards.watch(page, &server.answers, server.clock) else { return full() };
    let mut have: BTreeMap<String, String> = query
        .get("have")
        .unwrap_or_default()
        .split(',')
        .filter_map(|one| one.split_once(':'))
        .take(HAVE_MAX)
        .map(|(id, hash)| (id.to_owned(), hash.to_owned()))
        .collect();
    // One event: a browser that reads slowly gets the next one later, with all that changed meanwhile.
    let (events, sent) = mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        let mut text = String::from("retry: 2000\n\n");
        loop {
            // The first answer for a page without viewers is empty.
            if let Some(news) = watching.looks.borrow_and_update().news(&mut have) {
                let _ = write!(text, "data: {news}\n\n");
            }
            if !text.is_empty() && events.send(std::mem::take(&mut text).into()).await.is_err() {
                break;
            }
            tokio::select! {
                changed = watching.looks.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(STILL_THERE) => text.push_str(":\n\n"),
                () = events.closed() => break,
            }
        }
        drop(place);
    });
    typed(StatusCode::OK, "text/event-stream", Sent::Events(sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_a_job_or_a_node() {
        assert_eq!(found("ƒ2HFLAg1zL"), format!("/job/{}", "ƒ2HFLAg1zL".parse::<JobId>().unwrap().0));
        assert_eq!(found(" node17 "), "/machine?text=node17");
        assert_eq!(found("17"), "/machine?text=17");
        assert_eq!(found("//evil.example"), "/machine?text=%2F%2Fevil.example");
        assert_eq!(found(""), "/");
    }
}
