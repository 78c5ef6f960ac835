//! End-to-end suites that treat the binary and the public crates as a user does.
