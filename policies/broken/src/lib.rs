//! # broken: a policy that misbehaves on demand
//!
//! For tests and demonstrations of a host's reaction. Until its moment comes, and always with mode `none`, it is `fcfs`
//! with every ability: keys and scores are all 0, passes start jobs in order until the first that waits, events are
//! counted, and the state is that count.
//!
//! ## Settings
//!
//! `mode`: the fault.
//!
//! | mode | fault |
//! |---|---|
//! | `none` | nothing |
//! | `trap` | it panics |
//! | `loop` | it never returns |
//! | `drip` | it makes `work` rounds of a loop, once a call |
//! | `memory` | it allocates until there is no more |
//! | `hoard` | it allocates `work` MiB, once a call, and never releases them |
//! | `stack` | it calls itself until the stack in its memory is full |
//! | `recursion` | it calls itself until the stack of the machine is full |
//! | `output` | it returns more than a host accepts: two megabytes of text, a million keys, a thousand annotations |
//! | `annotation-bomb` | it annotates a job with eight megabytes, many times |
//! | `log-bomb` | it writes a million messages to the log |
//! | `nan-key` | its keys are NaN |
//! | `equal-keys` | its keys are 0 and -0 in turn, which is the same |
//! | `short-keys` | it returns fewer keys than there are jobs |
//! | `unknown-job` | it starts a candidate that was never offered |
//! | `foreign-job` | it starts a candidate that waits in another queue |
//! | `finished-job` | it starts a candidate that it started before and that has ended |
//! | `duplicate` | it starts or reserves the same candidate twice |
//! | `contradiction` | it reserves a candidate and starts it as well |
//! | `lie` | the state that it saves is not its own, and it accepts any state |
//! | `trap-in-save` | it panics when asked for its state |
//!
//! `when`: the moment.
//!
//! | when | the moment |
//! |---|---|
//! | `configure` | in `configure`; `load` is the same |
//! | `first-pass` | at the beginning of a pass, after `after` good ones |
//! | `mid-pass` | in a pass, once a start is staged or one candidate was considered, after `after` good ones |
//! | `annotate` | the same, between two annotations |
//! | `swap` | in `save` (as the old policy) and in `restore` (as the new one) |
//! | `save`, `restore` | in one of them |
//! | `observe` | when events are delivered, after `after` good passes |
//! | `keys` | when keys are requested, after `after` good passes |
//! | `rank` | when nodes are to be ranked, after `after` good passes; faults of keys then apply to these numbers |
//!
//! In `describe` there are no settings yet. The fault there is a text in the component itself: `misdeed in describe:
//! none` among its data, up to 43 characters after the colon and a blank. Another mode is written over that text, with
//! `work` behind it for those that need it: `hoard 9`. The settings then add a second fault, unless the first is one
//! that lasts.
//!
//! Where mode and moment do not fit, the nearest possibility is taken: outside a pass, decisions call the pass all the
//! same, which the contract forbids; bad keys and lies last from their moment on, in a pass after all candidates' keys
//! have been requested again, and between annotations `nan-key` annotates NaN; `trap-in-save` is always in `save`.
//!
//! Natively an endless loop, a full memory or stack would take the test with it, so these panic there.

mod damage;

use std::collections::BTreeMap;
use std::hint::black_box;

use fluxgate_guest::prelude::*;

use damage::{Misdeed, Mode, When};

/// The fault in `describe`; see the [crate](self).
static WRITTEN: [u8; 64] = *b"misdeed in describe: none                                       ";
/// The beginning of the mode.
const WRITTEN_FROM: usize = 21;

/// The fault that is written in the component.
pub(crate) fn written() -> Result<Misdeed, String> {
    // The compiler must not know the text: it may be overwritten.
    let text = black_box(&WRITTEN).get(WRITTEN_FROM..).unwrap_or_default();
    let text = str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut words = text.split_whitespace();
    let mode = Mode::from_name(words.next().unwrap_or_default())?;
    let work =
        words.next().map_or(Ok(0), str::parse).map_err(|error| format!("work in describe: {error}"))?;
    Ok(Misdeed { mode, work, odd: None })
}

/// The policy that commits a fault.
#[derive(Debug, Default)]
pub struct Broken {
    mode: Mode,
    when: When,
    /// Number of good passes before the fault.
    after: u64,
    /// Rounds of a drip, MiB of a hoard.
    work: u64,
    /// Passes begun.
    passes: u64,
    /// Number of events; the state.
    events: u64,
    /// True if keys, or the state, are bad from now on.
    spoilt: bool,
    /// The last candidate that had to wait, and its queue.
    waits: Option<(u32, Candidate)>,
    /// The candidates that it started, by job.
    started: BTreeMap<JobId, Candidate>,
    /// One of them whose job has ended.
    finished: Option<Candidate>,
}

impl Broken {
    /// True if the fault is due, at this moment outside a pass.
    fn due(&self, moment: When) -> bool {
        self.when == moment && self.passes >= self.after
    }

    /// True if the fault is due, at this moment of the current pass.
    fn due_in_pass(&self, moment: When) -> bool {
        self.when == moment && self.passes > self.after
    }

    fn misdeed(&self, odd: Option<Candidate>) -> Misdeed {
        Misdeed { mode: self.mode, work: self.work, odd }
    }

    /// This moment outside of a pass has come.
    fn moment(&mut self, moment: When) {
        if !self.due(moment) {
            return;
        }
        if self.mode.lasts() {
            self.spoilt = true;
        } else {
            self.misdeed(None).outside_pass();
        }
    }

    /// A candidate that is not in this pass over this queue.
    fn stranger(&self, queue: u32, at: Candidate) -> Option<Candidate> {
        match self.mode {
            Mode::ForeignJob => {
                self.waits.filter(|(other, _)| *other != queue).map(|(_, candidate)| candidate)
            }
            Mode::FinishedJob => self.finished.filter(|candidate| *candidate != at),
            _ => None,
        }
    }

    fn is_spoilt(&self, mode: Mode) -> bool {
        self.spoilt && self.mode == mode
    }
}

impl Policy for Broken {
    fn info() -> Info {
        let mut summary = "Misbehaves on demand, for tests; otherwise first come, first served";
        match written() {
            Ok(Misdeed { mode: Mode::Output, .. }) => summary = damage::too_much().leak(),
            Ok(misdeed) if !misdeed.mode.lasts() => misdeed.outside_pass(),
            _ => {}
        }
        Info::new("broken", summary)
            .version(env!("CARGO_PKG_VERSION"))
            .key("mode", Kind::Text, "none", damage::MODE_HELP)
            .key("when", Kind::Text, "first-pass", damage::WHEN_HELP)
            .key(
                "after",
                Kind::Integer,
                "0",
                "passes that go well before; not with configure, swap, save and restore",
            )
            .key("work", Kind::Integer, "0", "turns of a drip, MiB of a hoard")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        let count = |name: &str| -> Result<u64, String> {
            u64::try_from(config.integer(name)?).map_err(|_| format!("`{name}` is below 0"))
        };
        self.mode = Mode::from_name(config.text("mode")?)?;
        self.when = When::from_name(config.text("when")?)?;
        (self.after, self.work) = (count("after")?, count("work")?);
        if matches!(self.when, When::Configure | When::Swap | When::Save | When::Restore) {
            self.after = 0;
        }
        let written = written()?;
        if written.mode.lasts() {
            (self.mode, self.when, self.spoilt) = (written.mode, When::Describe, true);
        }
        // The old policy has no other occasion to begin.
        self.spoilt |= self.mode.is_about_keys() && self.when == When::Swap;
        if self.due(When::Configure) && self.mode == Mode::Output {
            return Err(damage::too_much());
        }
        self.moment(When::Configure);
        Ok(())
    }
}

impl Ordering for Broken {
    fn key(&mut self, _now: f64, job: &Job) -> f64 {
        if self.is_spoilt(Mode::NanKey) {
            f64::NAN
        } else if self.is_spoilt(Mode::EqualKeys) && job.id % 2 == 1 {
            -0.0
        } else {
            0.0
        }
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Vec<f64> {
        if self.due(When::Keys) && self.mode == Mode::Output {
            return damage::too_many();
        }
        self.moment(When::Keys);
        let mut keys: Vec<f64> = jobs.rows().map(|job| self.key(now, &job)).collect();
        if self.is_spoilt(Mode::ShortKeys) {
            keys.pop();
        }
        keys
    }
}

impl Ranking for Broken {
    fn score(&mut self, node: &Node) -> f64 {
        match self.mode {
            Mode::NanKey if self.spoilt => f64::NAN,
            Mode::EqualKeys if self.spoilt && node.rank % 2 == 1 => -0.0,
            _ => 0.0,
        }
    }

    fn scores(&mut self, nodes: &[Node]) -> Vec<f64> {
        if self.due(When::Rank) && self.mode == Mode::Output {
            return damage::too_many();
        }
        self.moment(When::Rank);
        let mut scores: Vec<f64> = nodes.iter().map(|node| self.score(node)).collect();
        if self.is_spoilt(Mode::ShortKeys) {
            scores.pop();
        }
        scores
    }
}

impl Scheduling for Broken {
    fn run(&mut self, pass: &mut dyn Pass) {
        self.passes += 1;
        let queue = pass.queue();
        let now = self.when.is_in_pass() && self.due_in_pass(self.when);
        if now && self.mode.lasts() && !(self.mode == Mode::NanKey && self.when == When::Annotate) {
            self.spoilt = true;
            if self.mode.is_about_keys() {
                while let Some(job) = pass.next() {
                    pass.rekey(job);
                }
                pass.rewind();
            }
        }
        if now && self.when == When::FirstPass {
            self.misdeed(None).in_pass(pass, None);
            pass.rewind();
        }
        let mut done = false;
        while let Some(job) = pass.next() {
            let outcome = pass.start(job);
            if outcome.is_ok() {
                let id = pass.describe(job).id;
                self.started.insert(id, job);
            }
            if now && !done {
                // One a pass is enough for what the host lets pass.
                done = true;
                let misdeed = self.misdeed(self.stranger(queue, job));
                match self.when {
                    When::MidPass => misdeed.in_pass(pass, Some(job)),
                    When::Annotate => misdeed.in_annotations(pass, job),
                    _ => {}
                }
            }
            if outcome.is_err_and(Refusal::job_waits) {
                self.waits = Some((queue, job));
                return;
            }
        }
    }
}

impl Observing for Broken {
    fn observe(&mut self, _now: f64, events: &[JobEvent]) {
        self.events += events.len() as u64;
        for event in events {
            if let Happened::Ended { .. } = event.what
                && let Some(candidate) = self.started.remove(&event.job)
            {
                self.finished = Some(candidate);
            }
        }
        self.moment(When::Observe);
    }
}

impl State for Broken {
    fn save(&self) -> Saved {
        assert!(self.mode != Mode::TrapInSave, "told to trap in save");
        let due = self.due(When::Swap) || self.due(When::Save);
        match self.mode {
            Mode::Lie if due || self.spoilt => return Saved { version: u32::MAX, data: vec![0xaa; 64] },
            Mode::Output if due => return Saved { version: 1, data: damage::too_much().into_bytes() },
            _ if due => self.misdeed(None).outside_pass(),
            _ => {}
        }
        Saved { version: 1, data: self.events.to_le_bytes().to_vec() }
    }

    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String> {
        if (self.due(When::Swap) || self.due(When::Restore)) && self.mode == Mode::Output {
            return Err(damage::too_much());
        }
        self.moment(When::Swap);
        self.moment(When::Restore);
        if self.is_spoilt(Mode::Lie) {
            self.events = u64::MAX / 2;
            return Ok(());
        }
        if from != "broken" || version != 1 {
            return Err(format!("not a state of mine: {from} version {version}"));
        }
        let bytes = data.try_into().map_err(|_| format!("{} bytes where 8 were expected", data.len()))?;
        self.events = u64::from_le_bytes(bytes);
        Ok(())
    }
}

export_policy!(Broken: ordering, scheduling, observing, state, ranking);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    fn broken(mode: &str, when: &str, after: &str) -> Broken {
        configured(&[("mode", mode), ("when", when), ("after", after)]).unwrap()
    }

    fn two_jobs() -> Bench {
        let mut bench = Bench::new(2);
        bench.job(1).duration(10.0).submit();
        bench.job(2).duration(10.0).submit();
        bench
    }

    #[test]
    fn with_mode_none_it_is_fcfs() {
        for (when, _) in damage::WHENS {
            let mut bench = Bench::new(8);
            bench.job(1).cores(6).submit();
            bench.job(2).cores(4).submit();
            bench.job(3).cores(1).submit();
            let mut policy = broken("none", when, "0");
            bench.run(&mut policy);
            assert_eq!(bench.started(), [1], "{when}");
            assert_eq!(policy.save().data, 3u64.to_le_bytes());
        }
    }

    #[test]
    #[should_panic = "told to trap"]
    fn trap_at_load() {
        broken("trap", "load", "0");
    }

    #[test]
    fn after_counts_good_passes() {
        let mut bench = two_jobs();
        let mut policy = broken("trap", "first-pass", "1");
        bench.run(&mut policy);
        assert_eq!(bench.started(), [1, 2]);
        bench.job(3).submit();
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.run(&mut policy)));
        assert!(again.is_err());
    }

    #[test]
    #[should_panic = "contract: candidate 4000000000"]
    fn unknown_job() {
        two_jobs().run(&mut broken("unknown-job", "mid-pass", "0"));
    }

    #[test]
    #[should_panic = "already started or reserved"]
    fn duplicate_at_the_beginning_of_a_pass() {
        two_jobs().run(&mut broken("duplicate", "first-pass", "0"));
    }

    #[test]
    #[should_panic = "already started or reserved"]
    fn duplicate_with_a_single_job() {
        let mut bench = Bench::new(1);
        bench.job(1).submit();
        bench.run(&mut broken("duplicate", "mid-pass", "0"));
    }

    #[test]
    #[should_panic = "already started or reserved"]
    fn reserved_and_started() {
        two_jobs().run(&mut broken("contradiction", "mid-pass", "0"));
    }

    #[test]
    fn a_lie_is_not_believed() {
        let liar = broken("lie", "save", "0");
        let saved = liar.save();
        assert!(broken("none", "save", "0").restore("broken", saved.version, &saved.data).is_err());
        let mut believer = broken("lie", "restore", "0");
        believer.restore("another", 7, b"anything").unwrap();
    }

    #[test]
    fn nothing_is_written_in_it() {
        let written = written().unwrap();
        assert_eq!((written.mode, written.work), (Mode::None, 0));
        assert_eq!(WRITTEN[..WRITTEN_FROM], *b"misdeed in describe: ");
    }

    #[test]
    #[should_panic = "contract: the key of job 1 is NaN"]
    fn nan_keys_at_once() {
        two_jobs().run(&mut broken("nan-key", "load", "0"));
    }

    #[test]
    #[should_panic = "contract: the key of job 3 is NaN"]
    fn nan_keys_after_a_pass() {
        let mut bench = two_jobs();
        let mut policy = broken("nan-key", "mid-pass", "0");
        bench.run(&mut policy);
        assert_eq!(bench.started(), [1, 2]);
        bench.job(3).submit();
        bench.run(&mut policy);
    }

    #[test]
    #[should_panic = "contract: one key per job"]
    fn short_keys() {
        two_jobs().run(&mut broken("short-keys", "keys", "0"));
    }

    #[test]
    #[should_panic = "told to trap in save"]
    fn trap_in_save() {
        let mut policy = broken("trap-in-save", "swap", "0");
        two_jobs().run(&mut policy);
        policy.save();
    }

    #[test]
    fn its_state_survives() {
        let mut first = broken("none", "swap", "0");
        two_jobs().run(&mut first);
        let saved = first.save();
        let mut second = broken("none", "swap", "0");
        second.restore("broken", saved.version, &saved.data).unwrap();
        assert_eq!(second.save(), saved);
        assert!(second.restore("fcfs", 1, &saved.data).is_err());
        assert!(second.restore("broken", 1, b"short").is_err());
    }

    #[test]
    fn settings_are_explained() {
        let refusal = configured::<Broken>(&[("mode", "nice")]).unwrap_err();
        assert!(refusal.contains("`nice`") && refusal.contains("annotation-bomb"), "{refusal}");
        let refusal = configured::<Broken>(&[("when", "never")]).unwrap_err();
        assert!(refusal.contains("mid-pass"), "{refusal}");
    }
}
