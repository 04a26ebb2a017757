//! The content of the page `/ui/settings`.

use askama::Template;

use super::Frame;

#[derive(Template)]
#[template(path = "settings.html")]
pub(crate) struct Settings {
    pub(crate) frame: Frame,
}
