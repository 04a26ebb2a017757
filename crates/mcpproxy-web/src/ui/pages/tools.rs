//! The content of the page `/ui/tools`.

use askama::Template;

use super::Frame;

#[derive(Template)]
#[template(path = "tools.html")]
pub(crate) struct Tools {
    pub(crate) frame: Frame,
}
