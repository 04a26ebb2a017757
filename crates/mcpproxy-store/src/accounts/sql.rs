//! The SQL of accounts.

mod sessions;
mod tokens;
mod users;
