//! The directory of users and groups of this machine, as the C library finds them in files and in services such as LDAP.
//!
//! Must never know the caller.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use nix::unistd::{Group, User};

/// The users that a group of this name lists. A user with this primary group counts only if the group lists the user.
pub(crate) fn members(group: &str) -> Result<BTreeSet<u32>> {
    let found = Group::from_name(group).context("the directory of groups")?;
    let found = found.ok_or_else(|| anyhow!("there is no such group"))?;
    let mut users = BTreeSet::new();
    for name in &found.mem {
        // A name without a user: the user has left.
        if let Some(user) = User::from_name(name).context("the directory of users")? {
            users.insert(user.uid.as_raw());
        }
    }
    Ok(users)
}

/// The user of this name, if the directory has one.
pub(crate) fn user(name: &str) -> Option<u32> {
    Some(User::from_name(name).ok()??.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_13_users_of_groups_of_this_machine() {
        let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
        // The first groups of the file that list a user of this machine.
        let known = groups.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, _, list] = fields[..] else { return None };
            let first = list.split(',').find_map(|user| User::from_name(user).ok().flatten())?;
            Some((name.to_owned(), first.uid.as_raw()))
        });
        for (group, uid) in known.take(3) {
            assert!(members(&group).unwrap().contains(&uid), "{group}");
        }
        let unknown = members("no-such-group-here").unwrap_err().to_string();
        assert_eq!(unknown, "there is no such group");
        assert!(members("nul\0inside").is_err());
    }
}
