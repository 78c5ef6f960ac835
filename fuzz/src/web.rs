//! Pages of the dashboard, from any address and any answers.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fluxgate_web::{Answers, Recorded, render};
use serde_json::Value;

/// The first line is an address, the rest answers by topic as JSON: a page is made whatever they say, and nothing of them becomes
/// markup.
pub(crate) fn page(bytes: &[u8]) {
    super::text(bytes, |text| {
        let (address, answers) = text.split_once('\n').unwrap_or((text, ""));
        let answers: BTreeMap<String, Value> = serde_json::from_str(answers).unwrap_or_default();
        let answers = Arc::new(Answers::new(Recorded(answers), Box::new(|| Duration::ZERO)));
        let mut page = pin!(render(&answers, address, 1.7e9));
        // Answers that were written down are there at once.
        let Poll::Ready(page) = page.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("an answer is waited for");
        };
        let Some(page) = page else { return };
        assert_eq!(page.matches("<script").count(), 1, "{address}");
        assert!(page.ends_with("</html>"), "{address}");
    });
}
