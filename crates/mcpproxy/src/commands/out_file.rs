//! Checks the folder of a file before a command writes the file.

use std::path::Path;

use crate::exit::{Exit, Failure};
use crate::terminal::output::line;
use crate::terminal::shell::plain_word;

/// Fails if the folder of a file does not exist. A path that ends in a slash is a folder itself. Commands do not create
/// folders: a mistyped path would become one.
pub(crate) fn check_folder_of(path: &Path) -> Result<(), Failure> {
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let folder = if is_folder { Some(path) } else { path.parent().filter(|folder| !folder.as_os_str().is_empty()) };
    let Some(folder) = folder.filter(|folder| !folder.exists()) else { return Ok(()) };
    let name = folder.display().to_string();
    let message = format!("The folder `{}` does not exist.", line(&name));
    Err(Failure::new(Exit::Failed, message).hint(format!("create it first: mkdir -p {}", plain_word(&name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, missing: Option<&str>| {
            let found = check_folder_of(&folder.path().join(name)).err();
            let hint =
                missing.map(|missing| format!("create it first: mkdir -p {}", folder.path().join(missing).display()));
            assert_eq!(found.as_ref().and_then(Failure::hint_text), hint.as_deref(), "{name}");
        };
        check("a.tar", None);
        check("none/a.tar", Some("none"));
        check("none/below/a.tar", Some("none/below"));
        check("none/", Some("none/"));
        assert!(check_folder_of(Path::new("a.tar")).is_ok(), "in the folder of the shell");
        let failure = check_folder_of(Path::new("/no such/folder/a")).unwrap_err();
        assert_eq!(failure.to_string(), "The folder `/no such/folder` does not exist.");
        assert_eq!(failure.hint_text(), Some("create it first: mkdir -p '/no such/folder'"));
    }
}
