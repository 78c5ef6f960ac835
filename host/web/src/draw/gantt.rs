//! Jobs and reservations over time and nodes, and below them the jobs that are expected next.
//!
//! The place of a job that waits is not known, only its time: it has a row of its own. Must never know how a start is found.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::axis::Axis;
use super::n;
use crate::jobs::Job;
use crate::machine::Machine;
use crate::reserved::Reserved;
use crate::words;

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 96.0;
const TOP: f64 = 24.0;
/// Most jobs that are links of their own; those that cover most are. Further ones are drawn together.
const LINKS_MAX: usize = 400;
/// Most boxes of all jobs together: a job on nodes that are not side by side has several.
const BOXES_MAX: usize = 3600;
/// Most boxes of all reservations together.
const WINDOW_BOXES_MAX: usize = 800;
/// Lowest box that is hatched: of lower ones the hatching is not seen.
const HATCHED_MIN: f64 = 3.0;
/// Most characters of the names of nodes that a job says.
const NODES_MAX: usize = 48;
/// Most ranks of a job that are looked at.
const RANKS_MAX: usize = 65_536;
/// Colours of jobs.
pub(crate) const COLOURS: usize = 8;

/// The property of a job that gives its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Job,
    User,
    Queue,
    Result,
}

impl Colour {
    pub(crate) const ALL: [(Colour, &'static str); 4] =
        [(Colour::Job, "job"), (Colour::User, "user"), (Colour::Queue, "queue"), (Colour::Result, "result")];

    /// The class of a job in the style sheet.
    fn of(self, job: &Job, queues: &[&str]) -> String {
        let number = match self {
            Colour::Job => job.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40,
            Colour::User => job.user.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40,
            Colour::Queue => queues.iter().position(|queue| *queue == job.queue).unwrap_or_default() as u64,
            Colour::Result => return format!("r-{}", job.outcome()),
        };
        format!("c{}", number % COLOURS as u64)
    }
}

/// A job that waits, with an expected start.
#[derive(Debug, Clone)]
pub(crate) struct Next {
    pub(crate) id: u64,
    /// Start, seconds since the epoch.
    pub(crate) start: f64,
    /// Requested seconds, infinite without limit.
    pub(crate) limit: f64,
    pub(crate) reserved: bool,
    /// Its size in words.
    pub(crate) size: String,
}

/// Picture of the nodes, how many jobs are no links in it, and how many jobs and reservations it leaves out.
pub(crate) struct Drawn {
    pub(crate) picture: Markup,
    pub(crate) unlinked: usize,
    pub(crate) omitted: usize,
    pub(crate) reserved_omitted: usize,
}

/// A part of a job's area: nodes side by side on the same share of their rows.
struct Box {
    /// First row, number of rows.
    rows: (usize, usize),
    /// Share of each row: which, of how many.
    lane: (usize, usize),
}

/// The boxes of each job: jobs that share a node lie side by side in its row.
fn boxes(jobs: &[&Job], machine: &Machine) -> Vec<Vec<Box>> {
    let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, job) in jobs.iter().enumerate() {
        for at in job.ranks.iter().take(RANKS_MAX).filter_map(|rank| machine.position(rank)) {
            rows.entry(at).or_default().push(number);
        }
    }
    let mut out: Vec<Vec<Box>> = jobs.iter().map(|_| Vec::new()).collect();
    for (row, mut there) in rows {
        there.sort_by(|a, b| jobs[*a].start.total_cmp(&jobs[*b].start).then(a.cmp(b)));
        // The first lane whose last job has ended.
        let mut lanes: Vec<f64> = Vec::new();
        let mut of = Vec::new();
        for number in &there {
            let job = jobs[*number];
            // A job that ends where another starts does not share the node with it, whatever clocks say.
            let free = lanes.iter().position(|end| *end <= job.start + 1.0);
            let lane = free.unwrap_or_else(|| {
                lanes.push(0.0);
                lanes.len() - 1
            });
            lanes[lane] = job.end.unwrap_or(f64::INFINITY);
            of.push(lane);
        }
        for (number, lane) in there.iter().zip(of) {
            let lane = (lane, lanes.len());
            match out[*number].last_mut() {
                Some(last) if last.rows.0 + last.rows.1 == row && last.lane == lane && lane.1 == 1 => {
                    last.rows.1 += 1;
                }
                _ => out[*number].push(Box { rows: (row, 1), lane }),
            }
        }
    }
    out
}

fn title(job: &Job, now: f64) -> String {
    let mut text = format!("{} {}", words::job(job.id), job.name);
    let nodes: String = match job.nodelist.chars().count() > NODES_MAX {
        true => job.nodelist.chars().take(NODES_MAX).chain(['…']).collect(),
        false => job.nodelist.clone(),
    };
    let _ = write!(text, " · {} on {nodes}", words::many(job.nodes, "node"));
    match job.end {
        Some(end) => {
            let _ = write!(text, " · {} after {}", job.outcome(), words::span(end - job.start));
        }
        None => {
            let left = job.limit - now;
            let _ = write!(
                text,
                " · runs for {}, its limit ends {}",
                words::span(now - job.start),
                words::until(left)
            );
        }
    }
    text
}

/// The rows of nodes side by side: first row and number of rows.
fn row_runs(one: &Reserved, machine: &Machine) -> Vec<(usize, usize)> {
    let mut rows: Vec<usize> =
        one.ranks.iter().take(RANKS_MAX).filter_map(|rank| machine.position(rank)).collect();
    rows.sort_unstable();
    let runs = rows.chunk_by(|a, b| a + 1 == *b);
    runs.map(|run| (run[0], run.len())).collect()
}

/// The reservations over time, and how many are left out.
fn windows(axis: &Axis, machine: &Machine, row: f64, reserved: &[Reserved]) -> (String, usize) {
    let (mut out, mut left, mut omitted) = (String::new(), WINDOW_BOXES_MAX, 0);
    for one in reserved {
        let runs = row_runs(one, machine);
        for (start, end) in one.times.iter().filter(|(start, end)| *end > axis.from && *start < axis.to) {
            if runs.len() > left {
                omitted += 1;
                continue;
            }
            left -= runs.len();
            let (x0, x1) = (axis.x(*start), axis.x(*end).max(axis.x(*start) + 1.0));
            let mut path = String::new();
            for (first, count) in &runs {
                let (y, high) = (TOP + row * *first as f64, (row * *count as f64).max(0.3));
                let _ = write!(path, "M{} {}h{}v{}h-{2}z", n(x0), n(y), n(x1 - x0), n(high));
            }
            let widest = runs.iter().max_by_key(|(_, count)| *count);
            let room = widest.filter(|(_, count)| row * *count as f64 > 12.0 && x1 - x0 > 64.0);
            let link = html! {
                a href="/reservations" class={"w" (if one.maintenance { " m" } else { "" })} {
                    title { (one.title()) " · " (words::many(one.ranks.len(), "node")) " · "
                        (words::date_time(*start)) " to " (words::date_time(*end)) }
                    path d=(path) {}
                    @if let Some((first, _)) = room {
                        text x=(n(x1 - 4.0)) y=(n(TOP + row * *first as f64 + 11.0)) text-anchor="end" { (one.name) }
                    }
                }
            };
            out.push_str(&link.into_string());
        }
    }
    (out, omitted)
}

/// The nodes over time.
pub(crate) fn nodes(
    axis: (f64, f64, f64),
    machine: &Machine,
    (jobs, reserved): (&[Job], &[Reserved]),
    colour: Colour,
) -> Drawn {
    let (from, now, to) = axis;
    let axis = Axis { from, to, now, left: LEFT, right: WIDTH - 8.0 };
    let count = machine.nodes.len().max(1);
    let row = (640.0 / count as f64).clamp(0.02, 22.0);
    let bottom = TOP + row * count as f64;
    let mut queues: Vec<&str> = jobs.iter().map(|job| job.queue.as_str()).collect();
    queues.sort_unstable();
    queues.dedup();
    let ends = |job: &Job| job.end.unwrap_or(now);
    let mut shown: Vec<&Job> = jobs.iter().filter(|job| ends(job) > from && job.start < to).collect();
    let area = |job: &Job| (job.limit.min(to).min(ends(job)) - job.start.max(from)) * job.ranks.len() as f64;
    shown.sort_by(|a, b| area(b).total_cmp(&area(a)).then(a.id.cmp(&b.id)));
    let mut out = String::new();
    // Jobs without a link of their own: of each class, the part that ran and the part that is left.
    let mut crowd: BTreeMap<String, (String, String)> = BTreeMap::new();
    let (mut left, mut unlinked, mut omitted) = (BOXES_MAX, 0, 0);
    for (number, (job, boxes)) in shown.iter().zip(boxes(&shown, machine)).enumerate() {
        if boxes.len() > left {
            omitted += 1;
            continue;
        }
        left -= boxes.len();
        let (x0, x1) = (axis.x(job.start), axis.x(ends(job)).max(axis.x(job.start) + 1.0));
        let x2 = if job.end.is_none() { axis.x(job.limit) } else { x1 };
        let (mut ran, mut rest) = (String::new(), String::new());
        for part in &boxes {
            let high = row / part.lane.1 as f64;
            let y = TOP + row * part.rows.0 as f64 + high * part.lane.0 as f64;
            let high = high * part.rows.1 as f64;
            let inner = (high - if high > 6.0 { 1.0 } else { 0.0 }).max(0.3);
            let _ = write!(ran, "M{} {}h{}v{}h-{2}z", n(x0), n(y), n(x1 - x0), n(inner));
            if x2 > x1 + 0.5 {
                let _ = write!(rest, "M{} {}h{}v{}h-{2}z", n(x1), n(y), n(x2 - x1), n(inner));
            }
        }
        let state = if job.end.is_none() { "run" } else { "was" };
        let class = format!("j {} {state}", colour.of(job, &queues));
        if number >= LINKS_MAX {
            unlinked += 1;
            let paths = crowd.entry(class).or_default();
            paths.0.push_str(&ran);
            paths.1.push_str(&rest);
            continue;
        }
        let hatched = boxes.iter().any(|part| row * part.rows.1 as f64 / part.lane.1 as f64 >= HATCHED_MIN);
        let largest = boxes.iter().max_by_key(|part| part.rows.1);
        let label =
            largest.filter(|part| x1 - x0 > 64.0 && row * part.rows.1 as f64 / part.lane.1 as f64 > 12.5);
        let link = html! {
            a href={"/job/" (job.id)} class=(class) {
                title { (title(job, now)) }
                path d=(ran) {}
                @if !rest.is_empty() {
                    path class="rest" d=(rest) {}
                    @if hatched { path class="hatch" d=(rest) {} }
                }
                @if let Some(part) = label {
                    text x=(n(x0.max(LEFT) + 5.0))
                        y=(n(TOP + row * (part.rows.0 as f64
                            + (part.lane.0 as f64 + part.rows.1 as f64 / 2.0) / part.lane.1 as f64) + 4.0)) {
                        (label_of(job, x1 - x0))
                    }
                }
            }
        };
        out.push_str(&link.into_string());
    }
    for (class, (ran, rest)) in crowd {
        let group = html! { g class=(class) { path d=(ran) {} @if !rest.is_empty() { path class="rest" d=(rest) {} } } };
        out.insert_str(0, &group.into_string());
    }
    let (kept, reserved_omitted) = windows(&axis, machine, row, reserved);
    let picture = html! {
        svg class="picture gantt" viewBox={"0 0 " (WIDTH) " " (n(bottom + 24.0))} role="img"
            aria-label="Jobs and reservations over time, by node" {
            (PreEscaped(rows(machine, row)))
            (PreEscaped(axis.draw(TOP, bottom)))
            (PreEscaped(kept))
            (PreEscaped(out))
            path class="now" d={"M" (n(axis.x(now))) " " (n(TOP - 4.0)) "V" (n(bottom))} {}
        }
    };
    Drawn { picture, unlinked, omitted, reserved_omitted }
}

/// The name of a job as far as there is room.
fn label_of(job: &Job, room: f64) -> String {
    let text = if job.name.is_empty() { words::job(job.id) } else { job.name.clone() };
    let most = ((room - 8.0) / 6.6).max(1.0) as usize;
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Names of nodes where there is room, of racks elsewhere, with a line between racks.
fn rows(machine: &Machine, row: f64) -> String {
    let mut out = String::new();
    let mut free = TOP;
    for rack in &machine.racks {
        let y = TOP + row * rack.nodes.start as f64;
        let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {}H{}\"/>", n(y), WIDTH - 8.0);
        if row < 9.0 && y >= free {
            let first = rack.name.split(' ').next().unwrap_or_default();
            let text = html! { text class="ylab" x=(LEFT - 8.0) y=(n(y + 10.0)) { (first) } };
            out.push_str(&text.into_string());
            free = y + 12.0;
        }
    }
    if row >= 9.0 {
        let every = (11.0 / row).ceil() as usize;
        for (at, node) in machine.nodes.iter().enumerate().step_by(every.max(1)) {
            let y = TOP + row * (at as f64 + 0.5) + 4.0;
            let text = html! { text class="ylab" x=(LEFT - 8.0) y=(n(y)) { (node.host) } };
            out.push_str(&text.into_string());
        }
    }
    out
}

/// The jobs that are expected next, a row for each.
pub(crate) fn next(axis: (f64, f64, f64), jobs: &[Next]) -> Markup {
    const ROW: f64 = 20.0;
    let (from, now, to) = axis;
    let axis = Axis { from, to, now, left: 210.0, right: WIDTH - 8.0 };
    let bottom = TOP + ROW * jobs.len() as f64;
    html! {
        svg class="picture gantt" viewBox={"0 0 " (WIDTH) " " (n(bottom + 24.0))} role="img"
            aria-label="Expected starts of waiting jobs" {
            (PreEscaped(axis.draw(TOP, bottom)))
            @for (number, job) in jobs.iter().enumerate() {
                @let y = TOP + ROW * number as f64;
                @let (x0, x1) = (axis.x(job.start), axis.x(job.start + job.limit));
                a href={"/job/" (job.id)} class={"j next " (if job.reserved { "reserved" } else { "expected" })} {
                    title {
                        (words::job(job.id)) " · " (job.size) " · starts " (words::until(job.start - now))
                        ", limit " (words::span(job.limit)) (if job.reserved { " · reserved" } else { " · forecast" })
                    }
                    text class="ylab" x="202" y=(n(y + 14.0)) { (words::job(job.id)) " · " (job.size) }
                    path class="body" d={"M" (n(x0)) " " (n(y + 3.0)) "H" (n(x1.max(x0 + 2.0))) "v14H" (n(x0)) "z"} {}
                    path class="hatch" d={"M" (n(x0)) " " (n(y + 3.0)) "H" (n(x1.max(x0 + 2.0))) "v14H" (n(x0)) "z"} {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, ranks: &str, start: f64, end: Option<f64>) -> Job {
        Job {
            id,
            user: 1,
            queue: String::new(),
            name: "j".to_owned(),
            nodes: 1,
            cores: 1,
            ranks: ranks.parse().unwrap(),
            nodelist: String::new(),
            submit: Some(0.0),
            start,
            end,
            limit: 1e6,
            result: 0,
        }
    }

    #[test]
    fn jobs_that_share_a_node_lie_side_by_side_and_others_have_it_whole() {
        let machine = Machine::of_hosts(4);
        let jobs = [
            job(1, "0-1", 0.0, Some(10.0)),
            job(2, "0-2", 10.0, None),
            job(3, "2", 5.0, None),
            job(4, "9", 0.0, None),
        ];
        let found = boxes(&jobs.iter().collect::<Vec<_>>(), &machine);
        let seen: Vec<Vec<_>> = found.iter().map(|b| b.iter().map(|b| (b.rows, b.lane)).collect()).collect();
        assert_eq!(
            seen,
            [
                vec![((0, 2), (0, 1))],
                vec![((0, 2), (0, 1)), ((2, 1), (1, 2))],
                vec![((2, 1), (0, 2))],
                vec![],
            ]
        );
    }
    #[test]
    fn feat_63_nodes_of_a_reservation_that_are_side_by_side_are_one_box() {
        let machine = Machine::of_hosts(8);
        let ranks = "0-2,5,7,99".parse().unwrap();
        let times = vec![(0.0, 1.0)];
        let one = Reserved { name: "dat".to_owned(), maintenance: false, on: true, times, ranks };
        assert_eq!(row_runs(&one, &machine), [(0, 3), (5, 1), (7, 1)]);
        let axis = Axis { from: 0.0, to: 10.0, now: 5.0, left: LEFT, right: WIDTH };
        let all = vec![one; WINDOW_BOXES_MAX];
        assert_eq!(windows(&axis, &machine, 20.0, &all).1, WINDOW_BOXES_MAX - WINDOW_BOXES_MAX / 3);
    }
}
