//! The groups of users that reservations name: looked up beside the scheduler when one is named, and every ten minutes.
//!
//! The engine and the KVS have the users that were found. A group that cannot be looked up keeps the users that were known, and is
//! told once. Must never know how a group is looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::{Event, MEMBERS_MAX, Members, Window};
use fluxgate_wire::session::ControlRequest;

use super::Service;
use super::control::Answer;
use crate::host::Host;

/// Real time from one look-up of all groups to the next.
const EVERY: Duration = Duration::from_secs(600);
/// Longest name of a group, in bytes.
const GROUP_BYTES_MAX: usize = 256;
/// Most requests whose groups are being looked up.
const ASKING_MAX: usize = 64;

/// The users of groups, or why they are not known.
type Found = BTreeMap<String, Result<BTreeSet<u32>, String>>;
/// The users of groups.
pub(super) type GroupUsers = BTreeMap<String, BTreeSet<u32>>;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The groups of reservations that are not over, as of this version of the reservations.
    names: BTreeSet<String>,
    version: Option<u64>,
    /// When all groups were looked up, in real time.
    looked: Option<Duration>,
    under_way: bool,
    /// Requests whose groups are being looked up.
    asking: usize,
    /// The groups that could not be looked up the last time.
    failed: BTreeSet<String>,
}

impl Groups {
    /// When all groups are to be looked up again.
    pub(super) fn due(&self) -> Option<Duration> {
        let named = !self.names.is_empty() && !self.under_way;
        named.then(|| self.looked.map_or(Duration::ZERO, |looked| looked + EVERY))
    }
}

fn look_up(host: &dyn Host, names: BTreeSet<String>) -> Found {
    let one = |name: String| {
        let users = host.group_members(&name).map_err(|error| format!("{error:#}")).and_then(|users| {
            let few = users.len() <= MEMBERS_MAX;
            few.then_some(users).ok_or_else(|| format!("it has more than {MEMBERS_MAX} users"))
        });
        (name, users)
    };
    names.into_iter().map(one).collect()
}

impl Service {
    /// Goes on with a request when the users of all its groups are known; if a look-up fails, the request is refused.
    pub(super) fn with_groups(
        &mut self,
        request: &ControlRequest,
        names: BTreeSet<String>,
        then: impl FnOnce(&mut Service, &ControlRequest, GroupUsers) -> Result<Answer> + Send + 'static,
    ) -> Result<Answer> {
        if names.is_empty() {
            return then(self, request, GroupUsers::new());
        }
        if names.len() > MEMBERS_MAX || names.iter().any(|name| name.len() > GROUP_BYTES_MAX) {
            bail!("groups: {MEMBERS_MAX} names of {GROUP_BYTES_MAX} bytes are accepted at most");
        }
        if self.groups.asking >= ASKING_MAX {
            bail!("the groups of {ASKING_MAX} requests are being looked up; ask again");
        }
        self.groups.asking += 1;
        let request = request.clone();
        let found = move |host: &dyn Host| look_up(host, names);
        self.start_work("groups", found, move |service, found| {
            service.groups.asking -= 1;
            service.groups.looked.get_or_insert(service.host.elapsed());
            let known: Result<GroupUsers> = found
                .into_iter()
                .map(|(name, users)| {
                    let users = users.map_err(|why| anyhow!("{why}"));
                    Ok((name.clone(), users.with_context(|| format!("group {name}"))?))
                })
                .collect();
            let answer = known.and_then(|known| then(service, &request, known));
            service.answer_control(&request, answer);
        });
        Ok(Answer::Later)
    }

    /// All groups are looked up if it is time.
    pub(super) fn refresh_groups(&mut self) {
        let Some(engine) = &self.engine else { return };
        let version = engine.windows_version();
        if self.groups.version != Some(version) {
            self.groups.version = Some(version);
            let live = engine.windows().filter(|window| !window.occurrences.is_empty());
            self.groups.names = live.flat_map(|window| window.members.groups.keys().cloned()).collect();
        }
        let elapsed = self.host.elapsed();
        if self.groups.due().is_none_or(|due| due > elapsed) {
            return;
        }
        self.groups.under_way = true;
        self.groups.looked = Some(elapsed);
        let names = self.groups.names.clone();
        self.start_work("groups", move |host| look_up(host, names), Service::groups_found);
    }

    fn groups_found(&mut self, found: Found) {
        self.groups.under_way = false;
        let mut failed = BTreeSet::new();
        let mut known = GroupUsers::new();
        for (name, users) in found {
            match users {
                Ok(users) => {
                    if self.groups.failed.contains(&name) {
                        fluxgate_log::log!(GroupKnown, "group {name} can be looked up again");
                    }
                    known.insert(name, users);
                }
                Err(why) => {
                    if !self.groups.failed.contains(&name) {
                        fluxgate_log::log!(
                            GroupUnknown,
                            "group {name}: {why}; its users in reservations are those that were known"
                        );
                    }
                    failed.insert(name);
                }
            }
        }
        self.groups.failed = failed;
        let Some(engine) = &self.engine else { return };
        let changed: Vec<Window> = engine.windows().filter_map(|window| renewed(window, &known)).collect();
        for window in changed {
            if too_many(&window.members) {
                fluxgate_log::log!(
                    GroupsTooLarge,
                    "reservation {}: its groups have more than {MEMBERS_MAX} users together; those that were known stay",
                    window.name
                );
                continue;
            }
            fluxgate_log::log!(
                GroupsChanged,
                "reservation {}: the users of its groups have changed",
                window.name
            );
            self.step(Event::PutWindow(Box::new(window)));
        }
    }
}

/// The window with the users that its groups have now, if that changes it.
fn renewed(window: &Window, known: &GroupUsers) -> Option<Window> {
    let changes = |(name, users): (&String, &BTreeSet<u32>)| known.get(name).is_some_and(|now| now != users);
    if window.occurrences.is_empty() || !window.members.groups.iter().any(changes) {
        return None;
    }
    let mut window = window.clone();
    for (name, users) in &mut window.members.groups {
        if let Some(now) = known.get(name) {
            users.clone_from(now);
        }
    }
    Some(window)
}

fn too_many(members: &Members) -> bool {
    members.groups.values().flatten().collect::<BTreeSet<_>>().len() > MEMBERS_MAX
}
