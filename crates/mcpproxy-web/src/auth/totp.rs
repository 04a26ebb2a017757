//! Codes from an authenticator app (TOTP, RFC 6238).

use qrcode::render::svg;
use qrcode::{EcLevel, QrCode};
use totp_rs::{Algorithm, Builder, Secret, Totp};

pub(crate) const SECRET_BYTES: usize = 20;
const ISSUER: &str = "mcpproxy";

/// Everything a user needs to set up an authenticator app.
pub(crate) struct Setup {
    /// Base32, in groups of four.
    pub(crate) secret: String,
    /// The QR code as SVG.
    pub(crate) qr_svg: String,
    /// Opens the app if the page is on the phone.
    pub(crate) uri: String,
}

/// Finds the time step of a code: the current, the previous or the next one. The store remembers the last used step, so
/// that each code works once.
pub(crate) fn step_of(secret: &[u8], code: &str, now_ms: i64) -> Option<i64> {
    // Apps show the code in two groups, and users copy the space.
    let digits: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let is_code = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let now = u64::try_from(now_ms / 1000).ok()?;
    let step = is_code.then(|| totp(secret, None))??.check(&digits, now)?;
    i64::try_from(step).ok()
}

pub(crate) fn setup(secret: &[u8], name: &str) -> Option<Setup> {
    let totp = totp(secret, Some(name))?;
    let uri = totp.to_url().ok()?;
    let code = QrCode::with_error_correction_level(uri.as_bytes(), EcLevel::M).ok()?;
    let qr_svg = code.render::<svg::Color<'_>>().min_dimensions(200, 200).quiet_zone(true).build();
    // The page embeds the SVG, and HTML allows no XML declaration.
    let qr_svg = qr_svg.find("<svg").and_then(|at| qr_svg.get(at..)).map(str::to_owned)?;
    Some(Setup { secret: in_groups(&totp.secret().to_base32()), qr_svg, uri })
}

fn totp(secret: &[u8], name: Option<&str>) -> Option<Totp> {
    let totp = Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(6)
        .with_skew(1)
        .with_step_duration(30)
        .with_issuer(Some(ISSUER))
        .with_account_name(name.unwrap_or("person"))
        .with_secret(Secret::from(secret.to_vec()));
    totp.build().ok()
}

fn in_groups(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238, appendix B.
    const SECRET: &[u8] = b"12345678901234567890";

    #[test]
    fn codes_of_the_standard() {
        // The last six of the eight digits in the RFC's table.
        for (seconds, code) in [(59, "287082"), (1_111_111_109, "081804"), (1_234_567_890, "005924")] {
            assert_eq!(step_of(SECRET, code, seconds * 1000), Some(seconds / 30), "{seconds}");
        }
    }

    #[test]
    fn one_step_to_either_side_counts_and_no_further() {
        let at = |seconds: i64| step_of(SECRET, "005924", seconds * 1000);
        let (now, step) = (1_234_567_890, 1_234_567_890 / 30);
        for seconds in [now - 30, now, now + 29, now + 59] {
            assert_eq!(at(seconds), Some(step), "{seconds}");
        }
        for seconds in [now - 31, now + 60, 0, -1] {
            assert_eq!(at(seconds), None, "{seconds}");
        }
    }

    #[test]
    fn what_is_no_code_is_none() {
        let now_ms = 1_234_567_890_000;
        assert_eq!(step_of(SECRET, " 005 924 ", now_ms), Some(41_152_263));
        for bad in ["", "5924", "0059240", "00592a", "٠٠٥٩٢٤", "-05924", "005925"] {
            assert_eq!(step_of(SECRET, bad, now_ms), None, "{bad}");
        }
        assert_eq!(step_of(b"short", "005924", now_ms), None);
    }

    #[test]
    fn an_app_gets_its_secret_in_three_ways() {
        let setup = setup(SECRET, "anna").unwrap();
        assert_eq!(setup.secret, "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ");
        assert_eq!(setup.uri, "otpauth://totp/mcpproxy:anna?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=mcpproxy");
        assert!(setup.qr_svg.starts_with("<svg") && setup.qr_svg.ends_with("</svg>"), "{}", setup.qr_svg);
        assert!(!setup.qr_svg.contains("style=") && !setup.qr_svg.contains("<script"));
    }
}
