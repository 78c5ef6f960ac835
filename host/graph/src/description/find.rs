//! Criteria that select vertices: expressions over base data, extended data, state and bookings.
//!
//! An expression is made of `key=value` terms joined by `and` and `or`, with parentheses; `and` may be left out. Both
//! have the same precedence: `a or b and c` is `(a or b) and c`, as in the graph scheduler. `not` applies to the term
//! or the group after it.
//!
//! | key | value | selects vertices |
//! |---|---|---|
//! | `status` | `up`, `down` | that are up; that are down, or below one that is |
//! | `sched-now` | `allocated`, `free` | that a job holds, or below one that a job holds; all others |
//! | `sched-future` | `reserved`, `free` | the same for reservations |
//! | `jobid-alloc`, `jobid-reserved` | a job id | that the job holds, or has reserved |
//! | `jobid-tag`, `jobid-span` | a job id | at or above a vertex of the job; with an aggregate of its units |
//! | `names` | a hostlist | with one of these names |
//! | `property`, `tag` | a name, or `name=value` | with this property or tag |
//! | `type`, `basename`, `name`, `unit` | a text | with this value |
//! | `id`, `size`, `rank` | a number | with this value |
//! | `state` | a state of RFC 4 | in exactly this state |
//! | `agfilter` | `true`, `false` | all, none; `true` also reports the aggregates of the vertices |
//!
//! This module must never know where bookings are stored.

use fluxgate_formats::{Hostlist, JobId};

use super::model::Model;
use super::vertex::{State, VertexId};

/// Deepest nesting of parentheses.
const NESTED_MAX: usize = 100;

/// The fault of an expression of criteria.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid criteria: {what}")]
pub struct FindError {
    what: String,
    column: usize,
}

impl FindError {
    /// The column at which it begins, in characters from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    fn at(self, column: usize) -> FindError {
        FindError { column, ..self }
    }
}

fn wrong(what: impl Into<String>) -> FindError {
    FindError { what: what.into(), column: 0 }
}

/// The bookings that criteria query, by vertex and job. A vertex or job without bookings is no error: the answers are false.
pub trait Bookings {
    /// True when the job has units of the vertex allocated.
    fn is_allocated(&self, vertex: VertexId, job: u64) -> bool;

    /// True when the job has units of the vertex reserved.
    fn is_reserved(&self, vertex: VertexId, job: u64) -> bool;

    /// True when the job has units at or below the vertex.
    fn is_tagged(&self, vertex: VertexId, job: u64) -> bool;

    /// True when an aggregate of the vertex counts units of the job.
    fn is_counted(&self, vertex: VertexId, job: u64) -> bool;
}

/// Facts of a vertex that also hold for every vertex below it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Above {
    /// The vertex or one above it is down.
    pub down: bool,
    /// A job has the vertex or one above it allocated.
    pub allocated: bool,
    /// A job has the vertex or one above it reserved.
    pub reserved: bool,
}

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Criteria {
    expr: Expr,
    usage: Option<u64>,
}

impl Criteria {
    /// Parses an expression.
    ///
    /// # Errors
    /// The fault and its column: an unknown key, a value that its key does not take, or an invalid form.
    pub fn parse(text: &str) -> Result<Criteria, FindError> {
        let tokens = tokens(text);
        let mut at = 0;
        let expr = expression(&tokens, &mut at, 0)?;
        if let Some((token, column)) = tokens.get(at).filter(|(token, _)| !token.is_empty()) {
            return Err(wrong(format!("'{token}' found after the end of '{text}'")).at(*column));
        }
        let (mut usage, mut job) = (false, 0);
        notes(&expr, &mut usage, &mut job);
        Ok(Criteria { expr, usage: usage.then_some(job) })
    }

    /// The job whose use is reported with the vertices (`agfilter=true`), 0 for all jobs; `None` if no use is reported.
    pub fn usage(&self) -> Option<u64> {
        self.usage
    }

    /// True when a vertex satisfies the expression; `mine` are its own facts and those of the vertices above it.
    pub fn hold(&self, model: &Model, v: VertexId, mine: Above, bookings: &impl Bookings) -> bool {
        self.expr.holds(model, v, mine, bookings)
    }
}

#[derive(Debug, Clone)]
enum Expr {
    And(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Term(Term),
}

#[derive(Debug, Clone)]
enum Term {
    Down(bool),
    Allocated(bool),
    Reserved(bool),
    JobAlloc(u64),
    JobReserved(u64),
    JobTag(u64),
    JobSpan(u64),
    Names(Hostlist),
    Property(String, Option<String>),
    Tag(String, Option<String>),
    Text(&'static str, String),
    Number(&'static str, i64),
    State(State),
    Usage(bool),
}

impl Expr {
    fn holds(&self, model: &Model, v: VertexId, mine: Above, bookings: &impl Bookings) -> bool {
        let term = match self {
            Expr::And(a, b) => return a.holds(model, v, mine, bookings) && b.holds(model, v, mine, bookings),
            Expr::Or(a, b) => return a.holds(model, v, mine, bookings) || b.holds(model, v, mine, bookings),
            Expr::Not(a) => return !a.holds(model, v, mine, bookings),
            Expr::Term(term) => term,
        };
        let it = &model[v];
        let has = |value: Option<&str>, wanted: &Option<String>| {
            value.is_some_and(|value| wanted.as_ref().is_none_or(|wanted| value == wanted))
        };
        match term {
            Term::Down(down) => {
                if *down {
                    mine.down
                } else {
                    !mine.down && it.state() == State::Up
                }
            }
            Term::Allocated(yes) => mine.allocated == *yes,
            Term::Reserved(yes) => mine.reserved == *yes,
            Term::JobAlloc(job) => bookings.is_allocated(v, *job),
            Term::JobReserved(job) => bookings.is_reserved(v, *job),
            Term::JobTag(job) => bookings.is_tagged(v, *job),
            Term::JobSpan(job) => bookings.is_counted(v, *job),
            Term::Names(list) => list.contains(model.text(it.name())),
            Term::Property(key, value) => has(model.property(v, key), value),
            Term::Tag(key, None) => model.tag(v, key).is_some(),
            Term::Tag(key, Some(value)) => model.tag(v, key).is_some_and(|all| all.contains(value)),
            Term::Text(key, value) => {
                let name = match *key {
                    "type" => it.type_(),
                    "basename" => it.basename(),
                    "unit" => it.unit(),
                    _ => it.name(),
                };
                model.text(name) == value
            }
            Term::Number(key, value) => match *key {
                "id" => it.id().unwrap_or(-1) == *value,
                "rank" => it.rank().unwrap_or(-1) == *value,
                _ => i64::try_from(it.size()) == Ok(*value),
            },
            Term::State(state) => it.state() == *state,
            Term::Usage(yes) => *yes,
        }
    }
}

/// Words and parentheses with their columns; an empty one at the end.
fn tokens(text: &str) -> Vec<(&str, usize)> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    let mut column = 1 + text.chars().count() - rest.chars().count();
    while let Some(first) = rest.chars().next() {
        let long = match first {
            '(' | ')' => 1,
            _ => rest.find(|c: char| c.is_whitespace() || c == '(' || c == ')').unwrap_or(rest.len()),
        };
        all.push((&rest[..long], column));
        let after = rest[long..].trim_start();
        column += rest.chars().count() - after.chars().count();
        rest = after;
    }
    all.push(("", column));
    all
}

fn expression(tokens: &[(&str, usize)], at: &mut usize, depth: usize) -> Result<Expr, FindError> {
    let mut left = operand(tokens, at, depth)?;
    while !matches!(tokens[*at].0, ")" | "") {
        let token = tokens[*at].0;
        let or = token == "or";
        if or || token == "and" {
            *at += 1;
        }
        let right = Box::new(operand(tokens, at, depth)?);
        left = if or { Expr::Or(Box::new(left), right) } else { Expr::And(Box::new(left), right) };
    }
    Ok(left)
}

/// One term, a group, or the negation of either; `at` stays before the empty token at the end.
fn operand(tokens: &[(&str, usize)], at: &mut usize, depth: usize) -> Result<Expr, FindError> {
    let (token, column) = tokens[*at];
    if token.is_empty() {
        return Err(wrong("a term is missing at the end").at(column));
    }
    *at += 1;
    if depth >= NESTED_MAX && matches!(token, "(" | "not") {
        return Err(wrong(format!("more than {NESTED_MAX} parentheses inside each other")).at(column));
    }
    if token == "not" {
        return Ok(Expr::Not(Box::new(operand(tokens, at, depth + 1)?)));
    }
    if token != "(" {
        return term(token).map(Expr::Term).map_err(|error| error.at(column));
    }
    let inside = expression(tokens, at, depth + 1)?;
    if tokens[*at].0 != ")" {
        return Err(wrong("a ')' is missing").at(tokens[*at].1));
    }
    *at += 1;
    Ok(inside)
}

fn term(text: &str) -> Result<Term, FindError> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| wrong(format!("'{text}' found; key=value is needed")))?;
    let lower = value.to_ascii_lowercase();
    let one_of = |words: [&str; 2]| match words.iter().position(|w| *w == lower) {
        Some(at) => Ok(at == 0),
        None => Err(wrong(format!("{key} is {} or {}, not '{value}'", words[0], words[1]))),
    };
    let job = || match value.parse::<JobId>() {
        Ok(JobId(id)) => Ok(id),
        Err(error) => Err(wrong(format!("{key}: {error}"))),
    };
    let pair = || match value.split_once('=') {
        _ if value.is_empty() => Err(wrong(format!("{key} needs a name"))),
        Some((key, value)) => Ok((key.to_owned(), Some(value.to_owned()))),
        None => Ok((value.to_owned(), None)),
    };
    let number = |key| match value.parse() {
        Ok(n) => Ok(Term::Number(key, n)),
        Err(_) => Err(wrong(format!("{key} is a number, not '{value}'"))),
    };
    Ok(match key {
        "status" => Term::Down(one_of(["down", "up"])?),
        "sched-now" => Term::Allocated(one_of(["allocated", "free"])?),
        "sched-future" => Term::Reserved(one_of(["reserved", "free"])?),
        "jobid-alloc" => Term::JobAlloc(job()?),
        "jobid-reserved" => Term::JobReserved(job()?),
        "jobid-tag" => Term::JobTag(job()?),
        "jobid-span" => Term::JobSpan(job()?),
        "names" => Term::Names(value.parse().map_err(|e| wrong(format!("names: {e}")))?),
        "property" => pair().map(|(key, value)| Term::Property(key, value))?,
        "tag" => pair().map(|(key, value)| Term::Tag(key, value))?,
        "type" => Term::Text("type", value.to_owned()),
        "basename" => Term::Text("basename", value.to_owned()),
        "name" => Term::Text("name", value.to_owned()),
        "unit" => Term::Text("unit", value.to_owned()),
        "id" => number("id")?,
        "size" => number("size")?,
        "rank" => number("rank")?,
        "state" => {
            let words = State::ALL.map(State::text).join(", ");
            Term::State(
                State::parse(&lower)
                    .ok_or_else(|| wrong(format!("state is one of {words}, not '{value}'")))?,
            )
        }
        "agfilter" if lower == "t" || lower == "f" => Term::Usage(lower == "t"),
        "agfilter" => Term::Usage(one_of(["true", "false"])?),
        _ => return Err(wrong(format!("there is no key '{key}'"))),
    })
}

/// The values of the last terms of these kinds.
fn notes(expr: &Expr, usage: &mut bool, job: &mut u64) {
    match expr {
        Expr::And(a, b) | Expr::Or(a, b) => {
            notes(a, usage, job);
            notes(b, usage, job);
        }
        Expr::Not(a) => notes(a, usage, job),
        Expr::Term(Term::Usage(yes)) => *usage = *yes,
        Expr::Term(Term::JobAlloc(id) | Term::JobReserved(id) | Term::JobTag(id) | Term::JobSpan(id)) => {
            *job = *id
        }
        Expr::Term(_) => {}
    }
}
