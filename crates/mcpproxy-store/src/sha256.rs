//! SHA-256 of records and payloads.
//!
//! Every byte of a payload is hashed, so on a long call this is most of the work of the log. The assembly of `aws-lc`
//! takes half the time of the `sha2` crate on a processor without SHA instructions. `sha2` stays for short secrets.

use aws_lc_rs::digest::{self, Context, SHA256};

/// Hashes some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    array(&digest::digest(&SHA256, bytes))
}

/// Hashes a beginning alone and then the whole, and reads each byte once. Returns the two digests in this order.
pub(crate) fn sha256_both(beginning: &[u8], rest: &[u8]) -> ([u8; 32], [u8; 32]) {
    let mut context = Context::new(&SHA256);
    context.update(beginning);
    let first = context.clone().finish();
    context.update(rest);
    (array(&first), array(&context.finish()))
}

fn array(digest: &digest::Digest) -> [u8; 32] {
    // A SHA-256 digest always has 32 bytes.
    digest.as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// Returns bytes that repeat after no power of two.
    fn bytes(count: usize) -> Vec<u8> {
        (0..=250u8).cycle().take(count).collect()
    }

    #[test]
    fn both_libraries_agree() {
        for count in [0, 1, 55, 56, 63, 64, 65, 1000, 70_000] {
            let bytes = bytes(count);
            let expected: [u8; 32] = Sha256::digest(&bytes).into();
            assert_eq!(sha256(&bytes), expected, "{count} bytes");
            for at in [0, 1, 63, 64, count / 2, count] {
                let (beginning, rest) = bytes.split_at(at.min(count));
                let first: [u8; 32] = Sha256::digest(beginning).into();
                assert_eq!(sha256_both(beginning, rest), (first, expected), "{count} bytes, cut at {at}");
            }
        }
    }
}
