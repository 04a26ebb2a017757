//! Tests for contract files: tables of valid files and of mistakes with their messages.

mod bad;
mod bad_text;
mod bombs;
mod format;
mod good;
mod of_server;
mod random;
mod write;
