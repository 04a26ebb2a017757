//! The content of the page `/ui/servers`.

use askama::Template;

use super::Frame;

#[derive(Template)]
#[template(path = "servers.html")]
pub(crate) struct Servers {
    pub(crate) frame: Frame,
}
