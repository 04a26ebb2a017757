//! Passkeys (WebAuthn): challenges for browsers, and verification of their answers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use webauthn_rs::prelude::{
    Passkey, PasskeyAuthentication, PasskeyRegistration, PublicKeyCredential, RegisterPublicKeyCredential, Url, Uuid,
    Webauthn, WebauthnBuilder, WebauthnError,
};

/// Passkeys are bound to a host name, so they do not work at an IP address.
pub(crate) struct Passkeys {
    webauthn: Webauthn,
}

/// The challenge for the browser, and the state to verify its answer.
pub(crate) struct Challenge {
    pub(crate) for_browser: String,
    pub(crate) state: String,
}

/// A passkey as stored.
#[derive(Debug)]
pub(crate) struct StoredPasskey {
    pub(crate) id: String,
    pub(crate) data: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PasskeyError {
    #[error("the stored passkey cannot be read")]
    Stored(#[source] serde_json::Error),
    #[error("the browser's answer is invalid")]
    Answer(#[source] serde_json::Error),
    #[error("the passkey was not accepted")]
    Refused(#[from] WebauthnError),
    #[error("no passkey of this user answered")]
    Unknown,
}

impl Passkeys {
    /// Creates passkeys for pages at this address. Returns `None` for an IP address.
    pub(crate) fn at(base_url: &str) -> Option<Self> {
        let origin = Url::parse(base_url).ok()?;
        let host = origin.domain()?.to_owned();
        let webauthn = WebauthnBuilder::new(&host, &origin).ok()?.rp_name("mcpproxy").build().ok()?;
        Some(Self { webauthn })
    }

    /// Starts the registration of a passkey. The device verifies the user.
    pub(crate) fn begin_new(&self, name: &str, kept: &[String]) -> Result<Challenge, PasskeyError> {
        let known = read(kept)?.iter().map(|passkey| passkey.cred_id().clone()).collect();
        let (asked, state) = self.webauthn.start_passkey_registration(user_id(name), name, name, Some(known))?;
        challenge(&asked, &state)
    }

    pub(crate) fn finish_new(&self, answer: &str, state: &str) -> Result<StoredPasskey, PasskeyError> {
        let answer: RegisterPublicKeyCredential = serde_json::from_str(answer).map_err(PasskeyError::Answer)?;
        let state: PasskeyRegistration = serde_json::from_str(state).map_err(PasskeyError::Stored)?;
        keep(&self.webauthn.finish_passkey_registration(&answer, &state)?)
    }

    /// Starts a confirmation with one of these passkeys. The device verifies the user.
    pub(crate) fn begin(&self, kept: &[String]) -> Result<Challenge, PasskeyError> {
        if kept.is_empty() {
            return Err(PasskeyError::Unknown);
        }
        let (asked, state) = self.webauthn.start_passkey_authentication(&read(kept)?)?;
        challenge(&asked, &state)
    }

    /// Verifies the browser's answer. Returns the passkey with its new counter, to be stored.
    pub(crate) fn finish(&self, answer: &str, state: &str, kept: &[String]) -> Result<StoredPasskey, PasskeyError> {
        let answer: PublicKeyCredential = serde_json::from_str(answer).map_err(PasskeyError::Answer)?;
        let state: PasskeyAuthentication = serde_json::from_str(state).map_err(PasskeyError::Stored)?;
        let done = self.webauthn.finish_passkey_authentication(&answer, &state)?;
        if !done.user_verified() {
            return Err(PasskeyError::Unknown);
        }
        let mut passkeys = read(kept)?;
        let answered = passkeys.iter_mut().find(|passkey| passkey.cred_id() == done.cred_id());
        let answered = answered.ok_or(PasskeyError::Unknown)?;
        answered.update_credential(&done);
        keep(answered)
    }
}

fn challenge(asked: &impl serde::Serialize, state: &impl serde::Serialize) -> Result<Challenge, PasskeyError> {
    let for_browser = serde_json::to_string(asked).map_err(PasskeyError::Stored)?;
    Ok(Challenge { for_browser, state: serde_json::to_string(state).map_err(PasskeyError::Stored)? })
}

fn read(kept: &[String]) -> Result<Vec<Passkey>, PasskeyError> {
    kept.iter().map(|data| serde_json::from_str(data).map_err(PasskeyError::Stored)).collect()
}

fn keep(passkey: &Passkey) -> Result<StoredPasskey, PasskeyError> {
    let data = serde_json::to_string(passkey).map_err(PasskeyError::Stored)?;
    Ok(StoredPasskey { id: URL_SAFE_NO_PAD.encode(passkey.cred_id().as_slice()), data })
}

/// Derives a stable id from a name, so that a device replaces a passkey instead of adding another one.
fn user_id(name: &str) -> Uuid {
    let digest = Sha256::digest(format!("mcpproxy user {name}"));
    let mut id = [0; 16];
    id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    Uuid::from_bytes(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passkeys_need_a_host_with_a_name() {
        for (url, is_possible) in [
            ("http://localhost:8080", true),
            ("https://gate.example", true),
            ("https://gate.example:8443", true),
            ("http://127.0.0.1:8080", false),
            ("http://[::1]:8080", false),
            ("nonsense", false),
        ] {
            assert_eq!(Passkeys::at(url).is_some(), is_possible, "{url}");
        }
    }

    #[test]
    fn a_new_passkey_is_asked_for_with_verification() {
        let passkeys = Passkeys::at("http://localhost:8080").unwrap();
        let challenge = passkeys.begin_new("anna", &[]).unwrap();
        let asked: serde_json::Value = serde_json::from_str(&challenge.for_browser).unwrap();
        let at = |pointer: &str| asked.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(at("/publicKey/rp/id"), "localhost");
        assert_eq!(at("/publicKey/user/name"), "anna");
        assert_eq!(at("/publicKey/authenticatorSelection/userVerification"), "required");
        assert!(at("/publicKey/challenge").as_str().is_some_and(|text| text.len() >= 32));
        // The state survives the store.
        serde_json::from_str::<PasskeyRegistration>(&challenge.state).unwrap();
        let again = passkeys.begin_new("anna", &[]).unwrap();
        assert_ne!(challenge.for_browser, again.for_browser);
    }

    #[test]
    fn nonsense_is_refused() {
        let passkeys = Passkeys::at("http://localhost:8080").unwrap();
        let state = passkeys.begin_new("anna", &[]).unwrap().state;
        assert!(matches!(passkeys.finish_new("{}", &state), Err(PasskeyError::Answer(_))));
        assert!(matches!(passkeys.finish("{}", &state, &[]), Err(PasskeyError::Answer(_))));
        assert!(matches!(passkeys.begin(&["{}".to_owned()]), Err(PasskeyError::Stored(_))));
        assert!(passkeys.begin(&[]).is_err(), "without a passkey there is nothing to ask for");
    }
}
