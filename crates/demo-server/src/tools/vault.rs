//! Forbidden tools: secrets, and the audit log itself. They show that the gateway hides forbidden tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DemoTool, NoArguments, tool};
use crate::contract::{Contract, Operation, Risk, StepUp};
use crate::failure::{Code, Failure};

/// The only key. It is not used anywhere.
const KEY_ID: &str = "k_signing";
const KEY: &str = "demo-key-that-opens-nothing";
/// The only password and the only token. They open nothing either.
const USER_ID: &str = "u_max";
const PASSWORD: &str = "demo-password-that-opens-nothing";
const TOKEN: &str = "demo-token-that-opens-nothing";

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("read_private_key", READ_KEY, |_data, read: ReadKey, _now| {
            if read.key_id != KEY_ID {
                return Err(Failure::not_found("key", &read.key_id));
            }
            Ok(PrivateKey { key_id: read.key_id, private_key: KEY.to_owned() })
        }),
        tool("read_password", READ_PASSWORD, |_data, read: OfUser, _now| {
            of_user(&read)?;
            Ok(Password { user_id: read.user_id, password: PASSWORD.to_owned() })
        }),
        tool("read_raw_access_token", READ_TOKEN, |_data, read: OfUser, _now| {
            of_user(&read)?;
            Ok(AccessToken { user_id: read.user_id, access_token: TOKEN.to_owned() })
        }),
        tool("disable_audit_log", DISABLE_LOG, |_data, _none: NoArguments, _now| Ok(AuditLog { enabled: false })),
    ]
}

fn of_user(read: &OfUser) -> Result<(), Failure> {
    if read.user_id == USER_ID { Ok(()) } else { Err(Failure::not_found("user", &read.user_id)) }
}

/// The parts that all contracts of this file share.
const FORBIDDEN: Contract =
    Contract { category: "security", risk: Risk::Forbidden, step_up: StepUp::Always, ..Contract::PLAIN };

const READ_KEY: Contract = Contract {
    description: "Returns a private key.",
    permissions: &["keys:read"],
    side_effects: &["Everyone who reads the answer knows the key."],
    audit_event: "key.read",
    failures: &[Code::NotFound],
    ..FORBIDDEN
};

const READ_PASSWORD: Contract = Contract {
    description: "Returns the password of a user.",
    permissions: &["passwords:read"],
    side_effects: &["Everyone who reads the answer knows the password."],
    audit_event: "password.read",
    failures: &[Code::NotFound],
    ..FORBIDDEN
};

const READ_TOKEN: Contract = Contract {
    description: "Returns the access token of a user, unmasked.",
    permissions: &["tokens:read"],
    side_effects: &["Everyone who reads the answer can act as the user."],
    audit_event: "token.read",
    failures: &[Code::NotFound],
    ..FORBIDDEN
};

const DISABLE_LOG: Contract = Contract {
    description: "Turns off the audit log.",
    operation: Operation::Destructive,
    permissions: &["audit:disable"],
    side_effects: &["Nothing that happens afterwards is recorded."],
    audit_event: "audit.disabled",
    ..FORBIDDEN
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadKey {
    /// The key, such as `k_signing`.
    key_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PrivateKey {
    /// The key's id.
    key_id: String,
    /// The key itself.
    private_key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfUser {
    /// The user, such as `u_max`.
    user_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Password {
    /// The user.
    user_id: String,
    /// The password itself.
    password: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AccessToken {
    /// The user.
    user_id: String,
    /// The token itself.
    access_token: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AuditLog {
    /// True if the log records anything.
    enabled: bool,
}
