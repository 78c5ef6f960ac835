//! Policy broken.
