//! The views: the words and rows of the pages, laid out for a terminal of 80 columns and 24 lines or more.
//!
//! Must never find a reason or a time itself.

use fluxgate_formats::eventlog;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};
use serde_json::{Value, json};

use super::draw::{Look, clean};
use super::{List, Screen};
use crate::jobs::{Job, listed};
use crate::known::{Known, rows};
use crate::machine::{Machine, State};
use crate::page::job::because;
use crate::{explained, rates, summary, words};

/// Width of a bar.
const BAR: usize = 24;

/// A part of a whole as a bar of `#`.
fn bar(part: f64, whole: f64, width: usize) -> String {
    let filled = if whole > 0.0 { (part / whole * width as f64).round() as usize } else { 0 };
    format!("{:<width$}", "#".repeat(filled.min(width)))
}

fn line<'a>(label: &str, look: Look, rest: Vec<Span<'a>>) -> Line<'a> {
    let mut spans = vec![Span::styled(format!("{label:<9}"), look.dim())];
    spans.extend(rest);
    Line::from(spans)
}

/// Why an answer is missing.
fn missing(known: &Known, name: &str, look: Look) -> Option<Line<'static>> {
    known.refusal(name).map(|why| Line::styled(clean(format!("No answer: {why}")), look.dim()))
}

/// Cells, those under a name that ends in `>` to the right.
fn table<'a>(
    head: &[&str],
    lines: Vec<(Vec<String>, Style)>,
    widths: Vec<Constraint>,
    look: Look,
) -> Table<'a> {
    let right: Vec<bool> = head.iter().map(|name| name.ends_with('>')).collect();
    let cell = move |(at, text): (usize, String)| {
        let right = right.get(at).copied().unwrap_or_default();
        Cell::from(Text::from(clean(text)).alignment(if right { Alignment::Right } else { Alignment::Left }))
    };
    let names = head.iter().map(|name| name.trim_end_matches('>').to_owned());
    let header = Row::new(names.enumerate().map(&cell).collect::<Vec<_>>()).style(look.head());
    let lines = lines.into_iter().map(|(cells, style)| {
        Row::new(cells.into_iter().enumerate().map(&cell).collect::<Vec<_>>()).style(style)
    });
    Table::new(lines.collect::<Vec<_>>(), widths).header(header).row_highlight_style(look.chosen())
}

pub(super) fn now(screen: &Screen, look: Look, frame: &mut Frame<'_>, area: Rect) {
    let known = &screen.known;
    let (summary, at) = (summary::figures(known), known.now());
    let used = |(used, all): summary::Used| {
        vec![
            Span::styled(format!("[{}]", bar(used, all, BAR)), look.used()),
            Span::raw(format!(
                " {:>4}  {} of {}",
                words::percent(used, all),
                words::count(used as u64),
                words::count(all as u64)
            )),
        ]
    };
    let mut nodes = used(summary.nodes);
    if summary.down > 0.0 {
        nodes.push(Span::styled(format!(", {} down", words::count(summary.down as u64)), look.bad()));
    }
    let mut lines = vec![line("Cores", look, used(summary.cores)), line("Nodes", look, nodes)];
    if summary.gpus.1 > 0.0 {
        lines.push(line("GPUs", look, used(summary.gpus)));
    }
    let first =
        summary.first.map(|start| format!("; next start {}", words::until(start - at))).unwrap_or_default();
    lines.push(line(
        "Jobs",
        look,
        vec![Span::raw(format!(
            "{} running, {} waiting{first}",
            words::count(summary.running),
            words::count(summary.waiting)
        ))],
    ));
    let half = if summary.half_us > 0.0 {
        format!(", half in {} or less", summary::micros(summary.half_us))
    } else {
        String::new()
    };
    let policy = format!("{} decides; {} passes{half}", clean(&summary.policy), words::short(summary.passes));
    lines.push(line("Policy", look, vec![Span::raw(policy)]));

    let reasons = summary::reasons(known);
    let most = reasons.first().map_or(1, |(_, count)| *count) as f64;
    lines.extend([Line::raw(""), Line::styled("Why jobs wait", look.head())]);
    lines.extend(missing(known, "metrics", look));
    if reasons.is_empty() {
        lines.push(Line::styled("No job waits.", look.dim()));
    }
    for (reason, count) in reasons.iter().take(5) {
        lines.push(Line::from(vec![
            Span::raw(format!("{:<40}", summary::kind(reason))),
            Span::styled(bar(*count as f64, most, BAR), look.used()),
            Span::raw(format!(" {}", words::count(*count))),
        ]));
    }
    lines.push(Line::raw(""));
    let head = lines.len() as u16;
    let queues = summary::queues(known);
    let queue_lines = if queues.is_empty() { 0 } else { queues.len().min(6) as u16 + 2 };
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(head), Constraint::Min(3), Constraint::Length(queue_lines)])
            .areas(area);
    frame.render_widget(Paragraph::new(lines), top);
    let next = summary::next(known).into_iter().map(|(job, start)| {
        let limit = job["duration"].as_f64().unwrap_or(f64::INFINITY);
        let cells = vec![
            words::job(job["id"].as_u64().unwrap_or_default()),
            words::plain(&job["queue"]),
            summary::size(job),
            words::span(limit),
            words::until(start - at),
            summary::source(job).unwrap_or_default().to_owned(),
        ];
        (cells, Style::new())
    });
    let widths = [14, 12, 12, 10, 12, 10].map(Constraint::Length).to_vec();
    let head = ["EXPECTED NEXT", "QUEUE", "ASKS FOR>", "LIMIT>", "START", "BY"];
    frame.render_widget(table(&head, next.collect(), widths, look), middle);
    if !queues.is_empty() {
        let runs = summary::running_by_queue(known);
        let lines = queues.iter().map(|queue| {
            let name = words::plain(&queue["name"]);
            let number = |key: &str| words::short(summary::number(&queue[key]));
            let running = words::count(runs.get(&name).copied().unwrap_or_default());
            let cells = vec![
                name,
                words::plain(&queue["policy"]),
                number("pending"),
                running,
                number("passes"),
                number("starts"),
            ];
            (cells, Style::new())
        });
        let widths = [16, 16, 9, 9, 9, 9].map(Constraint::Length).to_vec();
        let head = ["QUEUE", "POLICY", "WAITING>", "RUNNING>", "PASSES>", "STARTS>"];
        frame.render_widget(table(&head, lines.collect(), widths, look), bottom);
    }
}

pub(super) fn queue(screen: &Screen, look: Look, frame: &mut Frame<'_>, area: Rect) {
    let (known, at) = (&screen.known, screen.known.now());
    let stats = known.get("stats");
    let count = |key: &str| words::count(stats[key].as_u64().unwrap_or_default());
    let title = |list: List, text: String| {
        let style = if list == screen.list { look.chosen() } else { look.dim() };
        Span::styled(format!(" {text} "), style)
    };
    let mut lines = vec![Line::from(vec![
        title(List::Waiting, format!("w waiting {}", count("pending"))),
        title(List::Running, format!("r running {}", count("running"))),
        title(List::Ended, "d ended".to_owned()),
    ])];
    let list = match screen.list {
        List::Waiting => "order",
        List::Running => "running",
        List::Ended => "ended",
    };
    lines.extend(missing(known, list, look));
    let [top, middle] =
        Layout::vertical([Constraint::Length(lines.len() as u16), Constraint::Min(1)]).areas(area);
    frame.render_widget(Paragraph::new(lines), top);
    let shown = match screen.list {
        List::Waiting => waiting(known, at, look),
        List::Running => held(&listed(known, "running"), at, true, look),
        List::Ended => held(&listed(known, "ended"), at, false, look),
    };
    let mut state = TableState::default().with_selected(Some(screen.row));
    frame.render_stateful_widget(shown, middle, &mut state);
}

fn waiting<'a>(known: &Known, at: f64, look: Look) -> Table<'a> {
    let lines = rows(&known.get("order")["jobs"]).iter().map(|job| {
        let start = job["expected"].as_f64();
        let cells = vec![
            words::job(job["id"].as_u64().unwrap_or_default()),
            words::plain(&job["userid"]),
            words::plain(&job["queue"]),
            summary::size(job),
            words::span(job["duration"].as_f64().unwrap_or(f64::INFINITY)),
            start.map_or("unknown".to_owned(), |start| words::until(start - at)),
            words::plain(&job["reason"]),
        ];
        (cells, if start.is_some_and(|start| start <= at) { look.free() } else { Style::new() })
    });
    let widths = [12, 7, 9, 10, 9, 9].map(Constraint::Length).into_iter().chain([Constraint::Min(10)]);
    let head = ["JOB", "USER>", "QUEUE", "ASKS FOR>", "LIMIT>", "START", "WHY IT WAITS"];
    table(&head, lines.collect(), widths.collect(), look)
}

fn held<'a>(jobs: &[Job], at: f64, runs: bool, look: Look) -> Table<'a> {
    let lines = jobs.iter().map(|job| {
        let bad = matches!(job.outcome(), "failed" | "timeout");
        let last = if runs { words::until(job.limit - at) } else { job.outcome().to_owned() };
        let cells = vec![
            words::job(job.id),
            job.name.clone(),
            job.user.to_string(),
            if job.nodes > 1 { words::many(job.nodes, "node") } else { words::many(job.cores, "core") },
            words::span(job.end.unwrap_or(at) - job.start),
            last,
            job.nodelist.clone(),
        ];
        (cells, if bad { look.bad() } else { Style::new() })
    });
    let widths = [12, 12, 7, 10, 8, 10].map(Constraint::Length).into_iter().chain([Constraint::Min(8)]);
    let head = [
        "JOB",
        "NAME",
        "USER>",
        "HAS>",
        if runs { "RUNS>" } else { "RAN>" },
        if runs { "ENDS" } else { "RESULT" },
        "NODES",
    ];
    table(&head, lines.collect(), widths.collect(), look)
}

/// One job, with as many lines from the chosen one on as there is room for.
pub(super) fn job(screen: &Screen, look: Look, id: u64, frame: &mut Frame<'_>, area: Rect) {
    let (known, at) = (&screen.known, screen.known.now());
    let job = &known.get("job")["job"];
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("Job {} ", words::job(id)), look.head()),
        Span::raw(clean(format!("{} ", words::plain(&job["name"])))),
        Span::styled(summary::status(job), look.chosen()),
    ])];
    lines.extend(missing(known, "job", look));
    let pair = |(label, value): &(&str, String)| line_of(label, value, look);
    if !job.is_null() {
        lines.extend(summary::facts(job).iter().map(pair));
    }
    let why = known.get("why");
    let heading = |lines: &mut Vec<Line<'_>>, text: &str| {
        lines.extend([Line::raw(""), Line::styled(text.to_owned(), look.head())]);
    };
    if !why.is_null() {
        heading(&mut lines, "Why it waits");
        lines.extend(wrapped(&words::plain(&why["text"]), usize::from(area.width)));
        lines.extend(
            rows(&why["obstacles"])
                .iter()
                .map(|one| Line::raw(clean(format!("- {}", words::plain(&one["text"]))))),
        );
        lines.extend(summary::starts(why, at).iter().map(pair));
        for (change, follows) in summary::helps(why, at) {
            lines.push(Line::styled(clean(format!("with {change}: {follows}")), look.free()));
        }
        heading(&mut lines, "Every node, by the first reason against it");
        for row in places(known) {
            let count = words::count(row["count"].as_u64().unwrap_or_default());
            lines.push(Line::raw(clean(format!(
                "{count:>6} {}  {}",
                because(&row, at),
                words::plain(&row["nodelist"])
            ))));
        }
    }
    let events =
        eventlog::parse(known.get("log")["eventlog"].as_str().unwrap_or_default()).unwrap_or_default();
    heading(&mut lines, "Events");
    lines.extend(missing(known, "log", look));
    let first = events.first().map_or(0.0, |event| event.timestamp);
    for event in &events {
        let context = event.context.as_ref().map(|context| json!(context).to_string()).unwrap_or_default();
        let after = words::span(event.timestamp - first);
        lines.push(Line::raw(clean(format!("{after:>8} {} {context}", event.name))));
    }
    let room = usize::from(area.height);
    let from = screen.row.min(lines.len().saturating_sub(room));
    let shown: Vec<Line<'_>> = lines.into_iter().skip(from).take(room).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

/// Text cut at blanks into lines of at most this many characters, where a word is not longer.
fn wrapped(text: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![String::new()];
    for word in clean(text).split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if last.is_empty() {
            *last = word.to_owned();
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            *last += " ";
            *last += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.into_iter().map(Line::raw).collect()
}

fn line_of(label: &str, value: &str, look: Look) -> Line<'static> {
    Line::from(vec![Span::styled(format!("{label:<15}"), look.dim()), Span::raw(clean(value))])
}

/// The nodes of the answer `why`, with those that were drained.
fn places(known: &Known) -> Vec<Value> {
    let tests = &known.get("why")["nodes"];
    let drained = known.get("drains")["drain"].as_object().into_iter().flatten();
    let drained: Vec<_> = drained
        .filter_map(|(ranks, why)| Some((ranks.parse().ok()?, words::plain(&why["reason"]))))
        .collect();
    let down = rows(tests).iter().find(|row| row["test"] == "down").cloned().unwrap_or_default();
    let split = explained::with_drained(tests, &drained, &|ranks| explained::hosts(&down, ranks));
    rows(&split).to_vec()
}

/// A letter for a state, so that no colour is needed.
fn letter(state: State) -> &'static str {
    match state {
        State::Full => "#",
        State::Part => "+",
        State::Free => ".",
        State::Reserved => "r",
        State::Drained => "d",
        State::Down => "x",
    }
}

fn style(state: State, look: Look) -> Style {
    match state {
        State::Full | State::Part => look.used(),
        State::Free => look.free(),
        State::Reserved | State::Drained => look.dim(),
        State::Down => look.bad(),
    }
}

pub(super) fn machine(screen: &Screen, look: Look, frame: &mut Frame<'_>, area: Rect) {
    let known = &screen.known;
    let machine = Machine::of(known);
    let mut legend = vec![Span::raw(words::many(machine.nodes.len() as u64, "node"))];
    for state in State::ALL {
        let count = machine.count(state);
        if count > 0 {
            let text = format!("   {} {} {}", letter(state), words::count(count), state.name());
            legend.push(Span::styled(text, style(state, look)));
        }
    }
    let mut lines = vec![Line::from(legend)];
    lines.extend(missing(known, "resources", look));
    let drained = machine.nodes.iter().filter_map(|node| Some((node, node.reason.as_ref()?)));
    for (node, reason) in drained.take(3) {
        lines.push(Line::styled(clean(format!("{} is drained: {reason}", node.host)), look.dim()));
    }
    lines.push(Line::raw(""));
    // A rack is cut into lines where it is wider than the screen.
    let label = 24;
    let width = usize::from(area.width).saturating_sub(label + 1).max(8);
    let mut racks = Vec::new();
    for rack in machine.racks.iter().skip(screen.row) {
        for (part, nodes) in machine.nodes[rack.nodes.clone()].chunks(width).enumerate() {
            let name = if part == 0 { clean(&rack.name) } else { String::new() };
            let name: String = name.chars().take(label).collect();
            let mut spans = vec![Span::raw(format!("{name:<label$} "))];
            spans.extend(nodes.iter().map(|node| Span::styled(letter(node.state), style(node.state, look))));
            racks.push(Line::from(spans));
        }
        if racks.len() > usize::from(area.height) {
            break;
        }
    }
    lines.extend(racks);
    frame.render_widget(Paragraph::new(lines), area);
}

pub(super) fn policies(screen: &Screen, look: Look, frame: &mut Frame<'_>, area: Rect) {
    let known = &screen.known;
    let (list, stats, shown) = (known.get("policies"), known.get("stats"), known.get("policy"));
    let active = format!("{} {} ", words::plain(&list["active"]), words::plain(&shown["version"]));
    let mut lines = vec![Line::from(vec![
        Span::styled(clean(active), look.head()),
        Span::raw(clean(format!("decides: {}", words::plain(&shown["summary"])))),
    ])];
    lines.extend(missing(known, "policies", look));
    if let Some(to) = stats["swap"]["to"].as_str() {
        let keyed = words::count(stats["swap"]["keyed"].as_u64().unwrap_or_default());
        lines.push(Line::styled(
            clean(format!("A swap to {to} is under way: {keyed} jobs keyed.")),
            look.head(),
        ));
    }
    if let Some(until) = list["probation"]["until"].as_f64() {
        let policy = words::plain(&list["probation"]["policy"]);
        let rest = words::span(until - known.now());
        lines.push(Line::styled(clean(format!("{policy} is on probation for another {rest}.")), look.head()));
    }
    lines.push(Line::raw(""));
    let rates = screen.rates();
    let costs: Vec<(Vec<String>, Style)> = rows(&rates["policies"])
        .iter()
        .map(|row| {
            let bad = row["breaches"].as_u64().unwrap_or_default() > 0;
            (rates::cells(row).to_vec(), if bad { look.bad() } else { Style::new() })
        })
        .collect();
    let all = rows(&list["policies"]).iter().map(|one| {
        let bad = one["quarantined"] == true;
        let cells = vec![
            if one["active"] == true { "*".to_owned() } else { String::new() },
            words::plain(&one["name"]),
            words::plain(&one["version"]),
            words::plain(&one["failures"]),
            words::plain(&one["summary"]),
        ];
        (cells, if bad { look.bad() } else { Style::new() })
    });
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(lines.len() as u16),
        Constraint::Length(costs.len() as u16 + 2),
        Constraint::Min(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), top);
    let head = ["NAME", "ROLE", "PASSES>", "FUEL/PASS>", "MS/PASS>", "MIB>", "DECIDED>", "BREACHES>"];
    let widths = [13, 12, 8, 10, 8, 6, 7, 8].map(Constraint::Length).to_vec();
    frame.render_widget(table(&head, costs, widths, look), middle);
    let head = ["", "LOADED", "VERSION", "FAILED>", "SUMMARY"];
    let widths = [1, 16, 9, 7].map(Constraint::Length).into_iter().chain([Constraint::Min(10)]);
    frame.render_widget(table(&head, all.collect(), widths.collect(), look), bottom);
}
