//! Who may come in: a key in an address, good for one use, is exchanged for a cookie (FEAT-67). A socket of the file system needs
//! neither: its mode says who may connect.
//!
//! Must never know what is shown.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

/// Most viewers with a cookie; the oldest has to leave.
const VIEWERS_MAX: usize = 64;
/// For how long a cookie is good.
const VIEWER_MAX: Duration = Duration::from_secs(43_200);

/// A secret of 244 random bits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Are they equal? Takes the same time wherever they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Somebody with a cookie.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    cookie: String,
    /// What forms of this viewer have to carry.
    pub(crate) form: String,
    since: Duration,
}

#[derive(Debug)]
struct Inside {
    key: String,
    viewers: VecDeque<Viewer>,
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Door {
    /// The address on which keys are asked for; nothing for a socket of the file system.
    address: Option<SocketAddr>,
    inside: Mutex<Inside>,
    /// The one viewer of a socket of the file system.
    owner: Viewer,
}

impl Door {
    pub(crate) fn new(address: Option<SocketAddr>) -> Door {
        let inside = Mutex::new(Inside { key: secret(), viewers: VecDeque::new() });
        let owner = Viewer { cookie: secret(), form: secret(), since: Duration::ZERO };
        Door { address, inside, owner }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address to open, with the key that is good now.
    pub(crate) fn invitation(&self) -> Option<String> {
        let address = self.address?;
        Some(format!("http://{address}/enter?key={}", self.inside().key))
    }

    /// The name of the cookie: servers on one host share their cookies, whatever their ports.
    fn cookie_name(&self) -> String {
        format!("fluxgate-{}", self.address.map_or(0, |address| address.port()))
    }

    /// Exchange a key for the value of a Set-Cookie header. The key is good no more.
    pub(crate) fn enter(&self, key: &str, now: Duration) -> Option<String> {
        let mut inside = self.inside();
        if self.address.is_none() || !same(&inside.key, key) {
            return None;
        }
        inside.key = secret();
        let viewer = Viewer { cookie: secret(), form: secret(), since: now };
        let cookie = format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}",
            self.cookie_name(),
            viewer.cookie,
            VIEWER_MAX.as_secs()
        );
        if inside.viewers.len() >= VIEWERS_MAX {
            inside.viewers.pop_front();
        }
        inside.viewers.push_back(viewer);
        Some(cookie)
    }

    /// The viewer of a request with this Cookie header.
    pub(crate) fn viewer(&self, cookies: Option<&str>, now: Duration) -> Option<Viewer> {
        if self.address.is_none() {
            return Some(self.owner.clone());
        }
        let name = self.cookie_name();
        let pairs = cookies?.split(';').filter_map(|pair| pair.trim().split_once('='));
        let value = pairs.into_iter().find(|(known, _)| *known == name)?.1;
        let mut inside = self.inside();
        inside.viewers.retain(|viewer| now.saturating_sub(viewer.since) < VIEWER_MAX);
        inside.viewers.iter().find(|viewer| same(&viewer.cookie, value)).cloned()
    }

    /// Is a request meant for this server? Names of other hosts that lead here are refused, so that no foreign page can
    /// use a browser to read this one; and requests that another origin's page makes.
    pub(crate) fn is_meant(&self, host: Option<&str>, origin: Option<&str>) -> bool {
        if self.address.is_none() {
            return true;
        }
        let Some(host) = host else { return false };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let here = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        here && origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
    }
}

/// Is this the form token of the viewer?
pub(crate) fn is_form_of(viewer: &Viewer, token: &str) -> bool {
    same(&viewer.form, token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn key(door: &Door) -> String {
        door.invitation().unwrap().split_once("key=").unwrap().1.to_owned()
    }

    #[test]
    fn feat_67_a_key_is_good_for_one_use_and_a_cookie_for_a_day_of_work() {
        let door = Door::new(Some("127.0.0.1:80".parse().unwrap()));
        let first = key(&door);
        assert!(door.enter("", at(0)).is_none() && door.enter(&first[1..], at(0)).is_none());
        let set = door.enter(&first, at(0)).unwrap();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        assert!(door.enter(&first, at(0)).is_none(), "a key is good for one use");
        let cookie = format!("other=1; {}", set.split(';').next().unwrap());
        assert!(door.viewer(Some(&cookie), at(60)).is_some());
        assert!(door.viewer(Some(&cookie[..cookie.len() - 1]), at(60)).is_none());
        assert!(door.viewer(None, at(60)).is_none());
        assert!(door.viewer(Some(&cookie), at(13 * 3600)).is_none());
        let second = key(&door);
        assert!(second != first && door.enter(&second, at(1)).is_some());
    }

    #[test]
    fn feat_67_the_oldest_viewer_leaves_when_there_are_too_many() {
        let door = Door::new(Some("127.0.0.1:80".parse().unwrap()));
        let set = door.enter(&key(&door), at(0)).unwrap();
        let cookie = set.split(';').next().unwrap();
        for _ in 1..VIEWERS_MAX {
            door.enter(&key(&door), at(1)).unwrap();
        }
        assert!(door.viewer(Some(cookie), at(2)).is_some());
        door.enter(&key(&door), at(1)).unwrap();
        assert!(door.viewer(Some(cookie), at(2)).is_none());
    }

    #[test]
    fn feat_67_names_of_other_hosts_and_other_origins_are_refused() {
        let door = Door::new(Some("127.0.0.1:8080".parse().unwrap()));
        for (host, origin, meant) in [
            (Some("127.0.0.1:8080"), None, true),
            (Some("localhost:9999"), Some("http://localhost:9999"), true),
            (Some("[::1]:8080"), None, true),
            (Some("evil.example:8080"), None, false),
            (Some("127.0.0.1.evil.example"), None, false),
            (Some("localhost:8080"), Some("http://evil.example"), false),
            (Some("localhost:8080"), Some("null"), false),
            (None, None, false),
        ] {
            assert_eq!(door.is_meant(host, origin), meant, "{host:?} {origin:?}");
        }
    }
}
