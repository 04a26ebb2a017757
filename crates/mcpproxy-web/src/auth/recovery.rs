//! Recovery codes: ten codes, each of which replaces a lost second factor once.
//!
//! A code has 80 random bits, so its digest can be stored without a slow hash. Codes work only on the account page, to set
//! up another factor or to change the password. They never approve a call.

use mcpproxy_store::StoreError;
use sha2::{Digest as _, Sha256};

use super::identity::{AppState, SignedInUser};
use super::{random_bytes, records};

pub(crate) const CODES: u8 = 10;
/// Characters of a code, without separators.
const CHARS: usize = 16;
/// 32 characters, without those that look alike: `i`, `l`, `o` and `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Name of the secret that all gateways of a database share.
const SHARED: &str = "recovery codes";

impl AppState {
    /// Makes the recovery codes of a user who has just set up a factor. Returns none if the user has codes already, unless
    /// they are of the same factor: the form was sent twice.
    pub(crate) async fn recovery_codes_at_enrolment(
        &self,
        signed: &SignedInUser,
        seed: &[u8],
    ) -> Result<Vec<String>, StoreError> {
        let is_first = self.web.store.count_recovery_codes(signed.name()).await? == 0;
        if is_first || self.has_recovery_codes_of(signed, seed).await? {
            return self.make_recovery_codes(signed, seed).await;
        }
        Ok(Vec::new())
    }

    /// Returns true if the stored codes are those of this seed.
    async fn has_recovery_codes_of(&self, signed: &SignedInUser, seed: &[u8]) -> Result<bool, StoreError> {
        let codes = self.derive_recovery_codes(signed, seed).await?;
        let plain: Vec<String> = codes.iter().map(|code| plain(code)).collect();
        self.web.store.has_recovery_codes(signed.user(), &plain).await
    }

    /// Makes new recovery codes and stores their digests. All older ones stop working.
    ///
    /// The codes are derived from the session and from `seed`, the factor that they belong to. So a form that is sent twice
    /// makes the same codes, and those on the page are valid whichever answer the browser shows. Neither the database
    /// nor the cookie alone is enough to compute them.
    pub(crate) async fn make_recovery_codes(
        &self,
        signed: &SignedInUser,
        seed: &[u8],
    ) -> Result<Vec<String>, StoreError> {
        let codes = self.derive_recovery_codes(signed, seed).await?;
        let plain: Vec<String> = codes.iter().map(|code| plain(code)).collect();
        self.web.store.replace_recovery_codes(signed.user(), &plain).await?;
        records::write(self, records::done("recovery_codes_made", signed.name())).await;
        Ok(codes)
    }

    async fn derive_recovery_codes(&self, signed: &SignedInUser, seed: &[u8]) -> Result<Vec<String>, StoreError> {
        let Some(random) = random_bytes() else { return Ok(Vec::new()) };
        let shared = self.web.store.shared_secret(SHARED, random).await?;
        let code = |number: u8| {
            let digest = Sha256::new()
                .chain_update(shared)
                .chain_update(Sha256::digest(format!("recovery codes of {}", signed.secret)))
                .chain_update(Sha256::digest(seed))
                .chain_update([number])
                .finalize();
            written(&digest)
        };
        Ok((0..CODES).map(code).collect())
    }
}

/// Writes five bits per character, in groups of four.
fn written(bytes: &[u8]) -> String {
    let character = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).map_or('0', |c| char::from(*c));
    let characters: Vec<char> = bytes.iter().take(CHARS).map(character).collect();
    characters.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// Returns a typed code as it is stored: in lower case, without spaces and hyphens.
pub(crate) fn plain(typed: &str) -> String {
    let kept = typed.chars().filter(|c| !c.is_whitespace() && *c != '-');
    kept.take(4 * CHARS).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_easy_to_read_and_to_type() {
        assert_eq!(written(&[0, 1, 31, 32, 33, 10, 17, 255, 0, 0, 0, 0, 0, 0, 0, 0, 9]), "01z0-1ahz-0000-0000");
        assert_eq!(plain(" 01Z0 1ahz-0000-0000\n"), "01z01ahz00000000");
        assert_eq!(plain(&"a".repeat(1000)).len(), 64);
    }
}
