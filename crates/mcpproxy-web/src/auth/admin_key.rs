//! The admin key, with which the operator's commands use the REST interface.

use subtle::ConstantTimeEq as _;

/// The admin key. It can be compared, but not read.
pub struct AdminKey(String);

impl AdminKey {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Compares in constant time. The length is not secret.
    pub(crate) fn is(&self, candidate: &[u8]) -> bool {
        !self.0.is_empty() && self.0.as_bytes().ct_eq(candidate).into()
    }
}
