//! Servers that are added, switched off and removed from a page.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

const SETTINGS: &str = r#"// Ours.
{
  "mcpServers": {
    "time": { "command": "uvx", "args": ["mcp-server-time"] }, // the clock
  }
}
"#;

struct Place {
    folder: TempDir,
    editor: SettingsEditor,
}

impl Place {
    fn new(settings: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
        home.create().unwrap();
        if let Some(text) = settings {
            fs::write(home.settings(), text).unwrap();
            fs::set_permissions(home.settings(), fs::Permissions::from_mode(0o600)).unwrap();
        }
        Self { folder, editor: SettingsEditor::new(&home) }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.editor.home.settings()).unwrap_or_default()
    }

    fn added(&self, pasted: &str, name: Option<&str>) -> (Vec<String>, Vec<String>) {
        let edited = self.editor.add(pasted, name).map_err(|error| error.to_string()).unwrap();
        (edited.names.iter().map(ToString::to_string).collect(), edited.notes)
    }
}

#[test]
fn pasted_texts_of_all_shapes() {
    let check = |pasted: &str, name: Option<&str>, expected: &[&str]| {
        let place = Place::new(Some(SETTINGS));
        assert_eq!(place.added(pasted, name).0, expected, "{pasted}");
        let text = place.text();
        assert!(text.contains("// Ours.") && text.contains("// the clock"), "{text}");
        assert!(text.contains("\"first_sight\": \"review\""), "a pasted server waits for a review: {text}");
    };
    check(r#"{"mcpServers": {"fx": {"command": "fx"}}}"#, None, &["fx"]);
    check(
        r#"{"servers": {"fx": {"type": "stdio", "command": "fx"}, "b": {"url": "https://b.example"}}}"#,
        None,
        &["fx", "b"],
    );
    check(r#"{"fx": {"command": "fx"}}"#, None, &["fx"]);
    check(r#""fx": {"command": "fx", "args": ["a"]},"#, None, &["fx"]);
    check(r#"{"command": "fx"}"#, Some("My FX"), &["my-fx"]);
    check(r#"{"name": "fx", "command": "fx"}"#, None, &["fx"]);
    check("{\"mcpServers\": {\"fx\": {\"command\": \"fx\"}, /* and */ },}", None, &["fx"]);
}

#[test]
fn what_cannot_be_added() {
    let check = |pasted: &str, name: Option<&str>, expected: &str| {
        let place = Place::new(Some(SETTINGS));
        let error = place.editor.add(pasted, name).err().expect(pasted).to_string();
        assert!(error.contains(expected), "{pasted}: {error}");
        assert_eq!(place.text(), SETTINGS, "{pasted}");
    };
    check("", None, "no servers");
    check("{", None, "not valid JSON");
    check("[]", None, "no servers");
    check("{}", None, "no servers");
    check(r#"{"mcpServers": {}}"#, None, "no servers");
    check(r#"{"command": "fx"}"#, None, "without a name");
    check(r#"{"mcpServers": {"mcpproxy": {"command": "mcpproxy", "args": ["stdio"]}}}"#, None, "mcpproxy itself");
    check(r#"{"time": {"command": "uvx", "args": ["mcp-server-time"]}}"#, None, "already in the settings");
    check(r#"{"fx": {"url": "ftp://x"}}"#, None, "cannot be added");
    check(r#"{"fx": "text"}"#, None, "no servers");
}

#[test]
fn names_that_are_taken_and_secrets() {
    let place = Place::new(Some(SETTINGS));
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let pasted = format!(r#"{{"time": {{"command": "other", "env": {{"GITHUB_TOKEN": "{secret}"}}}}}}"#);
    let (names, notes) = place.added(&pasted, None);
    assert_eq!(names, ["time-2"]);
    assert!(notes.iter().any(|note| note.contains("`time` already exists")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("1 secret moved")), "{notes:?}");
    assert!(!place.text().contains(secret) && place.text().contains("${file:secrets/"), "{}", place.text());
    let moved = fs::read_dir(place.folder.path().join("secrets")).unwrap().count();
    assert_eq!(moved, 1);
}

#[test]
fn changes_are_undone() {
    let place = Place::new(Some(SETTINGS));
    let name = ServerName::parse("time").unwrap();
    let changes: [&dyn Fn() -> Result<Edited, EditError>; 3] =
        [&|| place.editor.set_enabled(&name, false), &|| place.editor.remove(&name), &|| {
            place.editor.add(r#"{"fx": {"command": "fx", "env": {"API_KEY": "s3cr3t-0123456789"}}}"#, None)
        }];
    for change in changes {
        let edited = change().map_err(|error| error.to_string()).unwrap();
        assert_ne!(place.text(), SETTINGS);
        match edited.written {
            web::Written::File(undo) => undo.run(),
            web::Written::Version(_) => panic!("the file is written"),
        }
        assert_eq!(place.text(), SETTINGS);
    }
    let secrets = fs::read_dir(place.folder.path().join("secrets")).map_or(0, Iterator::count);
    assert_eq!(secrets, 0, "no secret is left behind");
}

#[test]
fn the_first_server_keeps_the_demo() {
    let place = Place::new(None);
    place.added(r#"{"fx": {"command": "fx"}}"#, None);
    assert!(place.text().contains("\"demo\"") && place.text().contains("\"fx\""), "{}", place.text());
}

#[test]
fn an_unknown_server_is_an_error() {
    let place = Place::new(Some(SETTINGS));
    let name = ServerName::parse("none").unwrap();
    assert!(matches!(place.editor.remove(&name), Err(EditError::Failed(_))));
    assert!(matches!(place.editor.set_enabled(&name, true), Err(EditError::Failed(_))));
    assert_eq!(place.text(), SETTINGS);
}
