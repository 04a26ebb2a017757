//! The content of the page `/ui/`.

use askama::Template;

use super::Frame;

#[derive(Template)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    pub(crate) frame: Frame,
}
