//! `fluxgate top`: the views of the dashboard in a terminal.
//!
//! Reads keys and the clock, and draws; must never know what a view shows.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fluxgate_web::terminal::{Key, Screen, Then, View};
use fluxgate_web::{Answers, Live};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::args::Target;
use crate::client::Client;
use crate::clock::Clock;
use crate::fail::usage;
use crate::place;

/// `fluxgate top`.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: 1-4 or h and l change the view, j and k move, Enter opens a job, Esc goes back, ? lists all \
    keys, q quits. Without colours: NO_COLOR=1."
)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The view to begin with.
    #[arg(value_enum, default_value_t = Begin::Now)]
    pub(crate) view: Begin,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) every: f64,
}

/// A view to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Begin {
    /// How full the machine is, why jobs wait, what starts next.
    Now,
    /// Jobs that wait, run, or have ended.
    Queue,
    /// Nodes and their states.
    Machine,
    /// Active policies and their cost.
    Policies,
}

/// Run it.
pub(crate) fn run(args: &Top) -> Result<()> {
    let view = match args.view {
        Begin::Now => View::Now,
        Begin::Queue => View::Queue,
        Begin::Machine => View::Machine,
        Begin::Policies => View::Policies,
    };
    show(&args.target, view, interval(args.every)?)
}

/// The time between two looks.
pub(crate) fn interval(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|every| (Duration::from_millis(50)..=Duration::from_secs(86_400)).contains(every))
        .ok_or_else(|| usage(format!("--every {seconds}: expected seconds, from 0.05 to 86400")))
}

/// Shows a view, and the views that keys lead to, until `q`.
pub(crate) fn show(target: &Target, view: View, every: Duration) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        return Err(usage(
            "this draws on a terminal; 'status', 'queue' and 'policy watch' with --json and --once do not need one",
        ));
    }
    // An instance that is not there is told before the screen is taken.
    let uri = place::uri(target)?;
    drop(Client::connect(target)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let begin = Instant::now();
    let answers = Arc::new(Answers::new(Live::new(uri), Box::new(move || begin.elapsed())));
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut screen = Screen::new(view, colour);
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let clock = Clock::real();
    let shown = (|| -> Result<()> {
        loop {
            runtime.block_on(screen.gather(&answers, clock.now()));
            let until = Instant::now() + every;
            loop {
                terminal.draw(|frame| screen.draw(frame))?;
                if !event::poll(until.saturating_duration_since(Instant::now()))? {
                    break;
                }
                // Other events, such as a new size of the terminal, only draw again.
                if let Event::Key(pressed) = event::read()? {
                    match key(&pressed).map_or(Then::Draw, |key| screen.key(key)) {
                        Then::Draw => {}
                        Then::Ask => break,
                        Then::Quit => return Ok(()),
                    }
                }
            }
        }
    })();
    ratatui::try_restore().context("cannot give the terminal back")?;
    shown
}

/// A key of the terminal as one of ours; Ctrl-C is `q`.
fn key(pressed: &KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    Some(match pressed.code {
        KeyCode::Char('c') if pressed.modifiers.contains(KeyModifiers::CONTROL) => Key::Char('q'),
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right | KeyCode::Tab => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Char('g'),
        KeyCode::End => Key::Char('G'),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc | KeyCode::Backspace => Key::Back,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_70_keys_of_a_terminal() {
        let plain = |code| key(&KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(plain(KeyCode::Char('j')), Some(Key::Char('j')));
        assert_eq!(plain(KeyCode::Tab), Some(Key::Right));
        assert_eq!(plain(KeyCode::Esc), Some(Key::Back));
        assert_eq!(plain(KeyCode::F(5)), None);
        assert_eq!(key(&KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Key::Char('q')));
        assert!(interval(0.01).is_err() && interval(f64::NAN).is_err() && interval(2.0).is_ok());
    }
}
