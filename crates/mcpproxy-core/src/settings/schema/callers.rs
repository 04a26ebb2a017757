//! The schema of those who come to the gateway: users and agents.

use serde_json::{Value, json};

use super::super::{OidcSettings, keys};
use super::words;
pub(super) fn people() -> Value {
    let selectors = |description: &str| {
        let list = |description: &str| json!({ "type": "array", "items": { "type": "string" }, "default": [], "description": description });
        json!({
            "type": "object",
            "description": description,
            "additionalProperties": false,
            "properties": {
                "emails": list("E-mail addresses that the provider has verified."),
                "domains": list("Domains of e-mail addresses that the provider has verified, such as `example.com`."),
                "groups": list("Groups, as `groups_claim` names them.")
            }
        })
    };
    json!({
        "type": "object",
        "description": "Users: how they sign in, and how long their sessions last.",
        "additionalProperties": false,
        "properties": {
            "password": {
                "type": "boolean",
                "default": true,
                "description": "Local users may sign in with a password. false needs `oidc`."
            },
            "session": {
                "type": "object",
                "description": "The lifetime of sessions.",
                "additionalProperties": false,
                "properties": {
                    "idle": { "$ref": "#/$defs/duration", "default": "15m", "description": "A session without requests ends after this time: \"1m\" to \"7d\"." },
                    "max": { "$ref": "#/$defs/duration", "default": "12h", "description": "Every session ends after this time: \"1m\" to \"7d\"." }
                }
            },
            "oidc": {
                "type": "object",
                "description": "An OpenID Connect provider with which users sign in. Register the redirect URI `PUBLIC_URL/ui/sign-in/oidc/callback` there.",
                "additionalProperties": false,
                "required": ["issuer", "client_id", "allowed"],
                "properties": {
                    "issuer": { "type": "string", "minLength": 1, "description": "The issuer, exactly as the provider writes it, such as `https://id.example.com/realms/main`. `http://` is accepted for localhost only." },
                    "client_id": { "type": "string", "minLength": 1, "description": "The client ID that the provider gave to this gateway." },
                    "client_secret": { "type": "string", "minLength": 1, "description": "The client secret, best in `${env:NAME}` or `${file:PATH}`. Leave it out for a public client." },
                    "scopes": { "type": "array", "items": { "type": "string" }, "default": [], "description": "Scopes to request besides `openid`, `profile` and `email`, such as `groups`." },
                    "allowed": selectors("The users who may sign in, and so approve calls. One match is enough. It must not be empty."),
                    "admins": selectors("Of these users, those who may also invite and remove users."),
                    "groups_claim": { "type": "string", "default": OidcSettings::GROUPS_CLAIM, "description": "The claim of the ID token with the groups of a user. Dots reach into objects: `realm_access.roles`." },
                    "name": { "type": "string", "default": OidcSettings::NAME, "description": "The name of the provider on the button, such as `Example SSO`." },
                    "acr": { "type": "string", "description": "The authentication context (`acr`) that a step-up requires, such as a multi-factor one. The gateway requests it, and refuses another one." }
                }
            }
        }
    })
}

pub(super) fn agents() -> Value {
    let list = |description: &str| json!({ "type": "array", "items": { "type": "string" }, "default": [], "description": description });
    json!({
        "type": "object",
        "description": "Agents that come with an access token of an identity provider, beside those with a token of the gateway.",
        "additionalProperties": false,
        "properties": {
            "oauth": {
                "type": "object",
                "description": "The identity provider. With it, `/mcp` is an OAuth protected resource: clients find the provider by themselves and sign their users in.",
                "additionalProperties": false,
                "required": ["issuer", "audience"],
                "properties": {
                    "issuer": { "type": "string", "minLength": 1, "description": "The `https` URL of the identity provider, exactly as its tokens contain it in `iss`. `http` is accepted for localhost only." },
                    "audience": { "type": "string", "minLength": 1, "description": "The text that tokens must have in `aud`. Write the public URL of `/mcp`, such as `https://gateway.example.com/mcp`, because clients ask the provider for a token for that URL." },
                    "scopes": list("Scopes that clients ask the provider for. Those that `claims.allow` looks for in the claim `scope` are added."),
                    "claims": claims(),
                    "blocked": list("Agents to refuse at once, by the value of the claim that names them. To remove an agent for good, remove it at the provider.")
                }
            }
        }
    })
}

fn claims() -> Value {
    let claim = |description: &str| json!({ "type": "string", "minLength": 1, "description": description });
    json!({
        "type": "object",
        "description": "The claims of a token that say what its agent may do. Without `servers`, `operations`, `permissions` and `allow`, every valid token may read on every server, without permissions. A dot reaches into an object: `realm_access.roles`.",
        "additionalProperties": false,
        "properties": {
            "name": { "type": "string", "minLength": 1, "default": "sub", "description": "The claim that names the agent. The provider must never give its value to anyone else. The agent `anna` of `https://id.example.com` is called `anna@id.example.com`." },
            "servers": claim("A claim that lists the servers that the agent may use; `*` stands for all. A token without it may use none."),
            "operations": claim("A claim that lists the operations `read`, `write` and `destructive`. A token without it may do none."),
            "permissions": claim("A claim that lists the agent's permissions, such as `scope`."),
            "allow": {
                "type": "array",
                "description": "Rules, instead of the three keys above. The first entry that matches a token decides. A token that no entry matches is refused.",
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "claim": claim("The claim to look at. Without `claim` and `contains`, the entry matches every valid token."),
                        "contains": claim("The text that the claim must be or contain, such as the name of a group."),
                        "servers": { "type": "array", "items": { "type": "string" }, "description": "The servers that the agent may use. By default, all." },
                        "operations": { "type": "array", "items": { "enum": words(keys::OPERATIONS) }, "default": ["read"], "description": "The operations that the agent may use." },
                        "permissions": { "type": "array", "items": { "type": "string" }, "default": [], "description": "The permissions that the agent has, such as `emails:send` or `files:*`." },
                        "headless": { "type": "boolean", "default": false, "description": "Unattended agents: their calls never wait for a user, and approval requests stay open for a day." }
                    }
                }
            }
        }
    })
}
