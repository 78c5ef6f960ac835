//! Accounts, their shares, and their usage.
//!
//! This module knows neither queues nor passes, and never goes through a map in the order of its hashes.

use std::collections::BTreeMap;

use fluxgate_guest::prelude::*;
use rustc_hash::FxHashMap;

use crate::decay::{AT_ONCE, Decay, exp2_each};
use crate::usage::{Held, Usage};

/// The account of a job, and its cores.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Charged {
    account: usize,
    cores: u32,
}

/// Users below this number are found by it, without a search.
const USERS_NEAR: u32 = 65_536;

/// The accounts of users by number.
#[derive(Debug, Clone, Default)]
struct ByUser {
    /// By user, as far as the largest number that was seen; [`NONE`] for a user of whom no job was.
    near: Vec<u32>,
    far: FxHashMap<u32, u32>,
}

/// No account.
const NONE: u32 = u32::MAX;

impl ByUser {
    fn get(&self, user: u32) -> Option<usize> {
        let found = match user < USERS_NEAR {
            true => self.near.get(user as usize).copied(),
            false => self.far.get(&user).copied(),
        };
        found.filter(|account| *account != NONE).map(|account| account as usize)
    }

    fn insert(&mut self, user: u32, account: usize) {
        let account = account as u32;
        if user >= USERS_NEAR {
            self.far.insert(user, account);
            return;
        }
        if self.near.len() <= user as usize {
            self.near.resize(user as usize + 1, NONE);
        }
        self.near[user as usize] = account;
    }
}

/// Accounts by name; a user in none of them has an account of its own, with the user's number as its name.
#[derive(Debug, Clone)]
pub struct Accounts {
    names: Vec<String>,
    /// Of [`AT_ONCE`] accounts, or several times as many; 1 behind the last one.
    shares: Vec<f64>,
    all_shares: f64,
    used: Usage,
    by_name: BTreeMap<String, usize>,
    /// Users that belong to a named account.
    members: BTreeMap<u32, usize>,
    /// Users of whom a job was seen.
    by_user: ByUser,
    waiting: FxHashMap<JobId, Charged>,
    running: BTreeMap<JobId, Held>,
}

/// The time in a saved state before any usage.
const NEVER: &str = "-";

/// The settings cannot be parsed.
type Bad = String;

/// Parts of a list such as `physics=2, 1001=1`.
pub fn pairs<'a>(key: &str, text: &'a str) -> Result<Vec<(&'a str, &'a str)>, Bad> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let pair = part.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            pair.filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                format!("`{key}` has `{part}`, but must be a list like NAME=VALUE, NAME=VALUE")
            })
        })
        .collect()
}

/// A finite number that is not negative.
pub fn number(key: &str, name: &str, text: &str) -> Result<f64, Bad> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| format!("`{key}` gives {name} `{text}`, but must be a number, 0 or more"))
}

/// The fair-share factors of the accounts at one time.
#[derive(Debug, Clone)]
pub struct Factors<'a> {
    /// Decayed core-seconds by account, and the shares of the accounts: [`AT_ONCE`] accounts, or several times as many. Those behind the
    /// last account have no usage.
    used: Vec<f64>,
    shares: &'a [f64],
    /// The exponent of an account with one share, for each of its core-seconds: all shares, negative, divided by the damping and by all
    /// core-seconds; 0 before any usage.
    exponent: f64,
    /// Factors that were asked for; NaN for the others.
    known: Vec<f64>,
    by_user: &'a ByUser,
}

/// The memory of [`Factors`].
#[derive(Debug, Default)]
pub struct Lists {
    used: Vec<f64>,
    known: Vec<f64>,
}

impl Factors<'_> {
    /// The memory, for the factors of another time.
    pub fn into_lists(self) -> Lists {
        Lists { used: self.used, known: self.known }
    }

    /// The factor of the account of a user; 1 for a user of whom no job was seen.
    #[inline(always)]
    pub fn of(&mut self, user: u32) -> f64 {
        let Some(account) = self.by_user.get(user) else { return 1.0 };
        let known = self.known[account];
        if known.is_nan() { self.compute(account) } else { known }
    }

    /// The factor of an account, by number: 2^(-(usage / shares) / damping), both as fractions of the total. Those of the accounts
    /// beside it are computed with it, which takes hardly longer.
    #[inline(never)]
    #[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
    fn compute(&mut self, account: usize) -> f64 {
        let (used, _) = self.used.as_chunks::<AT_ONCE>();
        let (shares, _) = self.shares.as_chunks::<AT_ONCE>();
        let (known, _) = self.known.as_chunks_mut::<AT_ONCE>();
        let (used, shares) = (&used[account / AT_ONCE], &shares[account / AT_ONCE]);
        let powers = exp2_each(&std::array::from_fn(|at| used[at] * self.exponent / shares[at]));
        let known: &mut [f64; AT_ONCE] = &mut known[account / AT_ONCE];
        *known = std::array::from_fn(|at| if shares[at] > 0.0 { powers[at] } else { 0.0 });
        known[account % AT_ONCE]
    }
}

impl Default for Accounts {
    fn default() -> Self {
        Accounts {
            names: Vec::new(),
            shares: Vec::new(),
            all_shares: 0.0,
            used: Usage::new(Decay::new(f64::INFINITY)),
            by_name: BTreeMap::new(),
            members: BTreeMap::new(),
            by_user: ByUser::default(),
            waiting: FxHashMap::default(),
            running: BTreeMap::new(),
        }
    }
}

impl Accounts {
    /// Reads `shares` (`NAME=SHARES`, of accounts or users) and `accounts` (`NAME=USER USER ...`).
    pub fn new(half_life: f64, shares: &str, accounts: &str) -> Result<Self, Bad> {
        let mut made = Accounts { used: Usage::new(Decay::new(half_life)), ..Accounts::default() };
        for (name, text) in pairs("shares", shares)? {
            let value = number("shares", name, text)?;
            let account = made.account(name);
            made.shares[account] = value;
        }
        made.all_shares = made.shares[..made.names.len()].iter().sum();
        for (name, users) in pairs("accounts", accounts)? {
            let account = made.account(name);
            for user in users.split_whitespace() {
                let user = user.parse().map_err(|_| {
                    format!("`accounts` gives {name} `{user}`, but must be user numbers with spaces between")
                })?;
                if made.members.insert(user, account).is_some_and(|other| other != account) {
                    return Err(format!("`accounts` has user {user} in two accounts"));
                }
            }
        }
        Ok(made)
    }

    fn account(&mut self, name: &str) -> usize {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        self.names.push(name.to_owned());
        self.shares.resize(self.names.len().next_multiple_of(AT_ONCE), 1.0);
        self.all_shares += 1.0;
        self.used.add_account();
        self.by_name.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    fn of_user(&mut self, user: u32) -> usize {
        if let Some(account) = self.by_user.get(user) {
            return account;
        }
        let account = match self.members.get(&user) {
            Some(account) => *account,
            None => self.account(&user.to_string()),
        };
        self.by_user.insert(user, account);
        account
    }

    /// A job waits, and is known from now on.
    pub fn waits(&mut self, job: &Job) {
        let account = self.of_user(job.userid);
        self.waiting.insert(job.id, Charged { account, cores: job.cores.max(1) });
    }

    /// A job got its cores.
    pub fn starts(&mut self, id: JobId, at: f64) {
        if let Some(Charged { account, cores }) = self.waiting.remove(&id) {
            let job = Held { account, cores, start: at };
            self.used.reach(at, self.running.values().copied());
            self.used.starts(job);
            // A start that the scheduler before had not finished is made again.
            if let Some(before) = self.running.insert(id, job) {
                self.used.forget(before);
            }
        }
    }

    /// A job left the queue without having started.
    pub fn leaves(&mut self, id: JobId) {
        self.waiting.remove(&id);
    }

    /// A job released its cores.
    pub fn ends(&mut self, id: JobId, at: f64) {
        if !self.running.contains_key(&id) {
            return;
        }
        self.used.reach(at, self.running.values().copied());
        if let Some(job) = self.running.remove(&id) {
            self.used.ends(job, at);
        }
    }

    /// The fair-share factors of the accounts at this time.
    #[inline(never)]
    pub fn factors(&self, now: f64, damping: f64, lists: Lists) -> Factors<'_> {
        let Lists { mut used, mut known } = lists;
        self.used.by_account(now, &mut used);
        let all_used: f64 = used.iter().sum();
        known.clear();
        known.resize(used.len(), f64::NAN);
        let exponent = if all_used > 0.0 { -self.all_shares / damping / all_used } else { 0.0 };
        Factors { used, shares: &self.shares, exponent, known, by_user: &self.by_user }
    }

    /// The state as text, one account or job a line.
    pub fn save(&self) -> String {
        let mut text = String::new();
        // All of them, in order: what an account counts depends on which others there are.
        let at = self.used.at().map_or_else(|| NEVER.to_owned(), |at| at.to_string());
        for (account, name) in self.names.iter().enumerate() {
            text += &format!("used {} {at} {name}\n", self.used.ended(account));
        }
        for (id, job) in &self.running {
            text += &format!("job {id} {} {} {}\n", job.cores, job.start, self.names[job.account]);
        }
        text
    }

    /// Takes over the output of [`save`](Self::save), decayed by the settings of this instance from now on.
    pub fn restore(&mut self, text: &str) -> Result<(), Bad> {
        let (mut made, mut ended) = (self.clone(), Vec::new());
        for (line, n) in text.lines().zip(1..) {
            made.line(line, &mut ended)
                .ok_or_else(|| format!("line {n} is `{line}`, which is no usage and no job"))?;
        }
        made.used.restore(&ended, made.running.values().copied());
        *self = made;
        Ok(())
    }

    /// Reads a line; the usage of ended jobs is added to `ended`.
    fn line(&mut self, line: &str, ended: &mut Vec<(usize, f64, Option<f64>)>) -> Option<()> {
        let number = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let (kind, rest) = line.split_once(' ')?;
        match kind {
            "used" => {
                let mut parts = rest.splitn(3, ' ');
                let (used, at, name) = (number(parts.next()?)?, parts.next()?, parts.next()?);
                let at = if at == NEVER { None } else { Some(number(at)?) };
                ended.push((self.account(name), used, at));
            }
            "job" => {
                let mut parts = rest.splitn(4, ' ');
                let (id, cores) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let (start, name) = (number(parts.next()?)?, parts.next()?);
                let account = self.account(name);
                self.running.insert(id, Held { account, cores, start });
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_any_number_have_their_accounts() {
        let mut by_user = ByUser::default();
        let users = [0, 7, USERS_NEAR - 1, USERS_NEAR, u32::MAX];
        for (account, user) in users.into_iter().enumerate() {
            assert_eq!(by_user.get(user), None);
            by_user.insert(user, account);
        }
        assert_eq!(users.map(|user| by_user.get(user)), [0, 1, 2, 3, 4].map(Some));
        assert_eq!([1, 8, USERS_NEAR - 2, USERS_NEAR + 1].map(|user| by_user.get(user)), [None; 4]);
    }
}
