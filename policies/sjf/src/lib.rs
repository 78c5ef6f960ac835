//! Policy sjf.
