//! The operator's key.

use subtle::ConstantTimeEq as _;

/// The operator's key. It can be compared, not read back.
pub struct AdminKey(String);

impl AdminKey {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Takes the same time for every wrong key of the right length; the length is no secret.
    pub(crate) fn is(&self, candidate: &[u8]) -> bool {
        !self.0.is_empty() && self.0.as_bytes().ct_eq(candidate).into()
    }
}
