//! The frame of every view: views and time above, warnings, keys below; and the few styles of text.
//!
//! Without colours all is told by words, letters and weight.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::{Screen, View, views};
use crate::{summary, words};

/// Most warnings that are shown.
const WARNINGS_MAX: usize = 3;

/// The styles of text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) colour: bool,
}

impl Look {
    fn of(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// A heading.
    pub(super) fn head(self) -> Style {
        self.of(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Text of less weight.
    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// A warning for operators.
    pub(super) fn bad(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// A bar, and resources in use.
    pub(super) fn used(self) -> Style {
        self.of(Color::Blue)
    }

    /// Free resources, and starts that are known.
    pub(super) fn free(self) -> Style {
        self.of(Color::Green)
    }

    /// The chosen row.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Text of others, without what a terminal would take for a command.
pub(super) fn clean(text: impl AsRef<str>) -> String {
    text.as_ref().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The whole screen.
pub(super) fn screen(screen: &Screen, frame: &mut Frame<'_>) {
    let look = Look { colour: screen.colour };
    let warnings = summary::trouble(&screen.known);
    let shown = warnings.len().min(WARNINGS_MAX) as u16;
    let [top, warned, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(shown),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    head(screen, look, frame, top);
    let lines: Vec<Line<'_>> = warnings
        .iter()
        .take(WARNINGS_MAX)
        .map(|(bad, text)| {
            Line::styled(format!("! {}", clean(text)), if *bad { look.bad() } else { look.head() })
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), warned);
    match (screen.job, screen.view) {
        (Some(id), _) => views::job(screen, look, id, frame, middle),
        (None, View::Now) => views::now(screen, look, frame, middle),
        (None, View::Queue) => views::queue(screen, look, frame, middle),
        (None, View::Machine) => views::machine(screen, look, frame, middle),
        (None, View::Policies) => views::policies(screen, look, frame, middle),
    }
    let keys = match (screen.job, screen.view) {
        (Some(_), _) => "Esc back  j k scroll",
        (None, View::Queue) => "w waiting  r running  d ended  j k choose  Enter open",
        (None, View::Machine) => "j k scroll",
        _ => "1-4 or h l views",
    };
    frame.render_widget(Paragraph::new(Line::styled(format!("{keys}  ? help  q quit"), look.dim())), bottom);
    if screen.help {
        help(look, frame);
    }
}

fn head(screen: &Screen, look: Look, frame: &mut Frame<'_>, area: Rect) {
    let mut spans = vec![Span::styled("fluxgate ", look.head())];
    for (at, view) in View::ALL.iter().enumerate() {
        let is = *view == screen.view;
        let text = format!(" {} {} ", at + 1, view.name());
        spans.push(Span::styled(text, if is { look.chosen() } else { look.dim() }));
    }
    let now = screen.known.now();
    let time = if now > 0.0 { format!("{} UTC", words::date_time(now)) } else { String::new() };
    let width = time.len() as u16;
    let [left, right] = Layout::horizontal([Constraint::Min(1), Constraint::Length(width)]).areas(area);
    frame.render_widget(Paragraph::new(Line::from(spans)), left);
    frame.render_widget(Paragraph::new(time), right);
}

fn help(look: Look, frame: &mut Frame<'_>) {
    let text = "1 2 3 4    Now, Queue, Machine, Policies\n\
        h l        the view before, the next one\n\
        j k g G    down, up, first, last row\n\
        w r d      jobs that wait, run, are done\n\
        Enter Esc  open a job, back\n\
        q          quit\n\n\
        # full  + part  . free  d drained  x down";
    let area = frame.area();
    let (width, height) = (52.min(area.width), 10.min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    let block = Block::bordered().title("Keys").title_style(look.head());
    frame.render_widget(Paragraph::new(text).block(block).wrap(Wrap { trim: false }), place);
}
