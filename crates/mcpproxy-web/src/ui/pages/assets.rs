//! The style and the scripts of the pages.

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use http::header;
use sha2::{Digest as _, Sha256};

use crate::ui::page::{Page, PageAccess};
use crate::verb::Verb;

pub(crate) const PAGES: &[Page] = &[
    Page {
        name: "style",
        method: Verb::Get,
        path: "/ui/app.css",
        access: PageAccess::Everybody,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, style),
    },
    Page {
        name: "script",
        method: Verb::Get,
        path: "/ui/app.js",
        access: PageAccess::Everybody,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, script),
    },
    Page {
        name: "key_script",
        method: Verb::Get,
        path: "/ui/key.js",
        access: PageAccess::Everybody,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, key_script),
    },
];

/// One file per area of the pages, in this order.
const STYLE: &str = concat!(
    include_str!("../../../assets/app.css"),
    include_str!("../../../assets/console.css"),
    include_str!("../../../assets/overview.css"),
    include_str!("../../../assets/approvals.css"),
    include_str!("../../../assets/activity.css"),
    include_str!("../../../assets/tools.css"),
    include_str!("../../../assets/servers.css"),
    include_str!("../../../assets/agents.css"),
    include_str!("../../../assets/settings.css"),
);
const SCRIPT: &str = include_str!("../../../assets/app.js");
const KEY_SCRIPT: &str = include_str!("../../../assets/key.js");

/// A hash in the addresses of all assets, so that browsers can cache them until they change.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::new().chain_update(STYLE).chain_update(SCRIPT).chain_update(KEY_SCRIPT).finalize();
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
});

pub(crate) fn version() -> &'static str {
    &VERSION
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", STYLE)
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

async fn key_script() -> Response {
    asset("text/javascript; charset=utf-8", KEY_SCRIPT)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "private, max-age=31536000, immutable")];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_small() {
        let scripts = SCRIPT.len() + KEY_SCRIPT.len();
        assert!(STYLE.len() <= 45_000 && scripts <= 14_000, "{} {scripts}", STYLE.len());
    }
}
