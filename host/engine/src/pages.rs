//! A table of numbered places that is copied in no time: a copy shares its pages with the table, and a page is copied
//! when one of both changes it.
//!
//! A checkpoint of a million waiting jobs is such a copy, so it does not delay scheduling. It is written on another thread
//! while the scheduler changes the table.
//!
//! Must never know what is in the places.

use std::sync::Arc;

/// Places of a page. A page is small, so that a change after a copy costs little, and a copy has one counter for each page.
const PLACES: usize = 32;

type Page<T> = Arc<[Option<T>; PLACES]>;

/// Numbered places, each with a value or vacant; see the module.
///
/// ```
/// use fluxgate_engine::Pages;
/// let mut jobs = Pages::default();
/// jobs.put(0, "first");
/// let before = jobs.clone();
/// jobs.take(0);
/// assert_eq!((before.get(0), jobs.get(0)), (Some(&"first"), None));
/// ```
#[derive(Debug)]
pub struct Pages<T> {
    pages: Vec<Page<T>>,
    /// Number of places.
    len: u32,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages { pages: Vec::new(), len: 0 }
    }
}

impl<T> Clone for Pages<T> {
    fn clone(&self) -> Self {
        Pages { pages: self.pages.clone(), len: self.len }
    }
}

fn split(place: u32) -> (usize, usize) {
    (place as usize / PLACES, place as usize % PLACES)
}

impl<T: Clone> Pages<T> {
    /// Number of places, vacant ones included.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True without any place, vacant or not.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds vacant places up to this number of places; no effect if there are as many.
    pub fn grow(&mut self, len: u32) {
        self.len = self.len.max(len);
        while self.pages.len() * PLACES < self.len as usize {
            self.pages.push(Arc::new([const { None }; PLACES]));
        }
    }

    /// The value at a place; `None` if it is vacant or there is no such place.
    pub fn get(&self, place: u32) -> Option<&T> {
        let (page, at) = split(place);
        self.pages.get(page)?[at].as_ref()
    }

    /// The value at a place, to change it; `None` as for [`Pages::get`]. A page that a copy shares is copied first.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        let (page, at) = split(place);
        Arc::make_mut(self.pages.get_mut(page)?)[at].as_mut()
    }

    /// Puts a value at a place, which is added if it is missing. Returns the value before; `None` if the place was vacant.
    pub fn put(&mut self, place: u32, value: T) -> Option<T> {
        self.grow(place.saturating_add(1));
        let (page, at) = split(place);
        Arc::make_mut(self.pages.get_mut(page)?)[at].replace(value)
    }

    /// Vacates a place. Returns the value; `None` if the place was vacant, or there is none.
    pub fn take(&mut self, place: u32) -> Option<T> {
        let (page, at) = split(place);
        Arc::make_mut(self.pages.get_mut(page)?)[at].take()
    }

    /// The values with their places, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = (0..self.len).zip(self.pages.iter().flat_map(|page| page.iter()));
        places.filter_map(|(place, value)| Some((place, value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A table and its copies are plain lists that were copied.
        #[test]
        fn a_copy_stays_what_it_was(
            ops in prop::collection::vec((0u32..5, 0u32..200, any::<u8>()), 1..200),
        ) {
            let (mut table, mut model) = (Pages::default(), Vec::new());
            let mut copies = Vec::new();
            for (op, place, value) in ops {
                let at = place as usize;
                match op {
                    0 | 1 => {
                        model.resize(model.len().max(at + 1), None);
                        prop_assert_eq!(table.put(place, value), model[at].replace(value));
                    }
                    2 => prop_assert_eq!(table.take(place), model.get_mut(at).and_then(Option::take)),
                    3 => {
                        let (mine, theirs) = (table.get_mut(place), model.get_mut(at).and_then(Option::as_mut));
                        prop_assert_eq!(&mine, &theirs);
                        if let (Some(mine), Some(theirs)) = (mine, theirs) {
                            (*mine, *theirs) = (value, value);
                        }
                    }
                    _ => copies.push((table.clone(), model.clone())),
                }
            }
            copies.push((table, model));
            for (table, model) in copies {
                prop_assert_eq!(table.len() as usize, model.len());
                for (at, value) in model.iter().enumerate() {
                    prop_assert_eq!(table.get(at as u32), value.as_ref());
                }
                let listed: Vec<(u32, u8)> = table.iter().map(|(place, value)| (place, *value)).collect();
                let wanted = model.iter().enumerate().filter_map(|(at, value)| Some((at as u32, (*value)?)));
                prop_assert_eq!(listed, wanted.collect::<Vec<_>>());
            }
        }
    }
}
