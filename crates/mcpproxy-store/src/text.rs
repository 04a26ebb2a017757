//! Text forms that several rooms share.

/// The text as both databases can store it: PostgreSQL rejects NUL. JSON escapes NUL, so JSON stays unchanged.
pub(crate) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}
