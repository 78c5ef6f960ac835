//! The misdeeds themselves.
//!
//! Must never know when they are due; that is the policy's business.

use std::hint::black_box;

use fluxgate_guest::prelude::*;
use fluxgate_guest::{log, stray_pass};

/// A candidate that no host offers.
const NEVER_OFFERED: u32 = 4_000_000_000;

/// Bytes of one bad annotation, and how many there are.
const ANNOTATION_BYTES: usize = 8 << 20;
const ANNOTATIONS: usize = 64;

/// Messages of a log bomb.
const MESSAGES: usize = 1_000_000;

/// What it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    None,
    Trap,
    Loop,
    Memory,
    Stack,
    UnknownJob,
    Duplicate,
    AnnotationBomb,
    LogBomb,
    NanKey,
    ShortKeys,
    TrapInSave,
}

pub(crate) const MODES: [(&str, Mode); 12] = [
    ("none", Mode::None),
    ("trap", Mode::Trap),
    ("loop", Mode::Loop),
    ("memory", Mode::Memory),
    ("stack", Mode::Stack),
    ("unknown-job", Mode::UnknownJob),
    ("duplicate", Mode::Duplicate),
    ("annotation-bomb", Mode::AnnotationBomb),
    ("log-bomb", Mode::LogBomb),
    ("nan-key", Mode::NanKey),
    ("short-keys", Mode::ShortKeys),
    ("trap-in-save", Mode::TrapInSave),
];

pub(crate) const MODE_HELP: &str = "what it does: none, trap, loop, memory, stack, unknown-job, duplicate, \
     annotation-bomb, log-bomb, nan-key, short-keys or trap-in-save";

/// The moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum When {
    Load,
    #[default]
    FirstPass,
    MidPass,
    Swap,
    Observe,
    Keys,
}

pub(crate) const WHENS: [(&str, When); 6] = [
    ("load", When::Load),
    ("first-pass", When::FirstPass),
    ("mid-pass", When::MidPass),
    ("swap", When::Swap),
    ("observe", When::Observe),
    ("keys", When::Keys),
];

pub(crate) const WHEN_HELP: &str =
    "the moment: load, first-pass, mid-pass, swap (save and restore), observe or keys";

impl Mode {
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        by_name("mode", &MODES, name)
    }

    pub(crate) fn is_about_keys(self) -> bool {
        matches!(self, Mode::NanKey | Mode::ShortKeys)
    }
}

impl When {
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        by_name("when", &WHENS, name)
    }

    /// Does this moment make bad keys bad from the beginning?
    pub(crate) fn is_at_once(self) -> bool {
        matches!(self, When::Load | When::Swap | When::Keys)
    }
}

fn by_name<T: Copy>(setting: &str, known: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = known.iter().find(|(each, _)| *each == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(each, _)| *each).collect();
        format!("`{setting}` is `{name}`, but must be one of {}", names.join(", "))
    })
}

/// Misbehave inside a pass, at this candidate, or at the next one if there is none.
pub(crate) fn in_pass(mode: Mode, pass: &mut dyn Pass, at: Option<Candidate>) {
    match mode {
        Mode::UnknownJob => {
            let _ = pass.start(Candidate::from_raw(NEVER_OFFERED));
        }
        Mode::Duplicate => {
            if let Some(job) = at.or_else(|| pass.next()) {
                // It may have to wait, in which case it is reserved twice.
                for _ in 0..2 {
                    if pass.start(job).is_err() {
                        let _ = pass.reserve(job);
                    }
                }
            }
        }
        Mode::AnnotationBomb => {
            if let Some(job) = at.or_else(|| pass.next()) {
                let json = format!("\"{}\"", "x".repeat(ANNOTATION_BYTES));
                for number in 0..ANNOTATIONS {
                    pass.annotate(job, &format!("user.bomb{number}"), &json);
                }
            }
        }
        other => anywhere(other),
    }
}

/// Misbehave where no pass may be asked.
pub(crate) fn outside_pass(mode: Mode) {
    match mode {
        Mode::UnknownJob | Mode::Duplicate | Mode::AnnotationBomb => {
            if let Some(mut pass) = stray_pass() {
                in_pass(mode, pass.as_mut(), None);
            }
        }
        other => anywhere(other),
    }
}

fn anywhere(mode: Mode) {
    match mode {
        Mode::Trap => panic!("told to trap"),
        Mode::Loop => forever(),
        Mode::Memory => eat_memory(),
        Mode::Stack => drop(black_box(deeper(black_box(1)))),
        Mode::LogBomb => (0..MESSAGES).for_each(|number| log::warn(&format!("message {number}"))),
        _ => {}
    }
}

fn only_in_a_component() {
    if cfg!(not(target_arch = "wasm32")) {
        panic!("not done natively: it would take the test with it");
    }
}

fn forever() {
    only_in_a_component();
    let mut turns = 0u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

fn eat_memory() {
    only_in_a_component();
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(black_box(vec![1; 1 << 20]));
    }
}

fn deeper(depth: u64) -> u64 {
    only_in_a_component();
    let room = black_box([depth; 64]);
    // No stack is this deep; the compiler need not know.
    if depth == u64::MAX { 0 } else { deeper(black_box(depth + 1)).wrapping_add(room[7]) }
}
