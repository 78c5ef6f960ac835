//! Finding vertices by what they are, what state they are in and who holds them.
//!
//! An expression is made of `key=value` terms joined by `and` and `or`, with parentheses; `and` may be left out. Neither
//! binds tighter than the other: `a or b and c` is `(a or b) and c`, as the graph scheduler reads it. `not` is of the term
//! or the group after it.
//!
//! | key | value | true of a vertex |
//! |---|---|---|
//! | `status` | `up`, `down` | that is up; that is down or below one that is |
//! | `sched-now` | `allocated`, `free` | that is held, or below one that is; that is not |
//! | `sched-future` | `reserved`, `free` | the same of reservations |
//! | `jobid-alloc`, `jobid-reserved` | a job id | that the job holds, or has reserved |
//! | `jobid-tag`, `jobid-span` | a job id | that the job is in or below; whose counts below the job takes part of |
//! | `names` | a hostlist | with one of these names |
//! | `property`, `tag` | a name, or `name=value` | that has it |
//! | `type`, `basename`, `name`, `unit` | a text | of which it is true |
//! | `id`, `size`, `rank` | a number | of which it is true |
//! | `state` | a state of RFC 4 | in just this state |
//! | `agfilter` | `true`, `false` | every, none; with `true` what is counted below is told too |
//!
//! This module must never know how what was found is written.

use std::collections::BTreeMap;

use fluxgate_formats::{Hostlist, JobId};

use crate::model::graph::MODEL_DEPTH_MAX;
use crate::model::vertex::{State, VertexId};

use super::Matcher;
use super::apply::{Booked, Item};

/// Deepest nesting of parentheses.
const NESTED_MAX: usize = 100;

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid criteria: {what}")]
pub struct FindError {
    what: String,
    column: usize,
}

impl FindError {
    /// Where in the expression it begins, in characters from 1.
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

/// What is counted below the vertices that were found, by type.
pub type Usage = BTreeMap<VertexId, BTreeMap<String, String>>;

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

/// What holds for everything below a vertex because it holds for the vertex.
#[derive(Debug, Clone, Copy, Default)]
struct Above {
    down: bool,
    allocated: bool,
    reserved: bool,
}

struct Search {
    expr: Expr,
    /// Whether to tell what is counted, and of which job; 0 is all.
    usage: Option<u64>,
    items: Vec<Item>,
    /// Those that it is true of, without those above them.
    holding: Vec<VertexId>,
    told: Usage,
}

impl Matcher {
    /// The vertices that an expression is true of with those above them, children before parents; and, if it says
    /// `agfilter=true`, what is counted below them.
    pub fn find(&self, text: &str) -> Result<(Booked, Usage), FindError> {
        let search = self.searched(text)?;
        Ok((Booked { items: search.items, ..Booked::default() }, search.told))
    }

    /// The vertices that an expression is true of and no others, in the order they were added.
    pub fn holding(&self, text: &str) -> Result<Vec<VertexId>, FindError> {
        let mut holding = self.searched(text)?.holding;
        holding.sort_unstable();
        Ok(holding)
    }

    fn searched(&self, text: &str) -> Result<Search, FindError> {
        let tokens = tokens(text);
        let mut at = 0;
        let expr = expression(&tokens, &mut at, 0)?;
        if let Some((token, column)) = tokens.get(at).filter(|(token, _)| !token.is_empty()) {
            return Err(wrong(format!("'{token}' found after the end of '{text}'")).at(*column));
        }
        let (mut usage, mut job) = (false, 0);
        notes(&expr, &mut usage, &mut job);
        let usage = usage.then_some(job);
        let mut search = Search { expr, usage, items: Vec::new(), holding: Vec::new(), told: Usage::new() };
        let mut seen = vec![false; self.model.vertex_count()];
        self.search(self.root, Above::default(), 1, &mut seen, &mut search);
        Ok(search)
    }

    /// True when the vertex or one below it was found.
    fn search(&self, v: VertexId, above: Above, level: usize, seen: &mut [bool], to: &mut Search) -> bool {
        seen[v.index()] = true;
        let it = &self.model.vertices[v.index()];
        let booking = self.ledger.get(v);
        let mine = Above {
            down: above.down || it.state == State::Down,
            allocated: above.allocated || booking.is_some_and(|b| !b.allocations.is_empty()),
            reserved: above.reserved || booking.is_some_and(|b| !b.reservations.is_empty()),
        };
        let mut below = false;
        for edge in self.model.out_edges(v) {
            let child = self.model.edges[edge.index()];
            if child.subsystem != self.dominant || seen[child.to.index()] || level > MODEL_DEPTH_MAX {
                continue;
            }
            if self.search(child.to, mine, level + 1, seen, to) {
                to.items.push(Item::Edge { edge, implied: false });
                below = true;
            }
        }
        let holds = self.holds_true(v, &to.expr, mine);
        if !holds && !below {
            return false;
        }
        if let Some(job) = to.usage {
            let Some(told) = self.usage(v, job) else { return false };
            to.told.insert(v, told);
        }
        to.holding.extend(holds.then_some(v));
        to.items.push(Item::Vertex {
            vertex: v,
            level,
            units: it.size,
            exclusive: true,
            implied: false,
            label: None,
        });
        true
    }

    /// How much of what is counted below a vertex is taken, by a job or by all; `None` where nothing is counted.
    fn usage(&self, v: VertexId, job: u64) -> Option<BTreeMap<String, String>> {
        let below = self.aggregates.below(v)?;
        let booking = self.ledger.get(v);
        let tree = booking.map(|b| b.tags());
        let span =
            tree.and_then(|t| t.span(job)).filter(|_| booking.is_some_and(|b| b.counted.contains(job)));
        if job != 0 && span.is_none() {
            return None;
        }
        let counts = below.types.iter().zip(&below.totals).enumerate().map(|(i, (&type_, total))| {
            let used = match span {
                Some(span) => span.amounts[i + 1],
                None => tree.map_or(0, |t| total - t.free_at(i + 1, 0)),
            };
            (self.model.text(type_).to_owned(), format!("used:{used}, total:{total}"))
        });
        Some(counts.collect())
    }

    fn holds_true(&self, v: VertexId, expr: &Expr, mine: Above) -> bool {
        let term = match expr {
            Expr::And(a, b) => return self.holds_true(v, a, mine) && self.holds_true(v, b, mine),
            Expr::Or(a, b) => return self.holds_true(v, a, mine) || self.holds_true(v, b, mine),
            Expr::Not(a) => return !self.holds_true(v, a, mine),
            Expr::Term(term) => term,
        };
        let it = &self.model.vertices[v.index()];
        let booking = self.ledger.get(v);
        let has = |value: Option<&str>, wanted: &Option<String>| {
            value.is_some_and(|value| wanted.as_ref().is_none_or(|wanted| value == wanted))
        };
        match term {
            Term::Down(down) => {
                if *down {
                    mine.down
                } else {
                    !mine.down && it.state == State::Up
                }
            }
            Term::Allocated(yes) => mine.allocated == *yes,
            Term::Reserved(yes) => mine.reserved == *yes,
            Term::JobAlloc(job) => booking.is_some_and(|b| b.allocations.contains(*job)),
            Term::JobReserved(job) => booking.is_some_and(|b| b.reservations.contains(*job)),
            Term::JobTag(job) => booking.is_some_and(|b| b.is_tagged(*job)),
            Term::JobSpan(job) => booking.is_some_and(|b| b.counted.contains(*job)),
            Term::Names(list) => list.contains(self.model.text(it.name)),
            Term::Property(key, value) => has(self.model.property(v, key), value),
            Term::Tag(key, None) => self.model.tag(v, key).is_some(),
            Term::Tag(key, Some(value)) => self.model.tag(v, key).is_some_and(|all| all.contains(value)),
            Term::Text(key, value) => {
                let name = match *key {
                    "type" => it.type_,
                    "basename" => it.basename,
                    "unit" => it.unit,
                    _ => it.name,
                };
                self.model.text(name) == value
            }
            Term::Number(key, value) => match *key {
                "id" => it.id == *value,
                "rank" => it.rank == *value,
                _ => i64::try_from(it.size) == Ok(*value),
            },
            Term::State(state) => it.state == *state,
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

/// One term, a group, or what either is not; `at` stays before the empty token at the end.
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

/// What the last terms of these kinds say.
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
