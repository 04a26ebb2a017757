//! A forbidden tool that returns a private key. It shows that the gateway hides forbidden tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DemoTool, tool};
use crate::contract::{Contract, Risk, StepUp};
use crate::failure::{Code, Failure};

/// The only key. It is not used anywhere.
const KEY_ID: &str = "k_signing";
const KEY: &str = "demo-key-that-opens-nothing";

pub(super) fn tools() -> Vec<DemoTool> {
    vec![tool("read_private_key", READ_KEY, |_data, read: ReadKey, _now| {
        if read.key_id != KEY_ID {
            return Err(Failure::not_found("key", &read.key_id));
        }
        Ok(PrivateKey { key_id: read.key_id, private_key: KEY.to_owned() })
    })]
}

const READ_KEY: Contract = Contract {
    description: "Returns a private key.",
    category: "security",
    risk: Risk::Forbidden,
    step_up: StepUp::Always,
    permissions: &["keys:read"],
    side_effects: &["Everyone who reads the answer knows the key."],
    audit_event: "key.read",
    failures: &[Code::NotFound],
    ..Contract::PLAIN
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
