//! The views of the dashboard in a terminal: now, queue, machine, policies, and one job.
//!
//! A [`Screen`] has the choices of a person. Keys change it, and it is drawn from the same answers as the pages. It draws on
//! anything that ratatui draws on, and reads no terminal itself.
//!
//! Must never ask what no page asks, and must never change anything.

mod draw;
mod views;

use std::sync::Arc;

use ratatui::Frame;
use serde_json::Value;

use crate::answers::Answers;
use crate::jobs::listed;
use crate::known::{Known, rows};
use crate::page::Page;
use crate::page::query::Query;
use crate::rates;

/// Rows that a page key moves by.
const PAGE: usize = 10;

/// A view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Use of the machine, reasons of waiting jobs, next starts.
    Now,
    /// Jobs that wait, run, or have ended.
    Queue,
    /// Nodes and their states.
    Machine,
    /// Policies, and their cost.
    Policies,
}

impl View {
    /// All views, in the order of their keys.
    pub const ALL: [View; 4] = [View::Now, View::Queue, View::Machine, View::Policies];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            View::Now => "Now",
            View::Queue => "Queue",
            View::Machine => "Machine",
            View::Policies => "Policies",
        }
    }
}

/// A list of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Waiting,
    Running,
    Ended,
}

/// A key, whatever the terminal sends for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// To the row above.
    Up,
    /// To the row below.
    Down,
    /// To the view before.
    Left,
    /// To the next view.
    Right,
    /// Ten rows up.
    PageUp,
    /// Ten rows down.
    PageDown,
    /// Open the chosen row.
    Enter,
    /// Back.
    Back,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The screen has to be drawn again.
    Draw,
    /// Answers have to be asked for, and the screen drawn: a view, job or list was changed.
    Ask,
    /// The program has to end.
    Quit,
}

/// A screen: the choices of a person, and the answers that it shows.
#[derive(Debug, Clone)]
pub struct Screen {
    view: View,
    list: List,
    /// The chosen row of the list.
    row: usize,
    /// The job that is looked at, in place of the queue.
    job: Option<u64>,
    help: bool,
    colour: bool,
    /// Counters at the two latest looks.
    before: Value,
    latest: Arc<Value>,
    known: Known,
}

impl Screen {
    /// A screen that begins with this view, with colours or without.
    pub fn new(view: View, colour: bool) -> Screen {
        Screen {
            view,
            list: List::Waiting,
            row: 0,
            job: None,
            help: false,
            colour,
            before: Value::Null,
            latest: Arc::default(),
            known: Known::default(),
        }
    }

    /// The page that shows the same.
    fn page(&self) -> Page {
        match (self.view, self.job) {
            (_, Some(id)) => Page::Job(id),
            (View::Now, None) => Page::Now,
            (View::Queue, None) => Page::Queue(match self.list {
                List::Waiting => Query::default(),
                List::Running => Query::default().with("show", "running"),
                List::Ended => Query::default().with("show", "ended"),
            }),
            (View::Machine, None) => Page::Machine(Query::default()),
            (View::Policies, None) => Page::Policies,
        }
    }

    /// Asks for the answers of the view; `clock` is real time, seconds since the epoch. Answers that are missing are told on the screen.
    pub async fn gather(&mut self, answers: &Arc<Answers>, clock: f64) {
        self.known = self.page().gather(answers, clock).await;
        let stats = Arc::new(self.known.get("stats").clone());
        if *stats != *self.latest {
            self.before = std::mem::replace(&mut self.latest, stats).as_ref().clone();
        }
        self.row = self.row.min(self.length().saturating_sub(1));
    }

    /// Rows of the list that is shown.
    fn length(&self) -> usize {
        match (self.view, self.list) {
            _ if self.job.is_some() => usize::MAX,
            (View::Queue, List::Waiting) => rows(&self.known.get("order")["jobs"]).len(),
            (View::Queue, List::Running) => listed(&self.known, "running").len(),
            (View::Queue, List::Ended) => listed(&self.known, "ended").len(),
            (View::Machine, _) => crate::machine::Machine::of(&self.known).racks.len(),
            _ => 0,
        }
    }

    /// The job of the chosen row.
    fn chosen(&self) -> Option<u64> {
        match self.list {
            _ if self.view != View::Queue || self.job.is_some() => None,
            List::Waiting => rows(&self.known.get("order")["jobs"]).get(self.row)?["id"].as_u64(),
            List::Running => listed(&self.known, "running").get(self.row).map(|job| job.id),
            List::Ended => listed(&self.known, "ended").get(self.row).map(|job| job.id),
        }
    }

    /// Takes a key that was pressed, and tells its effect.
    pub fn key(&mut self, key: Key) -> Then {
        if self.help {
            self.help = false;
            return if key == Key::Char('q') { Then::Quit } else { Then::Draw };
        }
        let place = View::ALL.iter().position(|view| *view == self.view).unwrap_or_default();
        let views = View::ALL.len();
        let last = self.length().saturating_sub(1);
        match key {
            Key::Char('q') => return Then::Quit,
            Key::Char('?') => self.help = true,
            Key::Char(digit @ '1'..='4') => return self.show(View::ALL[digit as usize - '1' as usize]),
            Key::Left | Key::Char('h') => return self.show(View::ALL[(place + views - 1) % views]),
            Key::Right | Key::Char('l' | '\t') => return self.show(View::ALL[(place + 1) % views]),
            Key::Up | Key::Char('k') => self.row = self.row.saturating_sub(1),
            Key::Down | Key::Char('j') => self.row = self.row.saturating_add(1).min(last),
            Key::PageUp => self.row = self.row.saturating_sub(PAGE),
            Key::PageDown => self.row = self.row.saturating_add(PAGE).min(last),
            Key::Char('g') => self.row = 0,
            Key::Char('G') if self.job.is_none() => self.row = last,
            Key::Char('w') => return self.of(List::Waiting),
            Key::Char('r') => return self.of(List::Running),
            Key::Char('d') => return self.of(List::Ended),
            Key::Enter => {
                if let Some(id) = self.chosen() {
                    (self.job, self.row) = (Some(id), 0);
                    return Then::Ask;
                }
            }
            Key::Back => {
                self.row = 0;
                if self.job.take().is_some() {
                    return Then::Ask;
                }
            }
            Key::Char(_) => {}
        }
        Then::Draw
    }

    fn show(&mut self, view: View) -> Then {
        (self.view, self.job, self.row) = (view, None, 0);
        Then::Ask
    }

    fn of(&mut self, list: List) -> Then {
        self.list = list;
        self.show(View::Queue)
    }

    /// Changes of the policies' counters between the two latest looks.
    fn rates(&self) -> Value {
        rates::between(&self.before, &self.latest)
    }

    /// Draws the screen.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        draw::screen(self, frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_through_the_views() {
        let mut screen = Screen::new(View::Now, true);
        assert_eq!(screen.key(Key::Char('l')), Then::Ask);
        assert_eq!(screen.page(), Page::Queue(Query::default()));
        assert_eq!((screen.key(Key::Char('h')), screen.key(Key::Left)), (Then::Ask, Then::Ask));
        assert_eq!(screen.page(), Page::Policies);
        assert_eq!(screen.key(Key::Right), Then::Ask);
        assert_eq!(screen.page(), Page::Now);
        screen.key(Key::Char('3'));
        assert_eq!(screen.page(), Page::Machine(Query::default()));
        screen.key(Key::Char('d'));
        assert_eq!(screen.page().address(), "/queue?show=ended");
        // Without rows nothing is chosen, and no key moves.
        for key in [Key::Down, Key::PageDown, Key::Char('G'), Key::Enter, Key::Up, Key::Char('x')] {
            assert_eq!((screen.key(key), screen.row), (Then::Draw, 0), "{key:?}");
        }
        assert_eq!((screen.key(Key::Char('?')), screen.key(Key::Char('j'))), (Then::Draw, Then::Draw));
        assert_eq!(screen.key(Key::Char('q')), Then::Quit);
    }
}
