//! Tools for files: sharing with one person, and download links that expire.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mail::check_addresses;
use super::{DemoTool, tool};
use crate::contract::{Contract, Idempotency, Operation, Risk, World};
use crate::failure::{Code, Failure};
use crate::tools::data::{Data, OWN_DOMAIN, is_at, parse_time};

/// Validity of the link that replaces an expired one.
const RENEWED_FOR: SignedDuration = SignedDuration::from_hours(1);

pub(super) fn tools() -> Vec<DemoTool> {
    vec![
        tool("create_download_link", CREATE_LINK, |data, new: NewLink, now| data.create_link(new, now)),
        tool("share_file_link", SHARE, |data, new: NewShare, _now| data.share_file(new)),
    ]
}

const CREATE_LINK: Contract = Contract {
    description: "Creates a link by which a file can be downloaded until a given time.",
    category: "files",
    risk: Risk::Medium,
    operation: Operation::Write,
    permissions: &["files:read", "files:link"],
    side_effects: &[
        "A download link is created.",
        "Repeating the call returns the same link while it is valid.",
        "Repeating the call after the link has expired replaces it by one that is valid for an hour.",
    ],
    audit_event: "file.link.created",
    failures: &[Code::NotFound, Code::InvalidTime, Code::PolicyViolation],
    idempotency: Idempotency::Natural { key_from: &["fileId", "expiresAt"], valid_until: "/expiresAt" },
    ..Contract::PLAIN
};

const SHARE: Contract = Contract {
    description: "Shares a file with one person, inside or outside the company.",
    category: "files",
    risk: Risk::High,
    operation: Operation::Write,
    world: World::Open,
    permissions: &["files:read", "files:share"],
    side_effects: &[
        "The person can open the file from now on.",
        "Repeating the call returns the same share, with the access asked for last.",
    ],
    audit_event: "file.shared",
    failures: &[Code::NotFound, Code::InvalidRecipient, Code::PolicyViolation],
    idempotency: Idempotency::Settles,
    sensitive: &["/email"],
    ..Contract::PLAIN
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    secrecy: Secrecy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Shareable,
    Confidential,
}

impl File {
    pub(crate) fn new(id: impl Into<String>, name: impl Into<String>, bytes: u64) -> Self {
        Self { id: id.into(), name: name.into(), bytes, secrecy: Secrecy::Shareable }
    }

    pub(crate) fn confidential(self) -> Self {
        Self { secrecy: Secrecy::Confidential, ..self }
    }

    /// Refuses to share a confidential file outside of the company.
    pub(super) fn check_may_leave(&self) -> Result<(), Failure> {
        match self.secrecy {
            Secrecy::Shareable => Ok(()),
            Secrecy::Confidential => {
                let message = format!("`{}` is confidential and must stay in the company", self.id);
                Err(Failure::new(Code::PolicyViolation, message))
            }
        }
    }
}

/// A download link, and the request that created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    id: String,
    file_id: String,
    asked_until: Timestamp,
    valid_until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Share {
    /// The share's id.
    share_id: String,
    /// The file that is shared.
    file_id: String,
    /// The address of the person who can open it.
    shared_with: String,
    /// Access level that they get.
    access: Access,
    /// Where to open it.
    url: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Access {
    #[default]
    View,
    Edit,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewLink {
    /// The file, such as `f_abc123`.
    file_id: String,
    /// Time at which the link expires, such as `2026-12-31T23:59:00Z`.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DownloadLink {
    /// The link's id. The same request returns the same id until the link expires.
    link_id: String,
    /// Where to download the file.
    url: String,
    /// Time at which the link expires.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewShare {
    /// The file, such as `f_report`.
    file_id: String,
    /// The address of the person to share it with.
    email: String,
    /// Access level that they get.
    #[serde(default)]
    access: Access,
}

impl Data {
    fn create_link(&mut self, new: NewLink, now: Timestamp) -> Result<DownloadLink, Failure> {
        let asked_until = parse_time(&new.expires_at)?;
        self.find_file(&new.file_id)?.check_may_leave()?;
        let is_same = |link: &Link| link.file_id == new.file_id && link.asked_until == asked_until;
        let known = self.links.iter().find(|link| is_same(link));
        if let Some(valid) = known.filter(|link| link.valid_until > now) {
            return Ok(valid.answer());
        }
        let valid_until = match known {
            Some(_expired) => now.checked_add(RENEWED_FOR).unwrap_or(Timestamp::MAX),
            None if asked_until <= now => {
                return Err(Failure::new(Code::InvalidTime, format!("`{}` has passed", new.expires_at)));
            }
            None => asked_until,
        };
        self.links.retain(|link| !is_same(link));
        let link = Link { id: self.next_id("link"), file_id: new.file_id, asked_until, valid_until };
        let answer = link.answer();
        self.links.push(link);
        Ok(answer)
    }

    fn share_file(&mut self, new: NewShare) -> Result<Share, Failure> {
        check_addresses(std::slice::from_ref(&new.email))?;
        let file = self.find_file(&new.file_id)?;
        if !is_at(&new.email, OWN_DOMAIN) {
            file.check_may_leave()?;
        }
        let is_same = |share: &Share| share.file_id == new.file_id && share.shared_with == new.email;
        if let Some(share) = self.shares.iter_mut().find(|share| is_same(share)) {
            share.access = new.access;
            return Ok(share.clone());
        }
        let share_id = self.next_id("share");
        let url = format!("https://files.acme.example/s/{share_id}");
        let share = Share { share_id, file_id: new.file_id, shared_with: new.email, access: new.access, url };
        self.shares.push(share.clone());
        Ok(share)
    }
}

impl Link {
    fn answer(&self) -> DownloadLink {
        DownloadLink {
            link_id: self.id.clone(),
            url: format!("https://files.acme.example/d/{}", self.id),
            expires_at: self.valid_until.to_string(),
        }
    }
}
