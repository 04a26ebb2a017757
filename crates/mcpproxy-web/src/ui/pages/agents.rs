//! The content of the page `/ui/agents`.

use askama::Template;

use super::Frame;

#[derive(Template)]
#[template(path = "agents.html")]
pub(crate) struct Agents {
    pub(crate) frame: Frame,
}
