//! Accounts, their shares, and their usage.
//!
//! This module knows neither queues nor passes.

use std::collections::BTreeMap;

use fluxgate_guest::prelude::*;

use crate::decay::{Decay, Usage};

/// The account of a job, and its cores.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Charged {
    account: usize,
    cores: u32,
}

/// Accounts by name; a user in none of them has an account of its own, with the user's number as its name.
#[derive(Debug, Clone)]
pub struct Accounts {
    decay: Decay,
    names: Vec<String>,
    shares: Vec<f64>,
    used: Vec<Usage>,
    by_name: BTreeMap<String, usize>,
    /// Users that belong to a named account.
    members: BTreeMap<u32, usize>,
    /// Users of whom a job was seen.
    by_user: BTreeMap<u32, usize>,
    waiting: BTreeMap<JobId, Charged>,
    /// With the time of their allocation.
    running: BTreeMap<JobId, (Charged, f64)>,
}

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
    /// Decayed core-seconds by account, and of all.
    used: Vec<f64>,
    all_used: f64,
    shares: &'a [f64],
    all_shares: f64,
    damping: f64,
    /// Factors that were asked for; NaN for the others.
    known: Vec<f64>,
}

impl Factors<'_> {
    /// The factor of an account, by number: 2^(-(usage / shares) / damping), both as fractions of the total.
    pub fn of(&mut self, account: usize) -> f64 {
        if self.known[account].is_nan() {
            let (used, shares) = (self.used[account], self.shares[account]);
            self.known[account] = match shares > 0.0 {
                _ if self.all_used <= 0.0 => 1.0,
                true => {
                    crate::decay::exp2(-(used / self.all_used) / (shares / self.all_shares) / self.damping)
                }
                false => 0.0,
            };
        }
        self.known[account]
    }
}

impl Default for Accounts {
    fn default() -> Self {
        Accounts {
            decay: Decay { half_life: f64::INFINITY },
            names: Vec::new(),
            shares: Vec::new(),
            used: Vec::new(),
            by_name: BTreeMap::new(),
            members: BTreeMap::new(),
            by_user: BTreeMap::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }
}

impl Accounts {
    /// Reads `shares` (`NAME=SHARES`, of accounts or users) and `accounts` (`NAME=USER USER ...`).
    pub fn new(half_life: f64, shares: &str, accounts: &str) -> Result<Self, Bad> {
        let mut made = Accounts { decay: Decay { half_life }, ..Accounts::default() };
        for (name, text) in pairs("shares", shares)? {
            let value = number("shares", name, text)?;
            let account = made.account(name);
            made.shares[account] = value;
        }
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
        self.shares.push(1.0);
        self.used.push(Usage::default());
        self.by_name.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    fn of_user(&mut self, user: u32) -> usize {
        if let Some(account) = self.by_user.get(&user) {
            return *account;
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
        if let Some(job) = self.waiting.remove(&id) {
            self.running.insert(id, (job, at));
        }
    }

    /// A job left the queue without having started.
    pub fn leaves(&mut self, id: JobId) {
        self.waiting.remove(&id);
    }

    /// A job released its cores.
    pub fn ends(&mut self, id: JobId, at: f64) {
        let Some((job, start)) = self.running.remove(&id) else { return };
        let used = self.decay.later(self.used[job.account], at);
        // An end before the last one known is reported late; its usage is older by the difference.
        let late = self.decay.left(used.at - at);
        let more = f64::from(job.cores) * self.decay.held(at - start) * late;
        self.used[job.account] = Usage { ended: used.ended + more, at: used.at };
    }

    /// The fair-share factors of the accounts at this time.
    pub fn factors(&self, now: f64, damping: f64) -> Factors<'_> {
        let mut left: Vec<f64> = self.used.iter().map(|used| now - used.at).collect();
        self.decay.left_all(&mut left);
        let used = self.used.iter().zip(left).map(|(used, left)| used.after(now, left).ended);
        let mut used: Vec<f64> = used.collect();
        let mut left: Vec<f64> = self.running.values().map(|(_, start)| now - start).collect();
        self.decay.left_all(&mut left);
        for ((job, start), left) in self.running.values().zip(left) {
            used[job.account] += f64::from(job.cores) * self.decay.held_of(now - start, left);
        }
        let (all_used, all_shares) = (used.iter().sum(), self.shares.iter().sum());
        let known = vec![f64::NAN; used.len()];
        Factors { used, all_used, shares: &self.shares, all_shares, damping, known }
    }

    /// The number of the account of a user of whom a job was seen.
    pub fn of(&self, user: u32) -> Option<usize> {
        self.by_user.get(&user).copied()
    }

    /// The state as text, one account or job a line.
    pub fn save(&self) -> String {
        let mut text = String::new();
        // All of them, in order: what an account counts depends on which others there are.
        for (name, used) in self.names.iter().zip(&self.used) {
            text += &format!("used {} {} {name}\n", used.ended, used.at);
        }
        for (id, (job, start)) in &self.running {
            text += &format!("job {id} {} {start} {}\n", job.cores, self.names[job.account]);
        }
        text
    }

    /// Takes over the output of [`save`](Self::save), decayed by the settings of this instance from now on.
    pub fn restore(&mut self, text: &str) -> Result<(), Bad> {
        let mut made = self.clone();
        for (line, n) in text.lines().zip(1..) {
            made.line(line).ok_or_else(|| format!("line {n} is `{line}`, which is no usage and no job"))?;
        }
        *self = made;
        Ok(())
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let number = |text: &str| text.parse().ok().filter(|value: &f64| !value.is_nan() && *value >= 0.0);
        let (kind, rest) = line.split_once(' ')?;
        match kind {
            "used" => {
                let mut parts = rest.splitn(3, ' ');
                let (ended, at, name) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
                let account = self.account(name);
                self.used[account] = Usage { ended, at };
            }
            "job" => {
                let mut parts = rest.splitn(4, ' ');
                let (id, cores) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let (start, name) = (number(parts.next()?)?, parts.next()?);
                let account = self.account(name);
                self.running.insert(id, (Charged { account, cores }, start));
            }
            _ => return None,
        }
        Some(())
    }
}
