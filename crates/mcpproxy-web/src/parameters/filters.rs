//! The filters that everything with records has: the list, the export and the stream of REST, and the page.

/// Lists the parameters of an endpoint or page with records: the filters, between its own parameters. A filter that is
/// added here works at every such place, and [`QueryValues::filter`](super::QueryValues::filter) reads it.
macro_rules! with_filters {
    ([$($before:expr),*], [$($after:expr),*]) => {
        &[
            $($before,)*
            $crate::parameters::INTENT_TYPE,
            $crate::parameters::TYPE,
            $crate::parameters::STATUS,
            $crate::parameters::SERVER,
            $crate::parameters::TOOL,
            $crate::parameters::AGENT,
            $crate::parameters::RISK,
            $crate::parameters::SENSITIVITY,
            $crate::parameters::CATEGORY,
            $crate::parameters::CODE,
            $crate::parameters::DRY_RUN,
            $crate::parameters::REPLAYED,
            $crate::parameters::Q,
            $($after,)*
        ]
    };
}

pub(crate) use with_filters;

#[cfg(test)]
mod tests {
    use mcpproxy_store::Filter;

    use crate::parameters::{Parameter, QueryValues, ValueType};

    const FILTERS: &[Parameter] = with_filters!([], []);

    /// A filter that is accepted and then ignored would show all records as if they matched.
    #[test]
    fn every_filter_filters() {
        for filter in FILTERS {
            let value = match filter.value {
                ValueType::Choice(choices) => choices()[0],
                ValueType::Switch => "true",
                _ => "x",
            };
            let query = QueryValues::read(&format!("{}={value}", filter.name), FILTERS, 0).unwrap();
            assert_ne!(query.filter().unwrap(), Filter::default(), "{}", filter.name);
        }
    }
}
