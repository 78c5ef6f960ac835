//! Pages made from answers that were written down.

mod made;
mod pages;
mod past;
mod terminal;
