//! Policy easy.
