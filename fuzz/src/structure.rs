//! Structure out of bytes: numbers, choices, words and values of JSON. Bytes that are used up read as zeros, so that every input
//! has a meaning. Must never know what the structure is for.

use serde_json::Value;

/// Most entries of an array or an object.
const ENTRIES_MAX: u32 = 5;
/// Deepest nesting of a value.
const DEPTH_MAX: u32 = 4;

/// The rest of an input.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `bound`, which is at least 1 and at most 256.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        u32::from(self.byte()) % bound
    }

    pub(crate) fn one_of<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.byte() as usize % values.len()]
    }

    /// A number: a small one, or one at some bound.
    pub(crate) fn number(&mut self) -> Value {
        const EDGES: [i64; 8] = [-1, i64::MIN, i64::MAX, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, 1_000_000];
        match self.byte() {
            small @ 0..=199 => small.into(),
            edge @ 200..=219 => EDGES[edge as usize % EDGES.len()].into(),
            large @ 220..=229 => (u64::MAX - u64::from(large)).into(),
            part => (f64::from(part) / 7.0 * [1.0, -1.0, 1e9, 1e300][self.below(4) as usize]).into(),
        }
    }

    /// A value whose strings and keys are some of these words, or short texts of any characters.
    pub(crate) fn value(&mut self, words: &[&str]) -> Value {
        self.nested(words, 0)
    }

    fn word(&mut self, words: &[&str]) -> String {
        match self.byte() {
            0..=230 => (*self.one_of(words)).to_owned(),
            _ => {
                let length = self.below(12);
                let bytes: Vec<u8> = (0..length).map(|_| self.byte()).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        }
    }

    fn nested(&mut self, words: &[&str], depth: u32) -> Value {
        let kinds = if depth < DEPTH_MAX { 8 } else { 6 };
        match self.below(kinds) {
            0 => Value::Null,
            1 => (self.byte() & 1 == 1).into(),
            2 | 3 => self.number(),
            4 | 5 => self.word(words).into(),
            6 => {
                let count = self.below(ENTRIES_MAX);
                (0..count).map(|_| self.nested(words, depth + 1)).collect()
            }
            _ => self.object(words, depth),
        }
    }

    fn object(&mut self, words: &[&str], depth: u32) -> Value {
        let count = self.below(ENTRIES_MAX);
        let entries = (0..count).map(|_| (self.word(words), self.nested(words, depth + 1)));
        Value::Object(entries.collect())
    }

    /// A value with one of its parts exchanged for another.
    pub(crate) fn bent(&mut self, mut value: Value, words: &[&str]) -> Value {
        self.bend(&mut value, words, 0);
        value
    }

    fn bend(&mut self, at: &mut Value, words: &[&str], depth: u32) {
        let deeper = depth < DEPTH_MAX && self.below(4) != 0;
        let choice = self.byte() as usize;
        match at {
            Value::Object(fields) if deeper && !fields.is_empty() => {
                let place = choice % fields.len();
                if let Some(part) = fields.values_mut().nth(place) {
                    self.bend(part, words, depth + 1);
                }
            }
            Value::Array(entries) if deeper && !entries.is_empty() => {
                let place = choice % entries.len();
                self.bend(&mut entries[place], words, depth + 1);
            }
            _ => *at = self.value(words),
        }
    }
}
