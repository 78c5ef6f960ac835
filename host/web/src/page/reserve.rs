//! A reservation that a viewer wants to make: the fields of the form, and the request to the scheduler.
//!
//! Must never decide whether it is possible: the scheduler does.

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::query::Query;
use crate::past;
use crate::words;

/// The user of a name.
pub(crate) type UserOf = fn(&str) -> Option<u32>;

/// The names of the fields of the form, in its order.
const FIELDS: [&str; 13] = [
    "name", "kind", "start", "duration", "where", "users", "groups", "queues", "banks", "repeat", "zone",
    "until", "note",
];
/// The time zone of repetitions, where the form names none; the times of the page are in it.
const ZONE: &str = "UTC";
/// Rules of repetitions that have a name; durations are others.
const REPEATS: [&str; 5] = ["hourly", "daily", "weekly", "weekdays", "weekend"];

/// See the module text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reserve {
    /// The values of the fields, by [`FIELDS`].
    said: [String; FIELDS.len()],
    start: f64,
    duration: f64,
    users: Vec<u32>,
    /// The end of the repetitions, seconds since the epoch; 0 without an end.
    until: f64,
}

impl Reserve {
    /// The reservation of a form. The error is for people.
    pub(crate) fn read(query: &Query, user_of: UserOf) -> Result<Reserve, String> {
        let said = FIELDS.map(|name| query.get(name).unwrap_or_default().trim().to_owned());
        let [name, kind, start, duration, place, users, groups, queues, banks, repeat, _, until, _] = &said;
        if name.is_empty() || place.is_empty() {
            return Err("A reservation needs a name, and nodes: a number, hosts, or all.".to_owned());
        }
        let time = |text: &str, what: &str| {
            past::seconds(text).ok_or_else(|| format!("{text:?} is no {what}: {}.", past::ACCEPTED))
        };
        let start = time(start, "start")?;
        let until = if until.is_empty() { 0.0 } else { time(until, "end of repetitions")? };
        if until > 0.0 && repeat.is_empty() {
            return Err("An end of repetitions is of a reservation that is repeated.".to_owned());
        }
        let long = fluxgate_formats::fsd::parse(duration).ok().filter(|long| long.is_finite() && *long > 0.0);
        let duration =
            long.ok_or_else(|| format!("{duration:?} is no duration: 30m, 2h and 1.5d are some."))?;
        let user = |name: &str| {
            let known = name.parse().ok().or_else(|| user_of(name));
            known.ok_or_else(|| format!("There is no user {name:?}."))
        };
        let ids = list(users).map(user).collect::<Result<Vec<u32>, String>>()?;
        match kind.as_str() {
            "maintenance" if [users, groups, queues, banks].iter().any(|named| !named.is_empty()) => {
                return Err(
                    "Maintenance is for nobody: leave users, groups, queues and banks empty.".to_owned()
                );
            }
            "maintenance" | "dedicated" => {}
            other => return Err(format!("{other:?} is no kind: maintenance and dedicated are.")),
        }
        Ok(Reserve { start, duration, users: ids, until, said })
    }

    /// The fields by which it is read again.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        FIELDS.into_iter().zip(self.said.iter().cloned())
    }

    pub(crate) fn name(&self) -> &str {
        &self.said[0]
    }

    fn zone(&self) -> &str {
        let [.., zone, _, _] = &self.said;
        if zone.is_empty() { ZONE } else { zone }
    }

    /// The payload of the request.
    pub(crate) fn payload(&self, dry_run: bool) -> Value {
        let [name, kind, _, _, place, _, groups, queues, banks, repeat, _, _, note] = &self.said;
        let mut payload = Map::new();
        let mut set = |key: &str, value: Value| drop(payload.insert(key.to_owned(), value));
        set("name", name.as_str().into());
        set("kind", kind.as_str().into());
        set("start", self.start.into());
        set("end", (self.start + self.duration).into());
        match place.parse::<u32>() {
            Ok(nodes) => set("nodes", nodes.into()),
            Err(_) => set("hosts", place.as_str().into()),
        }
        set("users", json!(self.users));
        for (key, named) in [("groups", groups), ("queues", queues), ("banks", banks)] {
            set(key, list(named).collect());
        }
        if !repeat.is_empty() {
            set("repeat", json!({"every": repeat, "zone": self.zone(), "until": self.until}));
        }
        set("note", note.as_str().into());
        set("dry_run", dry_run.into());
        Value::Object(payload)
    }

    /// The command that does the same.
    pub(crate) fn command(&self) -> String {
        let [name, kind, _, duration, place, users, groups, queues, banks, repeat, _, _, note] = &self.said;
        let mut words = format!(
            "reservation create {} --start @{} --duration {}",
            quoted(name),
            self.start,
            quoted(duration)
        );
        let nodes = if place.parse::<u32>().is_ok() { "nodes" } else { "hosts" };
        words += &format!(" --{nodes} {}", quoted(place));
        if kind == "maintenance" {
            words += " --maintenance";
        }
        for (option, said) in [("users", users), ("groups", groups), ("queues", queues), ("banks", banks)] {
            let named = list(said).collect::<Vec<_>>().join(",");
            if !named.is_empty() {
                words += &format!(" --{option} {}", quoted(&named));
            }
        }
        if !repeat.is_empty() {
            words += &format!(" --repeat {} --zone {}", quoted(repeat), quoted(self.zone()));
            if self.until > 0.0 {
                words += &format!(" --until @{}", self.until);
            }
        }
        if !note.is_empty() {
            words += &format!(" --note {}", quoted(note));
        }
        words
    }
}

/// Names with commas or spaces between them.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|name| !name.is_empty())
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The reservation that would be made, as the scheduler tells it.
pub(super) fn would_be(answer: &Value) -> String {
    let one = &answer["reservation"];
    let time = |key: &str| one[key].as_f64().map(words::date_time).unwrap_or_default();
    let nodes = words::many(one["nodes"].as_u64().unwrap_or_default(), "node");
    let mut text = format!(
        "It would have {nodes} ({}) from {} to {} UTC.",
        words::plain(&one["nodelist"]),
        time("start"),
        time("end")
    );
    let late = answer["in_the_way"].as_array().map_or(0, Vec::len);
    if late > 0 {
        text += &format!(" {} may end after its start.", words::many(late as u64, "running job"));
    }
    text
}

/// The form that asks for a reservation; it leads to the page with the reservation that would be made.
pub(super) fn form() -> Markup {
    html! {
        h2 { "Make one" }
        form class="filter" action="/act" {
            input type="hidden" name="do" value="reserve";
            label { "Name " input name="name" size="12" maxlength="64" required; }
            label { "Kind "
                select name="kind" {
                    option value="maintenance" { "maintenance" }
                    option value="dedicated" { "for users or queues" }
                }
            }
            label { "Start, UTC " input type="datetime-local" name="start" required; }
            label { "Duration " input name="duration" size="6" maxlength="32" placeholder="2h" required; }
            label { "Nodes " input name="where" size="16" maxlength="4096" placeholder="8, n[0-7] or all" required; }
            label { "Users " input name="users" size="12" maxlength="4096"; }
            label { "Groups " input name="groups" size="12" maxlength="4096"; }
            label { "Queues " input name="queues" size="12" maxlength="4096"; }
            label { "Banks " input name="banks" size="12" maxlength="4096"; }
            label { "Repeat "
                input name="repeat" size="12" maxlength="64" list="repeats" placeholder="once";
                datalist id="repeats" {
                    @for every in REPEATS { option value=(every) {} }
                }
            }
            label { "in zone " input name="zone" size="12" maxlength="64" placeholder=(ZONE); }
            label { "until " input type="datetime-local" name="until"; }
            label { "Note " input name="note" size="16" maxlength="256"; }
            button { "What would it be?" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice(name: &str) -> Option<u32> {
        (name == "alice").then_some(5588)
    }

    #[test]
    fn feat_68_a_form_says_what_is_asked_of_the_scheduler() {
        let text = "name=dat42&kind=dedicated&start=2026-11-23T12:00&duration=2h&where=8&users=alice,7&queues=batch&note=it's+cold";
        let form = Reserve::read(&Query::read(text), alice).unwrap();
        let start = 1_795_435_200.0;
        let asked = json!({
            "name": "dat42", "kind": "dedicated", "start": start, "end": start + 7200.0, "nodes": 8, "users": [5588, 7],
            "groups": [], "queues": ["batch"], "banks": [], "note": "it's cold", "dry_run": true,
        });
        assert_eq!(form.payload(true), asked);
        let command = "reservation create dat42 --start @1795435200 --duration 2h --nodes 8 --users alice,7 --queues batch \
                       --note 'it'\\''s cold'";
        assert_eq!(form.command(), command);
        let again = form.fields().fold(Query::default(), |query, (name, value)| query.with(name, &value));
        assert_eq!(Reserve::read(&again, alice).as_ref(), Ok(&form));
        let more =
            format!("{text}&groups=physics+math&banks=b1&repeat=weekly&zone=Europe/Paris&until=2026-12-23");
        let weekly = Reserve::read(&Query::read(&more), alice).unwrap();
        let asked = weekly.payload(false);
        assert_eq!(asked["groups"], json!(["physics", "math"]));
        assert_eq!(asked["banks"], json!(["b1"]));
        let until = 1_797_984_000.0;
        assert_eq!(asked["repeat"], json!({"every": "weekly", "zone": "Europe/Paris", "until": until}));
        let command = "--users alice,7 --groups physics,math --queues batch --banks b1 --repeat weekly --zone Europe/Paris \
                       --until @1797984000 --note";
        assert!(weekly.command().contains(command), "{}", weekly.command());
        let daily = Reserve::read(&Query::read(&format!("{text}&repeat=daily")), alice).unwrap();
        assert_eq!(daily.payload(false)["repeat"], json!({"every": "daily", "zone": "UTC", "until": 0.0}));
        let hosts = text.replace("where=8", "where=n[0-3]");
        assert_eq!(Reserve::read(&Query::read(&hosts), alice).unwrap().payload(false)["hosts"], "n[0-3]");
        for (was, is, why) in [
            ("name=dat42", "name=", "needs a name"),
            ("where=8", "where=", "needs a name"),
            ("12:00", "25:00", "is no start"),
            ("duration=2h", "duration=long", "is no duration"),
            ("duration=2h", "duration=-2h", "is no duration"),
            ("alice,7", "alice,bob", "There is no user \"bob\""),
            ("kind=dedicated", "kind=maintenance", "for nobody"),
            ("kind=dedicated", "kind=other", "is no kind"),
            ("users=alice,7&queues=batch", "until=2026-12-23", "is repeated"),
            ("users=alice,7&queues=batch", "repeat=daily&until=soon", "is no end of repetitions"),
        ] {
            let wrong = Reserve::read(&Query::read(&text.replace(was, is)), alice).unwrap_err();
            assert!(wrong.contains(why), "{is}: {wrong}");
        }
    }
}
