//! What can be changed from a page, if the server was started with control: each is shown with its consequence and the command
//! that does the same, and done only after a second click.
//!
//! Must never change anything itself.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::query::Query;
use crate::words;

/// A change that a viewer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    Cancel(u64),
    Urgency(u64, u8),
    Swap(String),
    Rollback,
}

impl Act {
    /// The change that an address or a form names.
    pub(crate) fn read(query: &Query) -> Option<Act> {
        let job = || query.get("job").and_then(|id| id.parse().ok());
        Some(match query.get("do")? {
            "cancel" => Act::Cancel(job()?),
            "urgency" => {
                let urgency =
                    query.get("urgency").and_then(|value| value.parse().ok()).filter(|value| *value <= 31);
                Act::Urgency(job()?, urgency?)
            }
            "swap" => Act::Swap(query.get("policy")?.to_owned()),
            "rollback" => Act::Rollback,
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
            Act::Rollback => vec![("do", "rollback".to_owned())],
        }
    }

    /// Topic and payload.
    pub(crate) fn request(&self) -> (&'static str, Value) {
        match self {
            Act::Cancel(id) => ("job-manager.raise", json!({"id": id, "type": "cancel", "severity": 0})),
            Act::Urgency(id, urgency) => ("job-manager.urgency", json!({"id": id, "urgency": urgency})),
            Act::Swap(policy) => {
                ("sched-fluxgate.policy-swap", json!({"name": policy, "queue": null, "probation": null}))
            }
            Act::Rollback => ("sched-fluxgate.policy-rollback", json!({"queue": null})),
        }
    }

    /// The page on which its consequence is seen.
    pub(crate) fn back(&self) -> String {
        match self {
            Act::Cancel(id) | Act::Urgency(id, _) => format!("/job/{id}"),
            Act::Swap(_) | Act::Rollback => "/policies".to_owned(),
        }
    }

    fn command(&self) -> String {
        match self {
            Act::Cancel(id) => format!("cancel {}", words::job(*id)),
            Act::Urgency(id, urgency) => format!("urgency {} {urgency}", words::job(*id)),
            Act::Swap(policy) => format!("policy swap {policy}"),
            Act::Rollback => "policy rollback".to_owned(),
        }
    }

    /// A question, and what follows if the answer is yes.
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
        }
    }

    /// The page that asks for a second click; `token` is the viewer's.
    pub(crate) fn confirm(&self, program: &str, token: &str) -> Markup {
        let (question, consequence) = self.question();
        html! {
            h1 { (question) }
            p { (consequence) }
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

/// What can be done with a job in this state (RFC 21).
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

/// What can be done with a policy that does not decide.
pub(super) fn of_policy(name: &str) -> Markup {
    link(&Act::Swap(name.to_owned()), "swap in …")
}

/// Back to the policy before.
pub(super) fn rollback() -> Markup {
    html! { p class="acts" { (link(&Act::Rollback, "roll back …")) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_68_a_change_is_read_as_it_was_written_and_nothing_else_is_one() {
        for act in [Act::Cancel(7), Act::Urgency(7, 31), Act::Swap("a&b".to_owned()), Act::Rollback] {
            let query =
                act.fields().iter().fold(Query::default(), |query, (name, value)| query.with(name, value));
            let text = query.on("/act");
            assert_eq!(Act::read(&Query::read(text.split_once('?').unwrap().1)), Some(act));
        }
        for bad in
            ["", "do=cancel", "do=cancel&job=x", "do=urgency&job=7&urgency=32", "do=swap", "do=shutdown"]
        {
            assert_eq!(Act::read(&Query::read(bad)), None, "{bad}");
        }
    }
}
