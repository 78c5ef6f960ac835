//! The annotations (RFC 27) that the job manager has of a waiting job, as this engine sent them.
//!
//! Nearly every waiting job has annotations of its reason and its estimated start, and no others. They follow from both, so
//! their texts are not kept. Must never know why a job waits.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::reason::Reason;

const REASON: &str = "sched.reason_pending";
const FIELDS: &str = "sched.reason";
const SELECTION: &str = "sched.selection_type";
const ESTIMATE: &str = "sched.t_estimate";

/// The reason of a waiting job, and its estimated start.
pub(crate) type State = (Reason, Option<f64>);

/// The annotations of a job; see the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Annotations(Option<Box<Sent>>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Sent {
    state: Option<State>,
    /// The reason is told in its form for programs too, as [`crate::Config::annotate_reason`] says.
    fields: bool,
    /// Flattened annotations (`sched.NAME`, `user.NAME`) that do not follow from the state. Null stands for one that would
    /// follow and was removed.
    other: BTreeMap<String, Value>,
}

/// The keys of annotations that follow from a state; the last only where reasons are told for programs.
const FOLLOWING: [&str; 4] = [REASON, SELECTION, ESTIMATE, FIELDS];

/// The annotation of this key that follows from a state.
fn following((reason, estimate): &State, fields: bool, key: &str) -> Option<Value> {
    match key {
        REASON => Some(reason.to_string().into()),
        FIELDS => fields.then(|| reason.fields()),
        SELECTION => (*reason == Reason::Reserved && estimate.is_some()).then(|| "reserved".into()),
        ESTIMATE => estimate.map(Value::from),
        _ => None,
    }
}

impl Sent {
    fn following(&self, key: &str) -> Option<Value> {
        following(self.state.as_ref()?, self.fields, key)
    }

    fn get(&self, key: &str) -> Option<Value> {
        match self.other.get(key) {
            Some(value) => Some(value.clone()).filter(|value| !value.is_null()),
            None => self.following(key),
        }
    }

    /// True if there is an annotation of this key; its text is not made.
    fn has(&self, key: &str) -> bool {
        match self.other.get(key) {
            Some(value) => !value.is_null(),
            None => self.state.as_ref().is_some_and(|(reason, estimate)| match key {
                REASON => true,
                FIELDS => self.fields,
                SELECTION => *reason == Reason::Reserved && estimate.is_some(),
                ESTIMATE => estimate.is_some(),
                _ => false,
            }),
        }
    }

    /// The keys of all annotations.
    fn keys(&self) -> impl Iterator<Item = &str> {
        let following = FOLLOWING.into_iter().filter(|key| !self.other.contains_key(*key));
        self.other.keys().map(String::as_str).chain(following).filter(|key| self.has(key))
    }

    fn set(&mut self, key: &str, value: Option<Value>) {
        let following = self.following(key);
        if value == following {
            self.other.remove(key);
        } else {
            self.other.insert(key.to_owned(), value.unwrap_or_default());
        }
    }
}

impl Annotations {
    /// True if the job manager has an annotation of this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.as_ref().is_some_and(|sent| sent.has(key))
    }

    /// Number of annotations whose keys are not among these.
    pub(crate) fn beside(&self, keys: &BTreeMap<String, Value>) -> usize {
        self.0.iter().flat_map(|sent| sent.keys()).filter(|key| !keys.contains_key(*key)).count()
    }

    /// Sets an annotation, or removes it with null. True if that changes what the job manager has.
    pub(crate) fn merge(&mut self, key: &str, value: &Value) -> bool {
        let value = Some(value.clone()).filter(|value| !value.is_null());
        if self.0.as_ref().and_then(|sent| sent.get(key)) == value {
            return false;
        }
        self.0.get_or_insert_default().set(key, value);
        true
    }

    /// Sets the annotations that follow from a state, unless they were set for the same state before. Returns those that
    /// change, null for those that are removed. `fields`: reasons are told for programs too.
    pub(crate) fn set_state(&mut self, state: State, fields: bool) -> BTreeMap<String, Value> {
        let known = |sent: &Sent| sent.state.as_ref() == Some(&state) && sent.fields == fields;
        if self.0.as_deref().is_some_and(known) {
            return BTreeMap::new();
        }
        let sent = self.0.get_or_insert_default();
        let keys = &FOLLOWING[..if fields || sent.fields { 4 } else { 3 }];
        let before: Vec<Option<Value>> = keys.iter().map(|key| sent.get(key)).collect();
        keys.iter().for_each(|key| drop(sent.other.remove(*key)));
        (sent.state, sent.fields) = (Some(state), fields);
        let changes = keys.iter().zip(before).filter_map(|(key, before)| {
            let now = sent.following(key);
            (now != before).then(|| ((*key).to_owned(), now.unwrap_or_default()))
        });
        changes.collect()
    }

    /// Tells the reason for programs too from now on, or no more. Returns what changes, if a state was set.
    pub(crate) fn tell_fields(&mut self, fields: bool) -> BTreeMap<String, Value> {
        self.state().map(|state| self.set_state(state, fields)).unwrap_or_default()
    }

    /// All annotations, by key.
    pub(crate) fn all(&self) -> BTreeMap<String, Value> {
        let Some(sent) = &self.0 else { return BTreeMap::new() };
        sent.keys().filter_map(|key| Some((key.to_owned(), sent.get(key)?))).collect()
    }

    /// The state that was set last.
    pub(crate) fn state(&self) -> Option<State> {
        self.0.as_ref()?.state.clone()
    }

    /// From a state that was set, and all annotations.
    pub(crate) fn restored(state: Option<State>, fields: bool, all: &BTreeMap<String, Value>) -> Self {
        if state.is_none() && all.is_empty() {
            return Annotations(None);
        }
        let mut sent = Sent { state, fields, other: BTreeMap::new() };
        for key in all.keys().map(String::as_str).chain(FOLLOWING) {
            sent.set(key, all.get(key).cloned());
        }
        Annotations(Some(Box::new(sent)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 6] = [REASON, SELECTION, ESTIMATE, FIELDS, "sched.share", "user.note"];

    fn value(number: u8) -> Value {
        match number {
            0 => Value::Null,
            1 => "reserved".into(),
            2 => 5.0.into(),
            _ => Reason::Reserved.to_string().into(),
        }
    }

    /// The same with a plain map of all annotations.
    #[derive(Default)]
    struct Model {
        state: Option<State>,
        fields: bool,
        all: BTreeMap<String, Value>,
    }

    impl Model {
        fn merge(&mut self, key: &str, value: &Value) -> bool {
            match value {
                Value::Null => self.all.remove(key).is_some(),
                value if self.all.get(key) == Some(value) => false,
                value => {
                    self.all.insert(key.to_owned(), value.clone());
                    true
                }
            }
        }

        fn set_state(&mut self, state: State, fields: bool) -> BTreeMap<String, Value> {
            if (self.state.as_ref(), self.fields) == (Some(&state), fields) {
                return BTreeMap::new();
            }
            let keys =
                [REASON, SELECTION, ESTIMATE].into_iter().chain((fields || self.fields).then_some(FIELDS));
            let news = keys.map(|key| (key.to_owned(), following(&state, fields, key).unwrap_or_default()));
            let news: Vec<_> = news.collect();
            (self.state, self.fields) = (Some(state), fields);
            news.into_iter().filter(|(key, value)| self.merge(key, value)).collect()
        }
    }

    proptest! {
        #[test]
        fn annotations_are_a_plain_map(steps in prop::collection::vec((0u8..3, 0usize..6, 0u8..4, any::<bool>()), 0..40)) {
            let (mut annotations, mut model) = (Annotations::default(), Model::default());
            for (kind, key, number, fields) in steps {
                if kind > 0 {
                    let (key, value) = (KEYS[key], value(number));
                    prop_assert_eq!(annotations.merge(key, &value), model.merge(key, &value));
                } else {
                    let reason = if key > 2 { Reason::Reserved } else { Reason::Behind };
                    let state = (reason, (number > 1).then_some(f64::from(number) + 3.0));
                    prop_assert_eq!(annotations.set_state(state.clone(), fields), model.set_state(state, fields));
                }
                prop_assert_eq!(&annotations.all(), &model.all);
                prop_assert_eq!(annotations.state(), model.state.clone());
                KEYS.iter().for_each(|key| assert_eq!(annotations.has(key), model.all.contains_key(*key)));
                let some = BTreeMap::from([(REASON.to_owned(), Value::Null)]);
                let beside = model.all.keys().filter(|key| *key != REASON).count();
                prop_assert_eq!(annotations.beside(&some), beside);
                let again = Annotations::restored(annotations.state(), model.fields, &annotations.all());
                prop_assert_eq!(again.all(), annotations.all());
                annotations = again;
            }
        }
    }
}
