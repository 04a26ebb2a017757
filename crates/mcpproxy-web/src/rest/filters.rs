//! The filters that every endpoint with records has: the list, the export and the stream.

/// Lists the parameters of an endpoint with records: the filters, between its own parameters. A filter that is added here
/// works at every such endpoint, and [`QueryValues::filter`](super::parameters::QueryValues::filter) reads it.
macro_rules! with_filters {
    ([$($before:expr),*], [$($after:expr),*]) => {
        &[
            $($before,)*
            $crate::rest::parameters::INTENT_TYPE,
            $crate::rest::parameters::TYPE,
            $crate::rest::parameters::STATUS,
            $crate::rest::parameters::SERVER,
            $crate::rest::parameters::TOOL,
            $crate::rest::parameters::AGENT,
            $crate::rest::parameters::RISK,
            $crate::rest::parameters::SENSITIVITY,
            $crate::rest::parameters::CATEGORY,
            $crate::rest::parameters::DRY_RUN,
            $crate::rest::parameters::REPLAYED,
            $crate::rest::parameters::Q,
            $($after,)*
        ]
    };
}

pub(super) use with_filters;

#[cfg(test)]
mod tests {
    use mcpproxy_store::Filter;

    use crate::rest::endpoints;
    use crate::rest::parameters::{Parameter, QueryValues, ValueType};

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

    #[test]
    fn every_endpoint_with_records_has_every_filter() {
        for path in ["/api/v1/activity", "/api/v1/activity/export", "/api/v1/events"] {
            let endpoint = endpoints().find(|endpoint| endpoint.path == path).unwrap();
            for filter in FILTERS {
                assert!(endpoint.parameters.iter().any(|known| known.name == filter.name), "{path} {}", filter.name);
            }
        }
    }
}
