//! Filters for templates. A module that derives a template imports this one, so that the template finds them.

#![expect(unreachable_pub, reason = "the macro writes methods that are `pub`")]

use askama::{Result, Values};

use crate::visible::{Breakable, Visible};

/// Lets a browser break a long name between its words, and not inside one: `{{ tool|name }}`.
#[askama::filter_fn]
pub(crate) fn name<T: Breakable>(name: T, _: &dyn Values) -> Result<Visible> {
    Ok(name.breakable())
}
