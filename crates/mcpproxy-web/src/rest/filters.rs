//! The filters of the endpoints with records.

pub(super) use crate::parameters::filters::with_filters;

#[cfg(test)]
mod tests {
    use super::with_filters;
    use crate::parameters::Parameter;
    use crate::rest::endpoints;

    const FILTERS: &[Parameter] = with_filters!([], []);

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
