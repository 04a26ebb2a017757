//! The `tls` section: the certificate and key with which the gateway itself speaks HTTPS.

use std::net::SocketAddr;

use super::read::Reader;
use super::{Settings, keys};
use crate::file::Fields;

/// Two PEM files, as the operator wrote their paths. Relative paths start in the folder of the settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate, followed by those that lead to an authority.
    pub certificate: String,
    pub key: String,
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<TlsSettings> {
    let field = fields.find("tls")?;
    let fields = reader.fields(&field.node, &keys::TLS)?;
    // Read both keys even after a mistake, so that all mistakes are reported at once.
    let mut path = |key: &'static str| match fields.find(key) {
        Some(path) => reader.path(&path.node, key),
        None => reader.mistake(
            field.node.position,
            format!("`tls` needs `{key}`; write the path of a PEM file, such as \"{key}.pem\""),
        ),
    };
    let (certificate, key) = (path("certificate"), path("key"));
    Some(TlsSettings { certificate: certificate?, key: key? })
}

/// Refuses anonymous clients unless the listener is on loopback. On any other one, a port forwarding or a proxy on this
/// machine makes clients of the network look local.
pub fn check_anonymous(listen: SocketAddr, allow_anonymous_loopback: bool) -> Result<(), String> {
    if !allow_anonymous_loopback || listen.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "`allow_anonymous_loopback` needs a listener on loopback, not {listen}; listen on 127.0.0.1, or set it to false"
    ))
}

/// Reports settings that contradict `tls`.
pub(super) fn check(reader: &mut Reader<'_>, fields: &Fields<'_>, settings: &Settings) {
    if let Some(field) = fields.find("allow_anonymous_loopback")
        && let Err(message) = check_anonymous(settings.listen, settings.allow_anonymous_loopback)
        // That mistake is reported already.
        && !settings.tls_terminated_by_proxy
    {
        reader.report(field.position, message);
    }
    let Some(field) = fields.find("tls").filter(|_| settings.tls.is_some()) else { return };
    if settings.tls_terminated_by_proxy {
        let message = "`tls` and `tls_terminated_by_proxy` contradict each other: either the gateway terminates TLS, or a \
                       proxy does; remove one of them";
        reader.report(field.position, message);
    }
    if settings.approvals.public_url.as_ref().is_some_and(|url| url.starts_with("http://")) {
        let message = "with `tls`, the gateway does not answer `http://`; write `https://` in `approvals.public_url`";
        reader.report(field.position, message);
    }
}
