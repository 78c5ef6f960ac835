//! Changes of watched pages: a page is made again at most once a second, once for all its clients, and each client gets the
//! sections that differ from those it has.
//!
//! Must never know HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::answers::Answers;
use crate::page::Page;
use crate::words;

/// Time between two looks at a page.
const LOOK: Duration = Duration::from_secs(1);
/// Most pages that are watched at a time.
const BOARDS_MAX: usize = 64;

/// The hash of a text, in hexadecimal digits.
pub(crate) fn hash(text: &str) -> String {
    let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{fnv:016x}")
}

/// The sections of a page as they are now, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Look {
    as_of: String,
    sections: BTreeMap<&'static str, (String, String)>,
}

impl Look {
    /// Sections that differ from those with these hashes, which are brought up to date; `None` if no section does.
    pub(crate) fn news(&self, have: &mut BTreeMap<String, String>) -> Option<Value> {
        let mut changed = Map::new();
        for (id, (hash, body)) in &self.sections {
            if have.get(*id) != Some(hash) {
                have.insert((*id).to_owned(), hash.clone());
                changed.insert((*id).to_owned(), json!({"hash": hash, "html": body}));
            }
        }
        (!changed.is_empty()).then(|| json!({"asOf": self.as_of, "sections": changed}))
    }
}

/// All pages that are watched.
#[derive(Debug, Default)]
pub(crate) struct Boards {
    boards: Mutex<BTreeMap<String, Weak<watch::Sender<Look>>>>,
}

/// A client watches a page as long as this is there.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) looks: watch::Receiver<Look>,
}

impl Boards {
    /// Watch a page; `None` if too many others are watched. `clock` tells real time, seconds since the epoch.
    pub(crate) fn watch(&self, page: Page, answers: &Arc<Answers>, clock: fn() -> f64) -> Option<Watching> {
        let mut boards = self.boards.lock().unwrap_or_else(PoisonError::into_inner);
        boards.retain(|_, board| board.strong_count() > 0);
        let address = page.address();
        if let Some(board) = boards.get(&address).and_then(Weak::upgrade) {
            return Some(Watching { looks: board.subscribe() });
        }
        if boards.len() >= BOARDS_MAX {
            return None;
        }
        let (sender, looks) = watch::channel(Look::default());
        let sender = Arc::new(sender);
        boards.insert(address, Arc::downgrade(&sender));
        tokio::spawn(keep(sender, page, Arc::clone(answers), clock));
        Some(Watching { looks })
    }
}

/// Make the page again and again until no client watches it.
async fn keep(sender: Arc<watch::Sender<Look>>, page: Page, answers: Arc<Answers>, clock: fn() -> f64) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = sender.closed() => return,
        }
        let known = page.gather(&answers, clock()).await;
        let shown = page.show(&known);
        let sections = shown.sections.into_iter().map(|section| {
            let body = section.body.into_string();
            (section.id, (hash(&body), body))
        });
        let look = Look { as_of: words::date_time(known.now()), sections: sections.collect() };
        sender.send_if_modified(|last| {
            let differs = last.sections != look.sections;
            *last = look;
            differs
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_65_only_what_changed_is_sent() {
        let look = |a: &str, b: &str, as_of: &str| Look {
            as_of: as_of.to_owned(),
            sections: [("a", (hash(a), a.to_owned())), ("b", (hash(b), b.to_owned()))].into(),
        };
        let mut have = BTreeMap::from([("a".to_owned(), hash("1")), ("b".to_owned(), "old".to_owned())]);
        let news = look("1", "2", "t").news(&mut have).unwrap();
        assert_eq!(news["sections"].as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!((&news["sections"]["b"]["html"], &news["asOf"]), (&json!("2"), &json!("t")));
        assert_eq!(look("1", "2", "later").news(&mut have), None);
    }
}
