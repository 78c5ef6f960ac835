//! The faults themselves.
//!
//! This module does not know their moment, which is the policy's part.

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

/// Bytes, keys and annotations of an output that is too large.
const OUTPUT_BYTES: usize = 2 << 20;
const OUTPUT_KEYS: usize = 1_000_000;
const OUTPUT_ANNOTATIONS: usize = 1_000;

/// The fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    None,
    Trap,
    Loop,
    Drip,
    Memory,
    Hoard,
    Stack,
    Recursion,
    Output,
    AnnotationBomb,
    LogBomb,
    NanKey,
    EqualKeys,
    ShortKeys,
    UnknownJob,
    ForeignJob,
    FinishedJob,
    Duplicate,
    Contradiction,
    Lie,
    TrapInSave,
}

pub(crate) const MODES: [(&str, Mode); 21] = [
    ("none", Mode::None),
    ("trap", Mode::Trap),
    ("loop", Mode::Loop),
    ("drip", Mode::Drip),
    ("memory", Mode::Memory),
    ("hoard", Mode::Hoard),
    ("stack", Mode::Stack),
    ("recursion", Mode::Recursion),
    ("output", Mode::Output),
    ("annotation-bomb", Mode::AnnotationBomb),
    ("log-bomb", Mode::LogBomb),
    ("nan-key", Mode::NanKey),
    ("equal-keys", Mode::EqualKeys),
    ("short-keys", Mode::ShortKeys),
    ("unknown-job", Mode::UnknownJob),
    ("foreign-job", Mode::ForeignJob),
    ("finished-job", Mode::FinishedJob),
    ("duplicate", Mode::Duplicate),
    ("contradiction", Mode::Contradiction),
    ("lie", Mode::Lie),
    ("trap-in-save", Mode::TrapInSave),
];

pub(crate) const MODE_HELP: &str = "what it does: none, trap, loop, drip, memory, hoard, stack, recursion, output, annotation-bomb, log-bomb, \
     nan-key, equal-keys, short-keys, unknown-job, foreign-job, finished-job, duplicate, contradiction, lie or trap-in-save";

/// The moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum When {
    /// No setting can select it: in `describe` there are none yet. See [`crate::written`].
    Describe,
    Configure,
    #[default]
    FirstPass,
    MidPass,
    Annotate,
    Swap,
    Save,
    Restore,
    Observe,
    Keys,
    Rank,
}

pub(crate) const WHENS: [(&str, When); 11] = [
    ("load", When::Configure),
    ("configure", When::Configure),
    ("first-pass", When::FirstPass),
    ("mid-pass", When::MidPass),
    ("annotate", When::Annotate),
    ("swap", When::Swap),
    ("save", When::Save),
    ("restore", When::Restore),
    ("observe", When::Observe),
    ("keys", When::Keys),
    ("rank", When::Rank),
];

pub(crate) const WHEN_HELP: &str = "the moment: configure (or load), first-pass, mid-pass, annotate, swap (save and restore), save, restore, \
     observe, keys or rank";

impl Mode {
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        by_name("mode", &MODES, name)
    }

    pub(crate) fn is_about_keys(self) -> bool {
        matches!(self, Mode::NanKey | Mode::EqualKeys | Mode::ShortKeys)
    }

    /// True if it begins at its moment and lasts.
    pub(crate) fn lasts(self) -> bool {
        self.is_about_keys() || self == Mode::Lie
    }
}

impl When {
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        by_name("when", &WHENS, name)
    }

    pub(crate) fn is_in_pass(self) -> bool {
        matches!(self, When::FirstPass | When::MidPass | When::Annotate)
    }
}

fn by_name<T: Copy>(setting: &str, known: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = known.iter().find(|(each, _)| *each == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(each, _)| *each).collect();
        format!("`{setting}` is `{name}`, but must be one of {}", names.join(", "))
    })
}

/// A fault with its parameters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Misdeed {
    pub(crate) mode: Mode,
    /// Rounds of a drip, MiB of a hoard.
    pub(crate) work: u64,
    /// For the decisions about jobs that are not in this pass.
    pub(crate) odd: Option<Candidate>,
}

impl Misdeed {
    /// Commits the fault inside a pass, at this candidate, or at the next one if there is none.
    pub(crate) fn in_pass(self, pass: &mut dyn Pass, at: Option<Candidate>) {
        match self.mode {
            Mode::UnknownJob | Mode::ForeignJob | Mode::FinishedJob => {
                if let Some(candidate) = self.stranger() {
                    let _ = pass.start(candidate);
                }
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
            Mode::Contradiction => {
                if let Some(job) = pass.next().or(at) {
                    let _ = pass.reserve(job);
                    let _ = pass.start(job);
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
            Mode::Output => {
                if let Some(job) = at.or_else(|| pass.next()) {
                    pass.annotate(job, "user.much", &format!("\"{}\"", too_much()));
                }
            }
            _ => self.anywhere(),
        }
    }

    /// Commits the fault among the annotations of a candidate.
    pub(crate) fn in_annotations(self, pass: &mut dyn Pass, job: Candidate) {
        pass.annotate(job, "user.note", "\"before\"");
        match self.mode {
            Mode::UnknownJob | Mode::ForeignJob | Mode::FinishedJob => {
                if let Some(candidate) = self.stranger() {
                    pass.annotate(candidate, "user.note", "\"not mine\"");
                }
            }
            Mode::NanKey => pass.annotate(job, "user.note", "NaN"),
            Mode::Duplicate => pass.annotate(job, "user.note", "\"again\""),
            Mode::Output => {
                (0..OUTPUT_ANNOTATIONS)
                    .for_each(|number| pass.annotate(job, &format!("user.note{number}"), "1"));
            }
            _ => self.in_pass(pass, Some(job)),
        }
        pass.annotate(job, "user.note", "\"after\"");
    }

    /// Commits the fault where no pass may be asked.
    pub(crate) fn outside_pass(self) {
        match self.mode {
            Mode::UnknownJob
            | Mode::ForeignJob
            | Mode::FinishedJob
            | Mode::Duplicate
            | Mode::Contradiction
            | Mode::AnnotationBomb
            | Mode::Output => {
                if let Some(mut pass) = stray_pass() {
                    // Any number will do: none was offered.
                    Misdeed { odd: Some(Candidate::from_raw(0)), ..self }.in_pass(pass.as_mut(), None);
                }
            }
            _ => self.anywhere(),
        }
    }

    fn stranger(self) -> Option<Candidate> {
        if self.mode == Mode::UnknownJob { Some(Candidate::from_raw(NEVER_OFFERED)) } else { self.odd }
    }

    fn anywhere(self) {
        match self.mode {
            Mode::Trap => panic!("told to trap"),
            Mode::Loop => forever(),
            Mode::Drip => turns(self.work),
            Mode::Memory => eat_memory(),
            Mode::Hoard => hoard(self.work),
            Mode::Stack => drop(black_box(deeper(black_box(1)))),
            Mode::Recursion => drop(black_box(narrower(black_box(1)))),
            Mode::LogBomb => (0..MESSAGES).for_each(|number| log::warn(&format!("message {number}"))),
            _ => {}
        }
    }
}

/// More text than a host accepts.
pub(crate) fn too_much() -> String {
    "x".repeat(OUTPUT_BYTES)
}

/// More keys than there are jobs.
pub(crate) fn too_many() -> Vec<f64> {
    vec![0.0; OUTPUT_KEYS]
}

fn only_in_a_component() {
    if cfg!(not(target_arch = "wasm32")) {
        panic!("not done natively: it would take the test with it");
    }
}

fn forever() {
    only_in_a_component();
    loop {
        turns(u64::MAX);
    }
}

fn turns(count: u64) {
    for turn in 0..count {
        black_box(turn);
    }
}

/// Memory that is never released.
fn hoard(mebibytes: u64) {
    let bytes = usize::try_from(mebibytes << 20).unwrap_or(usize::MAX);
    std::mem::forget(black_box(vec![1_u8; bytes]));
}

fn eat_memory() {
    only_in_a_component();
    loop {
        hoard(1);
    }
}

/// Fills the stack that the policy's language keeps in its memory.
fn deeper(depth: u64) -> u64 {
    only_in_a_component();
    let room = black_box([depth; 64]);
    // No stack is this deep; the compiler need not know.
    if depth == u64::MAX { 0 } else { deeper(black_box(depth + 1)).wrapping_add(room[7]) }
}

/// Fills the stack of the machine: what it keeps is in no memory.
fn narrower(depth: u64) -> u64 {
    only_in_a_component();
    if depth == u64::MAX { 0 } else { narrower(depth + 1).rotate_left(1) ^ depth }
}
