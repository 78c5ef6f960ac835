//! The views in a terminal of 80 columns and 24 lines, from made-up answers.

use std::sync::Arc;
use std::time::Duration;

use fluxgate_web::Answers;
use fluxgate_web::terminal::{Key, Screen, Then, View};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use tokio::runtime::Builder;

use super::made::{Made, NOW, SMALL};

/// A screen after these keys.
fn drawn(made: Made, view: View, keys: &[Key], colour: bool, size: (u16, u16)) -> TestBackend {
    let answers = Arc::new(Answers::new(made, Box::new(|| Duration::ZERO)));
    let mut screen = Screen::new(view, colour);
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(screen.gather(&answers, NOW));
    for key in keys {
        if screen.key(*key) == Then::Ask {
            runtime.block_on(screen.gather(&answers, NOW));
        }
    }
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal.backend().clone()
}

fn shown(view: View, keys: &[Key]) -> String {
    drawn(SMALL, view, keys, true, (80, 24)).to_string()
}

#[test]
fn feat_70_the_views_at_80_by_24() {
    insta::assert_snapshot!("terminal_now", shown(View::Now, &[]));
    insta::assert_snapshot!("terminal_queue", shown(View::Queue, &[Key::Down]));
    insta::assert_snapshot!("terminal_running", shown(View::Queue, &[Key::Char('r')]));
    insta::assert_snapshot!("terminal_ended", shown(View::Queue, &[Key::Char('d')]));
    insta::assert_snapshot!("terminal_job", shown(View::Queue, &[Key::Enter]));
    insta::assert_snapshot!("terminal_machine", shown(View::Machine, &[]));
    insta::assert_snapshot!("terminal_policies", shown(View::Policies, &[]));
    insta::assert_snapshot!("terminal_help", shown(View::Now, &[Key::Char('?')]));
}

#[test]
fn feat_70_the_end_of_a_job_is_reached_and_back_leads_to_the_queue() {
    let down = [Key::Enter].into_iter().chain([Key::PageDown; 9]).collect::<Vec<_>>();
    let end = shown(View::Queue, &down);
    assert!(
        end.contains("Events") && end.contains("submit {\"urgency\":16}") && !end.contains("SCHED"),
        "{end}"
    );
    let back = shown(View::Queue, &[Key::Enter, Key::Back]);
    assert!(back.contains("WHY IT WAITS"), "{back}");
}

#[test]
fn feat_70_without_colours_all_is_in_letters() {
    for (view, keys) in [
        (View::Now, vec![]),
        (View::Machine, vec![]),
        (View::Policies, vec![]),
        (View::Queue, vec![Key::Enter]),
    ] {
        let plain = drawn(SMALL, view, &keys, false, (80, 24));
        let colours =
            plain.buffer().content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(colours.count(), 0, "{view:?}");
        assert_eq!(plain.to_string(), shown(view, &keys), "{view:?}");
    }
}

#[test]
fn feat_70_any_size_and_any_answers_can_be_drawn() {
    let large = Made { nodes: 8192, running: 500, ended: 2000, waiting: 100_000, private: false };
    let guest = Made { private: true, ..SMALL };
    let none = Made { nodes: 1, running: 0, ended: 0, waiting: 0, private: false };
    for made in [large, guest, none] {
        for view in View::ALL {
            for size in [(1, 1), (20, 4), (80, 24), (250, 70)] {
                drawn(made, view, &[Key::Char('G'), Key::Enter, Key::PageDown], true, size);
            }
        }
    }
    let evil = shown(View::Policies, &[]);
    assert!(evil.contains("quarantine"), "{evil}");
}
