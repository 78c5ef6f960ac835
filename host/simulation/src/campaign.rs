//! One seed after the other; a seed that fails is made smaller, and said as one command.
//!
//! Must never know what time it is: the binary says when it is enough.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use fluxgate_formats::Idset;

use crate::components::CompiledPolicies;
use crate::embedded::EmbeddedWorld;
use crate::plan::{Keep, Plan, Profile};
use crate::tally::Tally;
use crate::world::{Outcome, World};

/// Most worlds that are tried to make a failing one smaller.
const TRIES_MAX: usize = 300;

/// One seed in this many has components where no profile is asked for.
const POLICIES_IN: u64 = 4;

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// The profile of a seed where none is asked for.
pub fn profile_of(seed: u64) -> Profile {
    if seed.is_multiple_of(POLICIES_IN) { Profile::Policies } else { Profile::Builtin }
}

/// Makes a panic an outcome as any other, with its place and its message.
fn keep_panics() {
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match RUNNING.get() {
            true => PANIC.with(|panic| *panic.borrow_mut() = Some(info.to_string().replace('\n', " "))),
            false => others(info),
        }));
    });
}

/// Runs the part of a seed that is kept.
pub fn run(
    seed: u64,
    profile: Profile,
    keep: &Keep,
    compiled: &Arc<CompiledPolicies>,
    trace: bool,
) -> Outcome {
    keep_panics();
    let plan = Plan::new(seed, profile, keep);
    let (compiled, calm) = (Arc::clone(compiled), plan.calm);
    RUNNING.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| match profile.has_instance() {
        true => EmbeddedWorld::new(plan, compiled, trace).run(),
        false => World::new(plan, compiled, trace).run(),
    }));
    RUNNING.set(false);
    result.unwrap_or_else(|_| {
        let what = PANIC.with(|panic| panic.borrow_mut().take()).unwrap_or_default();
        Outcome { broken: Some((calm, format!("panic: {what}"))), hash: 0, tally: Tally::default() }
    })
}

/// The smallest part of a failing seed that still fails, as far as trying finds it.
pub fn shrink(seed: u64, profile: Profile, keep: &Keep, compiled: &Arc<CompiledPolicies>) -> Keep {
    let whole = Plan::new(seed, profile, keep);
    let mut faults: Vec<u32> = whole.faults.iter().map(|fault| fault.number).collect();
    let mut jobs: Vec<u32> = whole.jobs.iter().map(|job| job.number).collect();
    let mut tries = 0;
    let mut fails = |jobs: &[u32], faults: &[u32]| {
        tries += 1;
        tries <= TRIES_MAX && run(seed, profile, &kept(keep, jobs, faults), compiled, false).broken.is_some()
    };
    loop {
        let before = faults.len() + jobs.len();
        less(&mut faults, |faults| fails(&jobs, faults));
        less(&mut jobs, |jobs| !jobs.is_empty() && fails(jobs, &faults));
        if faults.len() + jobs.len() == before {
            return kept(keep, &jobs, &faults);
        }
    }
}

fn kept(keep: &Keep, jobs: &[u32], faults: &[u32]) -> Keep {
    Keep {
        jobs: Some(jobs.iter().copied().collect()),
        faults: Some(faults.iter().copied().collect()),
        kinds: keep.kinds.clone(),
    }
}

/// Leaves out halves, quarters and so on as long as the rest still fails.
fn less(numbers: &mut Vec<u32>, mut fails: impl FnMut(&[u32]) -> bool) {
    let mut size = numbers.len();
    while size > 0 {
        let mut at = 0;
        while at < numbers.len() {
            let end = (at + size).min(numbers.len());
            let rest: Vec<u32> = numbers[..at].iter().chain(&numbers[end..]).copied().collect();
            match fails(&rest) {
                true => *numbers = rest,
                false => at = end,
            }
        }
        size /= 2;
    }
}

/// The command that runs a seed again.
pub fn command(seed: u64, profile: Profile, keep: &Keep) -> String {
    let set = |numbers: &BTreeSet<u32>| match numbers.is_empty() {
        true => "none".to_owned(),
        false => numbers.iter().copied().collect::<Idset>().to_string(),
    };
    let mut command = format!("cargo xtask simulate --seed {seed}");
    if profile != profile_of(seed) {
        command += &format!(" --profile {}", profile.name());
    }
    if let Some(kinds) = &keep.kinds {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        command += &format!(" --fault {}", names.join(","));
    }
    if let Some(jobs) = &keep.jobs {
        command += &format!(" --jobs {}", set(jobs));
    }
    if let Some(faults) = &keep.faults {
        command += &format!(" --faults {}", set(faults));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_to_fail_is_kept() {
        let mut numbers: Vec<u32> = (0..20).collect();
        less(&mut numbers, |left| left.contains(&3) && left.contains(&17));
        assert_eq!(numbers, [3, 17]);
        let keep = kept(&Keep::default(), &[1, 2, 3], &[]);
        assert_eq!(
            command(4, Profile::Policies, &keep),
            "cargo xtask simulate --seed 4 --jobs 1-3 --faults none"
        );
    }
}
