//! Every bound of a policy, with its name, its unit and its default.
//!
//! Fuel decides: it counts executed instructions, so the result is the same on a loaded machine and in a replay. The
//! work of the host for a policy is charged in the same unit (`fuel_question` and its neighbours), so that a policy
//! cannot hide work in its queries. Once half of a pass's fuel was used for queries, further starts and reservations
//! are refused with `limit`. The wall clock is only a backstop: to use up the largest fuel bound takes an idle core
//! about a second, and the default deadline is ten.
//!
//! [`fluxgate_engine::Config`] bounds the decisions and annotations of one pass for every policy, native ones
//! included.
//!
//! This module must never know how a bound is enforced.

use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// Longest name of a policy or a configuration key, bytes (`fluxgate:policy/types.description`).
pub const NAME_BYTES_MAX: usize = 64;
/// Longest one-line text of a description (version, summary, help), bytes.
pub const LINE_BYTES_MAX: usize = 512;
/// The target of the log lines of policies, for filters.
pub const LOG_TARGET: &str = "fluxgate::policy";
/// Most configuration keys that a policy may describe.
pub const CONFIG_KEYS_MAX: usize = 64;
/// Longest configuration value, bytes.
pub const CONFIG_VALUE_BYTES_MAX: usize = 4096;
/// Longest message of a policy that is kept in an error, bytes.
pub const MESSAGE_BYTES_MAX: usize = 400;

/// The bounds of one loader. Every field may be set by a site; the keys of the serialised form are the
/// field names with `-`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Largest component file, bytes. 32 MiB: a component with a Python interpreter has 19 MiB.
    pub component_bytes: u64,
    /// Linear memory of one instance, bytes over all its memories. 256 MiB.
    pub memory_bytes: u64,
    /// Elements over all tables of one instance. 200,000.
    pub table_elements: u64,
    /// Core instances, memories and tables of one instance, each. 64.
    pub instances: u32,
    /// Stack of a call, bytes; it is part of the calling thread's own stack. 512 KiB.
    pub stack_bytes: u64,

    /// Fuel for the start code of an instance. 2,000,000,000.
    pub fuel_instantiate: u64,
    /// Fuel for `describe`. 200,000,000.
    pub fuel_describe: u64,
    /// Fuel for `configure`. 500,000,000.
    pub fuel_configure: u64,
    /// Fuel for one call of `keys`, beside `fuel_keys_row`. 200,000,000.
    pub fuel_keys: u64,
    /// Further fuel for each row of `keys`. 20,000.
    pub fuel_keys_row: u64,
    /// Fuel for `run`, one pass. 1,000,000,000.
    pub fuel_run: u64,
    /// Fuel for one call of `observe`, beside `fuel_observe_event`. 200,000,000.
    pub fuel_observe: u64,
    /// Further fuel for each event of `observe`. 20,000.
    pub fuel_observe_event: u64,
    /// Fuel for one call of `scores`, beside `fuel_scores_row`. 200,000,000.
    pub fuel_scores: u64,
    /// Further fuel for each row of `scores`. 100,000.
    pub fuel_scores_row: u64,
    /// Fuel for a whole pass: `run` and every call of `keys`, `observe` and `scores` since the previous pass. The
    /// fuel of `fuel-keys-row`, `fuel-observe-event` and `fuel-scores-row` is added. 2,000,000,000.
    pub fuel_pass: u64,
    /// Fuel for `save`. 2,000,000,000.
    pub fuel_save: u64,
    /// Fuel for `restore`. 2,000,000,000.
    pub fuel_restore: u64,

    /// Fuel charged for any call of an import, and for each candidate or span of its lists. 50.
    pub fuel_question: u64,
    /// Further fuel charged for `fits`, `start` and `start-placed`, and for each candidate of `start-or-reserve`,
    /// `start-or-reserve-next`, `backfill` and `renew`. 500.
    pub fuel_fit: u64,
    /// Further fuel charged for `earliest`, `reserve`, `earliest-after` and `reserve-after`, and for each candidate of
    /// `start-or-reserve`, `start-or-reserve-next`, `backfill` and `renew` that is not started at once. 20,000.
    pub fuel_plan: u64,
    /// Further fuel charged for each byte of text passed to an import, and of each text attribute that it gives. 1.
    pub fuel_text_byte: u64,
    /// Calls of imports in one call of an export, each charge of `fuel_question` counted. 16,000,000; most policies run out of
    /// fuel before.
    pub questions: u64,

    /// Rows of one call of `keys` and of `scores`, and events of one call of `observe`; more are delivered in several
    /// calls. 65,536.
    pub batch_rows: u32,
    /// Wall-clock backstop of one call, milliseconds. Granularity is [`TICK_MS`]. 10,000.
    pub deadline_ms: u64,
    /// Bytes that one crossing may copy from a component to the host. 64 MiB.
    pub copy_bytes: u64,
    /// Largest state that `save` may return, bytes. 16 MiB.
    pub state_bytes: u64,

    /// Bytes kept of one log message. 4096.
    pub log_message_bytes: u32,
    /// Log messages that may be written in a burst. 256.
    pub log_burst: u32,
    /// Log messages that each further call into the policy allows. 4.
    pub log_refill: u32,

    /// Processor time that compiling one component may take, seconds over all threads. 120. In force only with
    /// [`Loader::compiling_apart`](crate::Loader::compiling_apart).
    pub compile_seconds: u64,
    /// Address space of the process that compiles, bytes. 4 GiB. In force only with `compiling_apart`.
    pub compile_bytes: u64,
    /// Compiled components kept in the cache folder, those used last; 0 counts as 1. 256.
    pub cache_entries: u32,
    /// Size of all compiled components kept in the cache folder, bytes; one is kept in any case. 2 GiB.
    pub cache_bytes: u64,
}

/// Period of the clock behind `deadline_ms`, milliseconds.
pub const TICK_MS: u64 = 100;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            component_bytes: 32 << 20,
            memory_bytes: 256 << 20,
            table_elements: 200_000,
            instances: 64,
            stack_bytes: 512 << 10,
            fuel_instantiate: 2_000_000_000,
            fuel_describe: 200_000_000,
            fuel_configure: 500_000_000,
            fuel_keys: 200_000_000,
            fuel_keys_row: 20_000,
            fuel_run: 1_000_000_000,
            fuel_observe: 200_000_000,
            fuel_observe_event: 20_000,
            fuel_scores: 200_000_000,
            fuel_scores_row: 100_000,
            fuel_pass: 2_000_000_000,
            fuel_save: 2_000_000_000,
            fuel_restore: 2_000_000_000,
            fuel_question: 50,
            fuel_fit: 500,
            fuel_plan: 20_000,
            fuel_text_byte: 1,
            questions: 16_000_000,
            batch_rows: 65_536,
            deadline_ms: 10_000,
            copy_bytes: 64 << 20,
            state_bytes: 16 << 20,
            log_message_bytes: 4096,
            log_burst: 256,
            log_refill: 4,
            compile_seconds: 120,
            compile_bytes: 4 << 30,
            cache_entries: 256,
            cache_bytes: 2 << 30,
        }
    }
}

impl Limits {
    /// Checks the bounds that have a range. Fuel has none: a value with which no policy can run is accepted.
    ///
    /// # Errors
    /// [`LoadError::Limit`] for the first bound that is out of its range.
    pub fn check(&self) -> Result<(), LoadError> {
        let rules: [(&'static str, u64, u64, u64); 9] = [
            ("component-bytes", self.component_bytes, 1 << 10, 1 << 30),
            ("memory-bytes", self.memory_bytes, 64 << 10, 4 << 30),
            ("stack-bytes", self.stack_bytes, 64 << 10, 1 << 20),
            ("batch-rows", self.batch_rows.into(), 1, 1 << 24),
            ("deadline-ms", self.deadline_ms, 2 * TICK_MS, 86_400_000),
            ("copy-bytes", self.copy_bytes, 64 << 10, 4 << 30),
            ("instances", self.instances.into(), 1, 10_000),
            ("compile-seconds", self.compile_seconds, 1, 86_400),
            ("compile-bytes", self.compile_bytes, 256 << 20, 1 << 40),
        ];
        for (bound, found, min, max) in rules {
            if !(min..=max).contains(&found) {
                return Err(LoadError::Limit { bound, found, min, max });
            }
        }
        Ok(())
    }
}

/// `text` without control characters and cut to at most `max` bytes at a character boundary.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if line.len() + c.len_utf8() > max {
            break;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_usable_and_absurd_values_are_named() {
        Limits::default().check().unwrap();
        let error = Limits { stack_bytes: 1, ..Limits::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "limit stack-bytes is 1; accepted are 65536 to 1048576");
    }

    #[test]
    fn a_site_sets_what_it_wants_and_misspelling_is_an_error() {
        let limits: Limits = serde_json::from_str(r#"{"fuel-run": 7}"#).unwrap();
        assert_eq!(limits, Limits { fuel_run: 7, ..Limits::default() });
        assert!(serde_json::from_str::<Limits>(r#"{"fuel-runs": 7}"#).is_err());
    }

    #[test]
    fn foreign_text_becomes_one_bounded_line() {
        assert_eq!(one_line("a\nb\u{1b}[31m", 64), "a b [31m");
        assert_eq!(one_line("äöü", 5), "äö");
    }
}
