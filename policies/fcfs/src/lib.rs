//! Policy fcfs.
