//! Answers that are kept for a while, so that any number of viewers costs an instance the same as one.
//!
//! A question is asked again after twenty times the time that its answer took, but after [`KEPT_MIN`] at the earliest and
//! [`KEPT_MAX`] at the latest. The scheduler bounds guests itself. A page that asks meanwhile gets the answer that is there; a page
//! that does not wait gets the last one. An instance that refuses to answer again so soon leaves the last answer standing.
//!
//! Must never know a page, or what an answer says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::source::{Refused, Source};

/// Shortest time between two equal questions.
pub const KEPT_MIN: Duration = Duration::from_secs(1);
/// Longest time between two equal questions of clients that wait for an answer.
pub const KEPT_MAX: Duration = Duration::from_secs(15);
/// Multiple of the time that an answer took, after which its question is asked again.
const SHARE: u32 = 20;
/// Longest time that an answer stands when further ones are refused.
const STANDS_MAX: Duration = Duration::from_secs(120);
/// Most different questions whose answers are kept.
const QUESTIONS_MAX: usize = 256;

/// Time since some moment; never goes back.
pub type Elapsed = Box<dyn Fn() -> Duration + Send + Sync>;

#[derive(Debug, Clone)]
struct Kept {
    answer: Result<Arc<Value>, Refused>,
    /// When it was last asked for.
    at: Duration,
    /// When the answer was given.
    given: Duration,
    /// How long that took.
    took: Duration,
}

/// One question. The page that holds its lock asks it; other pages wait for that answer.
#[derive(Debug, Default)]
struct Question {
    kept: tokio::sync::Mutex<Option<Kept>>,
    /// The last answer, and when it was given, also while another is asked for.
    last: Mutex<Option<(Arc<Value>, Duration)>>,
    /// When a client last asked.
    wanted: Mutex<Duration>,
}

/// The answers of a source, each kept for twenty times as long as it took, but at least [`KEPT_MIN`] and at most [`KEPT_MAX`]. Any
/// number of viewers costs the instance as much as one.
pub struct Answers {
    source: Box<dyn Source>,
    elapsed: Elapsed,
    questions: Mutex<BTreeMap<String, Arc<Question>>>,
    control: bool,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

fn no_control() -> Refused {
    let text = "nothing can be changed here".to_owned();
    Refused { errnum: fluxgate_wire::proto::errno::EPERM, text }
}

impl Answers {
    /// The answers of this source, kept by this clock. Nothing may be changed.
    pub fn new(source: impl Source, elapsed: Elapsed) -> Answers {
        Answers { source: Box::new(source), elapsed, questions: Mutex::default(), control: false }
    }

    /// The same answers; with `control`, [`change`](Self::change) and [`would`](Self::would) go to the source.
    pub fn with_control(self, control: bool) -> Answers {
        Answers { control, ..self }
    }

    /// True if something may be changed.
    pub fn control(&self) -> bool {
        self.control
    }

    /// The answer of `topic` to this payload: one that is kept, or a new one.
    ///
    /// # Errors
    /// The refusal of the source, if no earlier answer still stands.
    pub async fn get(&self, topic: &str, payload: Value) -> Result<Arc<Value>, Refused> {
        let question = self.question(format!("{topic} {payload}"));
        let mut kept = question.kept.lock().await;
        let now = (self.elapsed)();
        if let Some(kept) = kept.as_ref() {
            let stands = (kept.took * SHARE).clamp(KEPT_MIN, KEPT_MAX);
            if now.saturating_sub(kept.at) < stands {
                return kept.answer.clone();
            }
        }
        let answer = self.source.ask(topic, payload).await.map(Arc::new);
        let then = (self.elapsed)();
        let mut new = Kept { answer, at: then, given: then, took: then.saturating_sub(now) };
        if let (Err(refused), Some(old)) = (&new.answer, kept.take())
            && old.answer.is_ok()
            && !refused.is_gone()
            && then.saturating_sub(old.given) < STANDS_MAX
        {
            new = Kept { at: then, took: old.took.max(new.took), ..old };
        }
        let answer = new.answer.clone();
        let last = answer.as_ref().ok().map(|answer| (Arc::clone(answer), new.given));
        *question.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        *kept = Some(new);
        answer
    }

    /// As [`get`](Self::get), but gives the last answer where the next one takes longer than `wait`; a later question gets that one.
    ///
    /// # Errors
    /// The refusal; [`Refused::is_late`] where there is no answer yet.
    pub(crate) async fn get_within(
        self: &Arc<Self>,
        wait: Duration,
        topic: &'static str,
        payload: Value,
    ) -> Result<Arc<Value>, Refused> {
        let (answers, question) = (Arc::clone(self), self.question(format!("{topic} {payload}")));
        // A question goes on without the page that asked it. A page that waits for the question of another page starts no task.
        let is_asked = question.kept.try_lock().is_err();
        let asked = async {
            match is_asked {
                true => Some(self.get(topic, payload).await),
                false => tokio::spawn(async move { answers.get(topic, payload).await }).await.ok(),
            }
        };
        if let Ok(Some(answer)) = tokio::time::timeout(wait, asked).await {
            return answer;
        }
        let last = question.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stands = |given| (self.elapsed)().saturating_sub(given) < STANDS_MAX;
        last.filter(|(_, given)| stands(*given)).map(|(answer, _)| answer).ok_or_else(Refused::late)
    }

    /// Makes a change by `topic`. Every question is asked anew afterwards, also when the change was refused.
    ///
    /// # Errors
    /// The refusal of the source; EPERM without control.
    pub async fn change(&self, topic: &str, payload: Value) -> Result<Value, Refused> {
        if !self.control {
            return Err(no_control());
        }
        let answer = self.source.ask(topic, payload).await;
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clear();
        answer
    }

    /// The effect that a change would have, asked in a way that changes nothing; never kept.
    ///
    /// # Errors
    /// The refusal of the source; EPERM without control.
    pub async fn would(&self, topic: &str, payload: Value) -> Result<Value, Refused> {
        match self.control {
            true => self.source.ask(topic, payload).await,
            false => Err(no_control()),
        }
    }

    /// The question of this name; the question that was asked least recently gives way.
    fn question(&self, name: String) -> Arc<Question> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |question: &Question| *question.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if questions.len() >= QUESTIONS_MAX && !questions.contains_key(&name) {
            let oldest = questions.iter().min_by_key(|(_, question)| wanted(question));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                questions.remove(&oldest);
            }
        }
        let question = Arc::clone(questions.entry(name).or_default());
        *question.wanted.lock().unwrap_or_else(PoisonError::into_inner) = (self.elapsed)();
        question
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::*;
    use crate::source::Asking;

    /// Counts how often it is asked; refuses when told to.
    #[derive(Default)]
    struct Counting {
        asked: Arc<AtomicU64>,
        refuses: Arc<AtomicU64>,
    }

    impl Source for Counting {
        fn ask<'a>(&'a self, _: &'a str, _: Value) -> Asking<'a> {
            let n = self.asked.fetch_add(1, Ordering::SeqCst);
            let errnum = self.refuses.load(Ordering::SeqCst) as i32;
            Box::pin(async move {
                // Others get their turn while this one waits.
                tokio::task::yield_now().await;
                match errnum {
                    0 => Ok(json!(n)),
                    errnum => Err(Refused { errnum, text: "no".to_owned() }),
                }
            })
        }
    }

    type Numbers = (Answers, Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>);

    fn made() -> Numbers {
        let source = Counting::default();
        let (asked, refuses) = (Arc::clone(&source.asked), Arc::clone(&source.refuses));
        let millis = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&millis);
        let elapsed = Box::new(move || Duration::from_millis(clock.load(Ordering::SeqCst)));
        (Answers::new(source, elapsed), asked, refuses, millis)
    }

    fn run(what: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(what);
    }

    #[test]
    fn feat_65_fifty_viewers_cost_one_question_a_second() {
        run(async {
            let (answers, asked, _, millis) = made();
            let answers = Arc::new(answers);
            for second in 0..3 {
                millis.store(second * 1000, Ordering::SeqCst);
                let viewers: Vec<_> = (0..50)
                    .map(|_| {
                        let answers = Arc::clone(&answers);
                        async move { answers.get("order", json!({})).await.unwrap() }
                    })
                    .collect();
                let mut seen = tokio::task::JoinSet::new();
                viewers.into_iter().for_each(|viewer| drop(seen.spawn(viewer)));
                let seen = seen.join_all().await;
                assert!(seen.iter().all(|answer| **answer == json!(second)), "{seen:?}");
            }
            assert_eq!(asked.load(Ordering::SeqCst), 3);
        });
    }

    #[test]
    fn an_answer_stands_while_another_is_refused_but_not_when_nobody_is_there() {
        run(async {
            let (answers, _, refuses, millis) = made();
            assert_eq!(*answers.get("order", json!({})).await.unwrap(), json!(0));
            refuses.store(22, Ordering::SeqCst);
            for (at, stands) in [(1500, true), (60_000, true), (180_000, false)] {
                millis.store(at, Ordering::SeqCst);
                assert_eq!(answers.get("order", json!({})).await.is_ok(), stands, "{at} ms");
            }
            let gone = fluxgate_wire::proto::errno::ECANCELED as u64;
            refuses.store(0, Ordering::SeqCst);
            millis.store(190_000, Ordering::SeqCst);
            assert!(answers.get("order", json!({})).await.is_ok());
            refuses.store(gone, Ordering::SeqCst);
            millis.store(192_000, Ordering::SeqCst);
            assert!(answers.get("order", json!({})).await.unwrap_err().is_gone());
        });
    }

    #[test]
    fn the_number_of_kept_answers_is_bounded() {
        run(async {
            let (answers, asked, _, millis) = made();
            for n in 0..2 * QUESTIONS_MAX as u64 {
                millis.store(n, Ordering::SeqCst);
                answers.get("node", json!({ "node": n })).await.unwrap();
            }
            assert_eq!(answers.questions.lock().unwrap().len(), QUESTIONS_MAX);
            answers.get("node", json!({"node": 2 * QUESTIONS_MAX - 1})).await.unwrap();
            assert_eq!(asked.load(Ordering::SeqCst), 2 * QUESTIONS_MAX as u64);
        });
    }
}
