//! The content of the page `/ui/activity`.

use askama::Template;

use super::Frame;

#[derive(Template)]
#[template(path = "activity.html")]
pub(crate) struct Activity {
    pub(crate) frame: Frame,
}
