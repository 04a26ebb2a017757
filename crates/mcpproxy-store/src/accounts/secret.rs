//! Secrets: made of random bytes that are handed in, and kept as digests only.

use sha2::{Digest as _, Sha256};

use crate::{Store, StoreError};

impl Store {
    /// A secret that was made once, of the first `random` that anybody came with, and is the same for all gateways.
    pub async fn shared_secret(&self, name: &str, random: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.database().shared_secret(name, &random).await
    }
}

/// The prefix, and every byte as two digits.
pub(crate) fn secret(prefix: &str, random: [u8; 32]) -> String {
    let hex =
        random.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).filter_map(|digit| char::from_digit(digit.into(), 16));
    prefix.chars().chain(hex).collect()
}

pub(crate) fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_prefix_and_every_byte() {
        let mut random = [0; 32];
        random[0] = 0xab;
        random[31] = 0x07;
        assert_eq!(secret("mcp_", random), format!("mcp_ab{}07", "00".repeat(30)));
    }
}
