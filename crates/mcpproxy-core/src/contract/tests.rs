//! Contract files as tables: what they may say, and what is said about what they may not.

mod bad;
mod bad_text;
mod bombs;
mod format;
mod good;
mod of_server;
mod random;
mod write;
