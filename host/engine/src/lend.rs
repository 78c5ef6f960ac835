//! A value that can be lent by value for a time.
//!
//! A pass takes the core by value, because the store in which WebAssembly runs can keep no reference. Only this
//! module takes the core out and puts it back. Must never know the type of the value.

use std::ops::{Deref, DerefMut};

const LENT: &str = "nothing looks for the value while it is lent";

/// A value that can be lent; see the module.
#[derive(Debug)]
pub(crate) struct Lendable<T>(Option<Box<T>>);

impl<T> Lendable<T> {
    pub(crate) fn new(value: T) -> Self {
        Lendable(Some(Box::new(value)))
    }

    /// Lends the value to a function that returns it.
    pub(crate) fn lend<R>(&mut self, borrower: impl FnOnce(Box<T>) -> (Box<T>, R)) -> R {
        let (value, result) = borrower(self.0.take().expect(LENT));
        self.0 = Some(value);
        result
    }
}

impl<T> Deref for Lendable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect(LENT)
    }
}

impl<T> DerefMut for Lendable<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect(LENT)
    }
}
