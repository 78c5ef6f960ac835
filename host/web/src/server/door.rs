//! Access of viewers: a key in an address, good for one use, is exchanged for a cookie (FEAT-67). A socket of the file system
//! needs neither: its mode says which users may connect. Behind a proxy, a header has the name that the proxy found out.
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

/// Longest name of a viewer that a proxy tells, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A secret of 244 random bits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Are they equal? Takes the same time wherever they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// A user with a cookie.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    cookie: String,
    /// The name that a proxy told.
    pub(crate) name: Option<String>,
    /// The token that forms of this viewer have to carry.
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
    /// Viewers come through a proxy that tells their names.
    proxied: bool,
}

/// The name of a viewer in the only header of its kind: printable characters without blanks at its ends.
pub(crate) fn name_in<'a>(mut headers: impl Iterator<Item = &'a [u8]>) -> Option<&'a str> {
    let (name, None) = (std::str::from_utf8(headers.next()?).ok()?, headers.next()) else { return None };
    let legal = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.trim() == name;
    (legal && !name.chars().any(char::is_control)).then_some(name)
}

impl Door {
    pub(crate) fn new(address: Option<SocketAddr>, proxied: bool) -> Door {
        let inside = Mutex::new(Inside { key: secret(), viewers: VecDeque::new() });
        let owner = Viewer { cookie: secret(), name: None, form: secret(), since: Duration::ZERO };
        Door { address, inside, owner, proxied }
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
        let viewer = Viewer { cookie: secret(), name: None, form: secret(), since: now };
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

    /// The viewer of this name, with forms that are good as long as a cookie.
    fn named(&self, name: &str, now: Duration) -> Viewer {
        let mut inside = self.inside();
        inside.viewers.retain(|viewer| now.saturating_sub(viewer.since) < VIEWER_MAX);
        if let Some(viewer) = inside.viewers.iter().find(|viewer| viewer.name.as_deref() == Some(name)) {
            return viewer.clone();
        }
        let viewer = Viewer { cookie: secret(), name: Some(name.to_owned()), form: secret(), since: now };
        if inside.viewers.len() >= VIEWERS_MAX {
            inside.viewers.pop_front();
        }
        inside.viewers.push_back(viewer.clone());
        viewer
    }

    /// The viewer of a request with this Cookie header, or with this name of a proxy.
    pub(crate) fn viewer(&self, cookies: Option<&str>, name: Option<&str>, now: Duration) -> Option<Viewer> {
        if self.proxied {
            return name.map(|name| self.named(name, now));
        }
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
    /// use a browser to read this one. Requests that another origin's page makes are refused too.
    pub(crate) fn is_meant(&self, host: Option<&str>, origin: Option<&str>) -> bool {
        if self.proxied {
            // The proxy knows its own names.
            let authority =
                |origin: &str| origin.split_once("://").map(|(_, authority)| authority.to_owned());
            return origin.is_none_or(|origin| host.is_some() && authority(origin).as_deref() == host);
        }
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
        let door = Door::new(Some("127.0.0.1:80".parse().unwrap()), false);
        let first = key(&door);
        assert!(door.enter("", at(0)).is_none() && door.enter(&first[1..], at(0)).is_none());
        let set = door.enter(&first, at(0)).unwrap();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        assert!(door.enter(&first, at(0)).is_none(), "a key is good for one use");
        let cookie = format!("other=1; {}", set.split(';').next().unwrap());
        assert!(door.viewer(Some(&cookie), None, at(60)).is_some());
        assert!(door.viewer(Some(&cookie[..cookie.len() - 1]), None, at(60)).is_none());
        assert!(door.viewer(None, None, at(60)).is_none());
        assert!(door.viewer(Some(&cookie), None, at(13 * 3600)).is_none());
        let second = key(&door);
        assert!(second != first && door.enter(&second, at(1)).is_some());
    }

    #[test]
    fn feat_67_the_oldest_viewer_leaves_when_there_are_too_many() {
        let door = Door::new(Some("127.0.0.1:80".parse().unwrap()), false);
        let set = door.enter(&key(&door), at(0)).unwrap();
        let cookie = set.split(';').next().unwrap();
        for _ in 1..VIEWERS_MAX {
            door.enter(&key(&door), at(1)).unwrap();
        }
        assert!(door.viewer(Some(cookie), None, at(2)).is_some());
        door.enter(&key(&door), at(1)).unwrap();
        assert!(door.viewer(Some(cookie), None, at(2)).is_none());
    }

    #[test]
    fn feat_67_names_of_other_hosts_and_other_origins_are_refused() {
        let door = Door::new(Some("127.0.0.1:8080".parse().unwrap()), false);
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
    #[test]
    fn feat_67_behind_a_proxy_a_header_has_the_name() {
        let door = Door::new(None, true);
        assert!(door.viewer(Some("fluxgate-0=x"), None, at(0)).is_none(), "without a name nobody comes in");
        let ada = door.viewer(None, Some("ada"), at(0)).unwrap();
        let bob = door.viewer(None, Some("bob"), at(0)).unwrap();
        assert!(
            ada.name.as_deref() == Some("ada") && !is_form_of(&bob, &ada.form),
            "forms are of one viewer"
        );
        assert!(is_form_of(&door.viewer(None, Some("ada"), at(60)).unwrap(), &ada.form));
        assert!(
            !is_form_of(&door.viewer(None, Some("ada"), at(13 * 3600)).unwrap(), &ada.form),
            "another day"
        );
        for _ in 0..2 * VIEWERS_MAX {
            door.viewer(None, Some(&secret()), at(1)).unwrap();
        }
        assert!(door.inside().viewers.len() <= VIEWERS_MAX);
        for (host, origin, meant) in [
            (Some("hpc.example"), Some("https://hpc.example"), true),
            (Some("hpc.example"), None, true),
            (Some("hpc.example"), Some("https://evil.example"), false),
            (None, Some("https://hpc.example"), false),
            (Some("hpc.example"), Some("null"), false),
        ] {
            assert_eq!(door.is_meant(host, origin), meant, "{host:?} {origin:?}");
        }
        let name = |headers: &[&'static str]| name_in(headers.iter().map(|it| it.as_bytes()));
        assert_eq!((name(&["ada"]), name(&["José P."])), (Some("ada"), Some("José P.")));
        let long: &'static str = "x".repeat(65).leak();
        for bad in [&[][..], &[""], &["ada", "bob"], &[" ada"], &["a\tb"], &[long]] {
            assert_eq!(name(bad), None, "{bad:?}");
        }
    }
}
