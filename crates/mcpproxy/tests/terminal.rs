//! Tests of what people see: layouts at several widths, colours, hints, completions and manual pages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::process::{Command, Stdio};

use common::person::Person;
use common::{Folder, Serving, wait};
use insta::assert_snapshot;

const WIDTHS: [usize; 3] = [60, 80, 120];

/// Returns the standard output of a command at a width.
fn at(folder: &Folder, columns: usize, args: &[&str]) -> String {
    let output = folder.command(args).env("COLUMNS", columns.to_string()).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace(&folder.path().display().to_string(), "FOLDER")
}

/// Checks that no line is wider, except for single words that must stay whole.
fn check_width(text: &str, columns: usize, args: &[&str]) {
    for line in text.lines() {
        let is_one_word = line.split_whitespace().count() <= 1;
        assert!(line.chars().count() <= columns || is_one_word, "{args:?} at {columns}: {line:?}\n{text}");
    }
}

#[test]
fn lists_fit_every_width() {
    let folder = Folder::new();
    folder.write(
        "mcp_config.json",
        "{\"mcpServers\": {\"demo\": {\"type\": \"demo\"}, \"gone\": {\"command\": \"/no/such/program\"}}}",
    );
    let serving = Serving::start(&folder);
    folder.run(&["token", "create", "an-agent-with-a-long-name", "--grant", "files:*", "--grant", "emails:send"]);
    folder.run(&[
        "call",
        "tool-write",
        "demo:update_task_status",
        "--args",
        "{\"taskId\": \"t_1\", \"status\": \"done\"}",
    ]);
    folder.run(&["call", "tool-read", "demo:get_current_user"]);
    let commands: &[&[&str]] = &[
        &["servers", "list"],
        &["tools", "list"],
        &["tools", "search", "delete a user"],
        &["tools", "search", "delete a user", "--explain"],
        &["token", "list"],
        &["activity", "list"],
        &["activity", "list", "--type", "call"],
        &["activity", "summary"],
        &["approvals", "list", "--state", "all"],
        &["approvals", "grants", "--all"],
        &["contract", "coverage"],
        &["contract", "show", "demo:delete_user"],
        &["status"],
        &["doctor"],
    ];
    for args in commands {
        for columns in WIDTHS {
            let text = at(&folder, columns, args);
            assert!(!text.is_empty(), "{args:?}");
            check_width(&text, columns, args);
        }
    }
    for columns in WIDTHS {
        assert_snapshot!(format!("tools_list_{columns}"), at(&folder, columns, &["tools", "list"]));
        assert_snapshot!(
            format!("contract_show_{columns}"),
            at(&folder, columns, &["contract", "show", "demo:delete_user"])
        );
        // Names are never cut.
        let calls = at(&folder, columns, &["activity", "list", "--type", "call"]);
        for name in ["update_task_status", "get_current_user"] {
            assert!(calls.contains(name), "{columns}\n{calls}");
        }
    }
    let narrow = at(&folder, 60, &["token", "list"]);
    assert!(narrow.contains("an-agent-with-a-long-name\n") && narrow.contains("  servers: all · "), "{narrow}");
    // Without a terminal and without `COLUMNS`, a row is a line.
    let piped = folder.run(&["activity", "list", "--type", "call"]);
    assert!(piped.lines().any(|line| line.contains("demo    update_task_status  ✎ write")), "{piped}");
    assert_eq!(serving.stop(), Some(0));
}

/// Returns both outputs of a command at 60 columns.
fn narrow(folder: &Folder, args: &[&str]) -> String {
    let output = folder.command(args).env("COLUMNS", "60").stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    text.replace(&folder.path().display().to_string(), "FOLDER")
}

/// Returns true if a line is one command between backticks, and perhaps the end of its sentence.
fn is_one_command(line: &str) -> bool {
    let code = line.trim_end_matches(['.', ',', ':']);
    let command = code.strip_prefix('`').and_then(|code| code.strip_suffix('`'));
    command.is_some_and(|command| command.starts_with("mcpproxy ") && !command.contains('`'))
}

/// Pages and messages fit like lists do. Only a command may be longer, on a line of its own.
#[test]
fn pages_and_messages_fit() {
    let folder = Folder::new();
    folder.write("mcp_config.json", "{\"mcpServers\": {\"demo\": {\"type\": \"demo\"}}}");
    let serving = Serving::start(&folder);
    folder.run(&[
        "call",
        "tool-write",
        "demo:update_task_status",
        "--args",
        "{\"taskId\": \"t_1\", \"status\": \"done\"}",
    ]);
    let record = folder.json(&["activity", "list", "--type", "call"])["activities"][0]["id"].clone();
    let commands: &[&[&str]] = &[
        &["users", "list"],
        &["tools", "show", "demo:update_task_status"],
        &["activity", "verify"],
        &["activity", "verify"],
        &["activity", "show", record.as_str().unwrap()],
        &["tools", "show", "demo:none"],
        &["call", "tool-read", "demo:delete_user", "--args", "{\"userId\": \"u_max\"}"],
        &["call", "tool-read", "demo:none"],
        &["token", "create", "narrow", "--servers", "none"],
        &["token", "revoke", "nobody"],
        &["approvals", "approve", "01JG2"],
        &["servers", "restart", "none"],
        &["activity", "export", "--limit", "1"],
        &["activity", "export", "--out", "/nowhere/at/all"],
    ];
    for args in commands {
        let text = narrow(&folder, args);
        assert!(!text.is_empty(), "{args:?}");
        // Arguments and results of a record stay as they were recorded.
        let is_payload = |line: &&str| line.starts_with("Arguments (") || line.starts_with("Result (");
        for line in text.lines().take_while(|line| !is_payload(line)) {
            let is_command = line.trim_start().starts_with("mcpproxy ") || is_one_command(line);
            let is_one_word = line.split_whitespace().count() <= 1;
            assert!(line.chars().count() <= 60 || is_command || is_one_word, "{args:?}: {line:?}\n{text}");
        }
    }
    let text = narrow(&folder, &["tools", "show", "demo:update_task_status"]);
    assert!(text.contains("update_task_status \\\n    --args '{…}'\n"), "{text}");
    assert_eq!(serving.stop(), Some(0));
}

/// Standard output and standard error have their own widths: in a file, a line stays whole.
#[test]
fn messages_wrap_only_at_a_terminal() {
    const NOTE: &str = "note: contracts/: ignored: B.YAML. Only files that end in .yaml, .yml or .json are read.";
    let folder = Folder::new();
    folder.make("contracts");
    folder.write("contracts/B.YAML", "tool: demo:list_projects\n");
    let runs = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(folder.command(&[]).get_program()).arg(folder.file("output.txt"));
        let mut person = Person::runs(shell.env("MCPPROXY_HOME", folder.path()).env_remove("COLUMNS"));
        assert_eq!(person.leaves(), Some(0));
        person.screen()
    };
    let screen = runs("\"$0\" config check 2>\"$1\"");
    let errors = folder.read("output.txt");
    assert!(errors.lines().any(|line| line == NOTE) && !screen.contains("ignored"), "{errors}\n{screen}");
    // The terminal of the test does not know its width, which counts as 80.
    let screen = runs("\"$0\" config check >\"$1\"");
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let widest = screen.lines().map(|line| line.chars().count()).max();
    assert!(words.contains(NOTE) && widest <= Some(80), "{screen}");
}

#[test]
fn colours_are_on_when_they_are_wanted() {
    let folder = Folder::new();
    folder.run(&["token", "create", "ci"]);
    let is_coloured = |variables: &[(&str, &str)]| {
        let mut command = folder.command(&["token", "list"]);
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("valid"), "{text}");
        text.contains('\u{1b}')
    };
    assert!(!is_coloured(&[]), "a pipe has no colours");
    assert!(is_coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!is_coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut command = folder.command(&["token", "list"]);
        command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
        let mut person = Person::runs(&command);
        assert_eq!(person.leaves(), Some(0));
        person.sees("valid");
        person.screen().contains("\u{1b}[32mvalid\u{1b}[0m")
    };
    assert!(on_terminal(&[]));
    assert!(!on_terminal(&[("NO_COLOR", "1")]));
    assert!(!on_terminal(&[("TERM", "dumb")]));
}

#[test]
fn mistakes_get_advice() {
    let folder = Folder::new();
    assert_snapshot!("add_without_dashes", folder.run(&["servers", "add", "foo", "npx", "-y", "a-package"]));
    let web = folder.run(&["servers", "add", "web", "https://h.example/mcp"]);
    assert!(web.ends_with("hint: mcpproxy servers add web --url https://h.example/mcp\n"), "{web}");
    assert_snapshot!("call_without_variant", folder.run(&["call", "demo:list_projects", "--args", "{}"]));
    assert_snapshot!("unknown_command", folder.run(&["server", "list"]));
    assert_snapshot!("foreign_word", folder.run(&["start"]));
    assert_eq!(folder.run(&["help"]), folder.run(&["--help"]));
    assert_eq!(folder.run(&["help", "servers", "add"]), folder.run(&["servers", "add", "--help"]));
    assert!(folder.run(&["help", "nonsense"]).starts_with("exit 2\n"));

    let _serving = Serving::start(&folder);
    let advice = folder.run(&["call", "demo:delete_user", "--args", "{\"userId\": \"u_max\"}"]);
    let command = "hint: mcpproxy call tool-destructive demo:delete_user --args '{\"userId\": \"u_max\"}'\n";
    assert!(advice.ends_with(command), "{advice}");
}

/// Returns the candidates for the last word, as a shell asks for them.
fn candidates(folder: &Folder, words: &[&str]) -> Vec<String> {
    let mut command = folder.command(&["--", "mcpproxy"]);
    command.args(words).env("COMPLETE", "bash").env("_CLAP_IFS", "\n");
    let output = command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn completion_knows_the_names() {
    let folder = Folder::new();
    folder.run(&["token", "create", "nightly"]);
    // Without a gateway: silent, and the database is enough for agents.
    assert!(candidates(&folder, &["tools", "show", ""]).iter().all(|word| word.starts_with('-')));
    assert!(candidates(&folder, &["token", "revoke", "ni"]).contains(&"nightly".to_owned()));
    folder.write(
        "mcp_config.json",
        "{\"mcpServers\": {\"docs\": {\"command\": \"true\", \"enabled\": false}, \"demo\": {\"type\": \"demo\"}}}",
    );
    assert_eq!(candidates(&folder, &["servers", "enable", "do"]), ["docs"]);
    assert_eq!(candidates(&folder, &["import", "cu"]), ["cursor"]);
    let file = folder.file("mcp_con").display().to_string();
    assert_eq!(candidates(&folder, &["import", &file]), [folder.file("mcp_config.json").display().to_string()]);

    let serving = Serving::start(&folder);
    assert_eq!(candidates(&folder, &["servers", "logs", "de"]), ["demo"]);
    assert_eq!(candidates(&folder, &["call", "tool-destructive", "demo:delete_u"]), ["demo:delete_user"]);
    assert!(candidates(&folder, &["call", "tool-read", "demo:"]).contains(&"demo:list_projects".to_owned()));
    assert!(!candidates(&folder, &["call", "tool-read", "demo:"]).contains(&"demo:delete_user".to_owned()));
    assert_eq!(candidates(&folder, &["activity", "list", "--agent", "ni"]), ["nightly"]);
    assert!(candidates(&folder, &["serv"]).contains(&"servers".to_owned()));
    let delete = ["call", "tool-destructive", "demo:delete_user", "--args", "{\"userId\": \"u_max\"}"];
    folder.write(
        "mcp_config.json",
        "{\"mcpServers\": {\"demo\": {\"type\": \"demo\"}}, \"approvals\": {\"wait\": \"1s\"}}",
    );
    wait("the new setting", || serving.admin("/api/v1/servers")["servers"].as_array().unwrap().len() == 1);
    assert!(folder.run(&delete).starts_with("exit 4\n"));
    let pending = serving.admin("/api/v1/approvals")["approvals"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(candidates(&folder, &["approvals", "approve", "01"]), [pending]);
}

#[test]
fn completion_scripts() {
    let folder = Folder::new();
    for (shell, sign) in [
        ("bash", "complete -o bashdefault -F _mcpproxy mcpproxy"),
        ("zsh", "#compdef mcpproxy"),
        ("fish", "complete --keep-order --exclusive --command mcpproxy"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer[mcpproxy]"),
    ] {
        let output = folder.command(&["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains(sign), "{shell}: {script}");
    }
}

#[test]
fn completion_in_bash() {
    let folder = Folder::new();
    let _serving = Serving::start(&folder);
    let script = folder.command(&["completions", "bash"]).output().unwrap().stdout;
    folder.write("completion.bash", &String::from_utf8(script).unwrap());
    let binary = std::path::PathBuf::from(folder.command(&[]).get_program());
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    // Bash splits `demo:delete_u` at the colon, as it does while a user types.
    let check = |words: &str, index: usize, expected: &str| {
        let test = format!(
            "source {}; COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'; COMP_WORDS=({words}); COMP_CWORD={index}; _mcpproxy; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            folder.file("completion.bash").display()
        );
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-c", &test]).env("PATH", &path).env("MCPPROXY_HOME", folder.path());
        let output = bash.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, expected, "{words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    check("mcpproxy call tool-destructive demo : delete_u", 5, "delete_user\n");
    check("mcpproxy servers logs de", 3, "demo\n");
    check("mcpproxy serv", 1, "serve\nservers\n");
}

#[test]
fn manual_pages() {
    let folder = Folder::new();
    let page = |args: &[&str]| String::from_utf8(folder.command(args).output().unwrap().stdout).unwrap();
    assert!(page(&["man"]).contains(".TH \"MCPPROXY\" \"1\" \"\" \"mcpproxy "));
    assert!(page(&["man", "servers", "add"]).contains("mcpproxy\\-servers\\-add"));
    assert!(folder.run(&["man", "nonsense"]).starts_with("exit 2\n"));
    let pages = folder.file("pages").display().to_string();
    let written = folder.json(&["man", "--to", &pages])["files"].as_array().unwrap().len();
    for name in ["mcpproxy.1", "mcpproxy-servers-add.1", "mcpproxy-doctor.1"] {
        assert!(folder.file("pages").join(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.file("pages")).unwrap().count(), written);
}

#[test]
fn stopping_says_what_happens() {
    let folder = Folder::new();
    let mut person = Person::runs(&folder.command(&["serve", "--listen", "127.0.0.1:0"]));
    person.sees("listens on http://");
    person.types("\u{3}");
    person.sees("Stopping. Press Ctrl-C again to stop at once.");
    assert_eq!(person.leaves(), Some(0));
}
