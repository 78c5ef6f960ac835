//! Changes from a page, if the server was started with control. Each change is shown with its consequence and the command that
//! does the same, and is made only after a second click.
//!
//! Must never change anything itself.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::query::Query;
use super::reserve::{Reserve, UserOf, would_be};
use crate::known::rows;
use crate::source::Refused;
use crate::words;

/// The requests about reservations.
const CREATE: &str = "sched-fluxgate.reservation-create";
const END: &str = "sched-fluxgate.reservation-end";
const CANCEL: &str = "sched-fluxgate.reservation-cancel";

/// A change that a viewer asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    Cancel(u64),
    Urgency(u64, u8),
    Swap(String),
    Rollback,
    Shadow(String),
    EndShadow(String),
    Promote(String),
    /// Make a reservation.
    Reserve(Box<Reserve>),
    /// A reservation, by name, ends now, with all times that it would come again.
    EndReservation(String),
    /// A reservation, by name, is forgotten.
    CancelReservation(String),
}

/// The reason why a request is no change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoAct {
    /// It names no change.
    Unknown,
    /// A field is wrong; the reason in words.
    Wrong(String),
}

impl Act {
    /// The change that an address or a form names.
    pub(crate) fn read(query: &Query, user_of: UserOf) -> Result<Act, NoAct> {
        match query.get("do") {
            Some("reserve") => {
                let form = Reserve::read(query, user_of).map_err(NoAct::Wrong)?;
                Ok(Act::Reserve(Box::new(form)))
            }
            _ => Act::named(query).ok_or(NoAct::Unknown),
        }
    }

    fn named(query: &Query) -> Option<Act> {
        let job = || query.get("job").and_then(|id| id.parse().ok());
        Some(match query.get("do")? {
            "cancel" => Act::Cancel(job()?),
            "urgency" => {
                let urgency =
                    query.get("urgency").and_then(|value| value.parse().ok()).filter(|value| *value <= 31);
                Act::Urgency(job()?, urgency?)
            }
            "swap" => Act::Swap(query.get("policy")?.to_owned()),
            "shadow" => Act::Shadow(query.get("policy")?.to_owned()),
            "shadow-stop" => Act::EndShadow(query.get("policy")?.to_owned()),
            "promote" => Act::Promote(query.get("policy")?.to_owned()),
            "rollback" => Act::Rollback,
            "reservation-end" => Act::EndReservation(query.get("name")?.to_owned()),
            "reservation-cancel" => Act::CancelReservation(query.get("name")?.to_owned()),
            _ => return None,
        })
    }

    /// The fields by which it is read again.
    fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Act::Cancel(id) => vec![("do", "cancel".to_owned()), ("job", id.to_string())],
            Act::Urgency(id, urgency) => {
                vec![("do", "urgency".to_owned()), ("job", id.to_string()), ("urgency", urgency.to_string())]
            }
            Act::Swap(policy) => vec![("do", "swap".to_owned()), ("policy", policy.clone())],
            Act::Shadow(policy) => vec![("do", "shadow".to_owned()), ("policy", policy.clone())],
            Act::EndShadow(policy) => vec![("do", "shadow-stop".to_owned()), ("policy", policy.clone())],
            Act::Promote(policy) => vec![("do", "promote".to_owned()), ("policy", policy.clone())],
            Act::Rollback => vec![("do", "rollback".to_owned())],
            Act::Reserve(form) => {
                std::iter::once(("do", "reserve".to_owned())).chain(form.fields()).collect()
            }
            Act::EndReservation(name) => vec![("do", "reservation-end".to_owned()), ("name", name.clone())],
            Act::CancelReservation(name) => {
                vec![("do", "reservation-cancel".to_owned()), ("name", name.clone())]
            }
        }
    }

    /// Topic and payload; with the name of the viewer for the scheduler's audit trail and the events of the job, where it is known.
    pub(crate) fn request(&self, viewer: Option<&str>) -> (&'static str, Value) {
        let (topic, mut payload) = self.plain_request();
        match (self, viewer) {
            (Act::Urgency(..), _) => {}
            (Act::Cancel(_), Some(name)) => {
                payload["note"] = format!("canceled by {name} on the dashboard").into()
            }
            (Act::Cancel(_), None) => {}
            (_, name) => payload["as"] = name.unwrap_or("a viewer of the dashboard").into(),
        }
        (topic, payload)
    }

    /// The request that tells the effect beforehand, where there is one.
    pub(crate) fn dry_run(&self) -> Option<(&'static str, Value)> {
        match self {
            Act::Swap(policy) => {
                Some(("sched-fluxgate.policy-swap", json!({"name": policy, "queue": null, "dry_run": true})))
            }
            Act::Promote(policy) => {
                Some(("sched-fluxgate.policy-diff", json!({"name": policy, "queue": null})))
            }
            Act::Reserve(form) => Some((CREATE, form.payload(true))),
            Act::EndReservation(name) => Some((END, json!({"name": name, "dry_run": true}))),
            Act::CancelReservation(name) => Some((CANCEL, json!({"name": name, "dry_run": true}))),
            _ => None,
        }
    }

    fn plain_request(&self) -> (&'static str, Value) {
        let shadow = |policy: &str, stop: bool| {
            ("sched-fluxgate.policy-shadow", json!({"name": policy, "queue": null, "stop": stop}))
        };
        match self {
            Act::Cancel(id) => ("job-manager.raise", json!({"id": id, "type": "cancel", "severity": 0})),
            Act::Urgency(id, urgency) => ("job-manager.urgency", json!({"id": id, "urgency": urgency})),
            Act::Swap(policy) => {
                ("sched-fluxgate.policy-swap", json!({"name": policy, "queue": null, "probation": null}))
            }
            Act::Rollback => ("sched-fluxgate.policy-rollback", json!({"queue": null})),
            Act::Reserve(form) => (CREATE, form.payload(false)),
            Act::EndReservation(name) => (END, json!({ "name": name })),
            Act::CancelReservation(name) => (CANCEL, json!({ "name": name })),
            Act::Shadow(policy) => shadow(policy, false),
            Act::EndShadow(policy) => shadow(policy, true),
            Act::Promote(policy) => {
                ("sched-fluxgate.policy-promote", json!({"name": policy, "queue": null, "probation": null}))
            }
        }
    }

    /// The page on which its consequence is seen.
    pub(crate) fn back(&self) -> String {
        match self {
            Act::Cancel(id) | Act::Urgency(id, _) => format!("/job/{id}"),
            Act::Reserve(_) | Act::EndReservation(_) | Act::CancelReservation(_) => {
                "/reservations".to_owned()
            }
            _ => "/policies".to_owned(),
        }
    }

    fn command(&self) -> String {
        match self {
            Act::Cancel(id) => format!("cancel {}", words::job(*id)),
            Act::Urgency(id, urgency) => format!("urgency {} {urgency}", words::job(*id)),
            Act::Swap(policy) => format!("policy swap {policy}"),
            Act::Rollback => "policy rollback".to_owned(),
            Act::Shadow(policy) => format!("policy shadow {policy}"),
            Act::EndShadow(policy) => format!("policy shadow {policy} --stop"),
            Act::Promote(policy) => format!("policy promote {policy}"),
            Act::Reserve(form) => form.command(),
            Act::EndReservation(name) => format!("reservation end {name}"),
            Act::CancelReservation(name) => format!("reservation cancel {name}"),
        }
    }

    /// A question, and the consequence of a yes.
    fn question(&self) -> (String, &'static str) {
        match self {
            Act::Cancel(id) => (
                format!("Cancel job {}?", words::job(*id)),
                "If it runs, its processes are ended and its resources freed; if it waits, it leaves the queue. It cannot be taken \
                 back.",
            ),
            Act::Urgency(id, 0) => (
                format!("Hold job {}?", words::job(*id)),
                "It does not start until it is released. A job that runs is not held.",
            ),
            Act::Urgency(id, 31) => (
                format!("Expedite job {}?", words::job(*id)),
                "It stands before all jobs that are not expedited, whatever their priorities.",
            ),
            Act::Urgency(id, _) => (
                format!("Set the urgency of job {}?", words::job(*id)),
                "Its place in the order follows from it.",
            ),
            Act::Swap(policy) => (
                format!("Swap {policy} in?"),
                "It decides every queue that has no policy of its own, from the next pass on. No running job and no request is \
                 touched. The one that decides now can be put back.",
            ),
            Act::Rollback => (
                "Roll back to the policy before?".to_owned(),
                "The policy that decided before the last swap decides again. No running job and no request is touched.",
            ),
            Act::Reserve(form) => (
                format!("Make reservation {}?", form.name()),
                "No job that may not use it starts on its nodes if it would not end before. Running jobs are not ended.",
            ),
            Act::EndReservation(name) => (
                format!("End reservation {name} now?"),
                "Its nodes are free to all jobs, and it does not come again. It stays in the list as one that is over.",
            ),
            Act::CancelReservation(name) => (
                format!("Cancel reservation {name}?"),
                "Its nodes are free to all jobs, it does not come again, and it leaves the list. Jobs that name it wait.",
            ),
            Act::Shadow(policy) => (
                format!("Have {policy} follow as a shadow?"),
                "It makes its passes beside the policy that decides, and starts nothing. It costs memory for a second copy of the \
                 waiting jobs, and a share of a core.",
            ),
            Act::EndShadow(policy) => (
                format!("End the shadow {policy}?"),
                "What it found so far is forgotten. Nothing live is touched.",
            ),
            Act::Promote(policy) => (
                format!("Let the shadow {policy} decide?"),
                "It decides from the next pass on if the rules of the site for shadows hold. No running job and no request is touched.",
            ),
        }
    }

    /// The effect that the change would have, as the scheduler tells it.
    fn would(&self, answer: &Value) -> String {
        match self {
            Act::Promote(_) => {
                let gate: Vec<String> = rows(&answer["gate"]).iter().map(words::plain).collect();
                let passes = words::count(answer["passes"].as_u64().unwrap_or_default());
                match gate.is_empty() {
                    true => format!("After {passes} passes it may be promoted."),
                    false => format!("After {passes} passes it would not be promoted: {}.", gate.join("; ")),
                }
            }
            Act::Reserve(_) => would_be(answer),
            Act::EndReservation(_) | Act::CancelReservation(_) => {
                let one = &answer["reservation"];
                let nodes = words::many(one["nodes"].as_u64().unwrap_or_default(), "node");
                format!("It has {nodes}: {}.", words::plain(&one["nodelist"]))
            }
            _ => {
                let queues = rows(&answer["queues"]).len();
                format!(
                    "It would take over from {}, for {} with {}.",
                    words::plain(&answer["from"]),
                    words::many(queues as u64, "queue"),
                    words::many(answer["waiting"].as_u64().unwrap_or_default(), "waiting job")
                )
            }
        }
    }

    /// The page that asks for a second click; `token` is the viewer's.
    pub(crate) fn confirm(
        &self,
        program: &str,
        token: &str,
        would: Option<&Result<Value, Refused>>,
    ) -> Markup {
        let (question, consequence) = self.question();
        html! {
            h1 { (question) }
            p { (consequence) }
            @match would {
                Some(Ok(answer)) => p class="said" { (self.would(answer)) },
                Some(Err(refused)) => p class="alarm" { "It would be refused: " (refused) },
                None => {}
            }
            p { "The same in a terminal: " code { (program) " " (self.command()) } }
            form class="filter" method="post" action="/act" {
                input type="hidden" name="token" value=(token);
                @for (name, value) in self.fields() { input type="hidden" name=(name) value=(value); }
                button { "Do it" }
                a href=(self.back()) { "Leave it as it is" }
            }
        }
    }
}

/// A link to the page that asks for a second click.
fn link(act: &Act, label: &str) -> Markup {
    let query = act.fields().iter().fold(Query::default(), |query, (name, value)| query.with(name, value));
    html! { a class="tag act" href=(query.on("/act")) { (label) } }
}

/// Links to the changes of a job in this state (RFC 21).
pub(super) fn of_job(id: u64, state: u64, urgency: u64) -> Markup {
    html! {
        p class="acts" {
            @if state != 64 && state != 0 { (link(&Act::Cancel(id), "cancel …")) }
            @if matches!(state, 2 | 4 | 8) {
                @if urgency != 0 { (link(&Act::Urgency(id, 0), "hold …")) }
                @if urgency != 16 { (link(&Act::Urgency(id, 16), "release …")) }
                @if urgency != 31 { (link(&Act::Urgency(id, 31), "expedite …")) }
            }
        }
    }
}

/// Links to the changes of a policy that does not decide.
pub(super) fn of_policy(name: &str, follows: bool) -> Markup {
    html! {
        (link(&Act::Swap(name.to_owned()), "swap in …")) " "
        @if !follows { (link(&Act::Shadow(name.to_owned()), "shadow …")) }
    }
}

/// Links to the changes of a shadow.
pub(super) fn of_shadow(name: &str) -> Markup {
    html! {
        (link(&Act::Promote(name.to_owned()), "promote …")) " "
        (link(&Act::EndShadow(name.to_owned()), "end …"))
    }
}

/// Links to the changes of a reservation.
pub(super) fn of_reservation(name: &str, over: bool) -> Markup {
    html! {
        @if !over { (link(&Act::EndReservation(name.to_owned()), "end …")) " " }
        (link(&Act::CancelReservation(name.to_owned()), "cancel …"))
    }
}

/// A link to the change back to the policy before.
pub(super) fn rollback() -> Markup {
    html! { p class="acts" { (link(&Act::Rollback, "roll back …")) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_68_a_change_is_read_as_it_was_written_and_nothing_else_is_one() {
        let name = || "a&b".to_owned();
        for act in [
            Act::Cancel(7),
            Act::Urgency(7, 31),
            Act::Swap(name()),
            Act::Rollback,
            Act::Shadow(name()),
            Act::EndShadow(name()),
            Act::Promote(name()),
            Act::EndReservation(name()),
            Act::CancelReservation(name()),
        ] {
            let query =
                act.fields().iter().fold(Query::default(), |query, (name, value)| query.with(name, value));
            let text = query.on("/act");
            assert_eq!(Act::read(&Query::read(text.split_once('?').unwrap().1), |_| None), Ok(act));
        }
        for bad in [
            "",
            "do=cancel",
            "do=cancel&job=x",
            "do=urgency&job=7&urgency=32",
            "do=swap",
            "do=promote",
            "do=reservation-end",
            "do=shutdown",
        ] {
            assert_eq!(Act::read(&Query::read(bad), |_| None), Err(NoAct::Unknown), "{bad}");
        }
    }
}
