//! Access to the database: connections, statements, rows and the schema. The SQL of each table is next to its types.

pub(crate) mod bulk;
pub(crate) mod columns;
mod database;
pub(crate) mod driver;
mod integrity;
mod migrate;
pub(crate) mod open_files;
pub(crate) mod session;
mod size;
pub(crate) mod tables;
pub(crate) mod whole;

pub use size::DatabaseSize;

pub(crate) use database::{Bounds, Database, POSTGRES_TIMEOUT, connect, postgres_options};
pub(crate) use driver::{Connection, Dialect, Row, Statement, Value};
