//! Notifies users of new approval requests, by webhook and command.
//!
//! Neither contains arguments, or anything else that an agent or server worded. The user reads those on the web page.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderValue, Method, header};
use mcpproxy_core::RiskLevel;
use mcpproxy_core::settings::{Notify, Webhook};
use serde_json::json;
use sha2::Sha256;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{ApprovalNotice, Approvals};
use crate::record::now_ms;
use crate::said_by::SaidBy;
use crate::upstream::Client;

const SIGNATURE: &str = "x-mcpproxy-signature";
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses between attempts: four attempts in about half a minute.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];
/// Notices sent at the same time. Others wait for their turn.
const AT_ONCE: usize = 8;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// Sends notices of new requests until the gateway stops.
pub(crate) async fn notify(approvals: Approvals, stopping: CancellationToken) {
    let mut requested = approvals.requested();
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let next = tokio::select! {
            () = stopping.cancelled() => return,
            next = requested.recv() => next,
        };
        match next {
            Ok(notice) => {
                let settings = approvals.shared.notify.load_full();
                let at_once = Arc::clone(&at_once);
                tokio::spawn(async move {
                    // The semaphore is never closed.
                    let _turn = at_once.acquire().await;
                    send_one(&settings, notice).await;
                });
            }
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "too many approval requests at once, some were not announced")
            }
            Err(RecvError::Closed) => return,
        }
    }
}

async fn send_one(settings: &Notify, notice: ApprovalNotice) {
    let by_webhook = async {
        if let Some(webhook) = &settings.webhook
            && let Err(reason) = send(webhook, &notice).await
        {
            tracing::warn!(approval = %notice.id, reason, "could not announce an approval request by webhook");
        }
    };
    let by_command = async {
        if let Some((program, args)) = settings.command.as_ref().and_then(|command| command.split_first())
            && let Err(reason) = run(program, args, &notice).await
        {
            tracing::warn!(approval = %notice.id, reason, "the notification command failed");
        }
    };
    tokio::join!(by_webhook, by_command);
}

/// Builds the body of a webhook request.
fn body(notice: &ApprovalNotice) -> String {
    json!({
        "event": "approval_requested",
        "approval_id": notice.id.as_str(),
        "agent": notice.agent,
        "tool": notice.tool,
        "risk_level": notice.risk.risk.map(RiskLevel::as_str),
        "risk_said_by": notice.risk.said_by.map(SaidBy::as_str),
        "approve_url": notice.url,
        "expires_at": crate::record::rfc3339(notice.expires_ms),
    })
    .to_string()
}

async fn send(webhook: &Webhook, notice: &ApprovalNotice) -> Result<(), String> {
    let url = Url::parse(webhook.url.expose()).map_err(|error| error.to_string())?;
    let client = Client::new(&url).map_err(|error| error.to_string())?;
    let body = body(notice);
    let mut pauses = PAUSES.iter();
    loop {
        let headers = headers(webhook, &body, now_ms())?;
        let sending = client.send(Method::POST, &url, headers, Bytes::from(body.clone()));
        let reason = match tokio::time::timeout(WEBHOOK_TIMEOUT, sending).await {
            Ok(Ok(answer)) if answer.status.is_success() => return Ok(()),
            Ok(Ok(answer)) => {
                let status = answer.status;
                let _rest = answer.body(ANSWER_MAX_BYTES).await;
                // A client error is final, except for a rate limit or a timeout.
                if status.is_client_error() && status.as_u16() != 429 && status.as_u16() != 408 {
                    return Err(format!("it answered {status}"));
                }
                format!("it answered {status}")
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no response within {} s", WEBHOOK_TIMEOUT.as_secs()),
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(*pause).await,
            None => return Err(reason),
        }
    }
}

/// Signs body and time, so that an old notice cannot be replayed.
fn headers(webhook: &Webhook, body: &str, now_ms: i64) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("mcpproxy/", env!("CARGO_PKG_VERSION"))));
    let signature = signature(webhook.secret.expose().as_bytes(), body, now_ms / 1000)?;
    headers.insert(SIGNATURE, HeaderValue::from_str(&signature).map_err(|error| error.to_string())?);
    Ok(headers)
}

/// Builds `t=SECONDS,v1=HEX`: HMAC-SHA-256 over `SECONDS.BODY`.
fn signature(secret: &[u8], body: &str, seconds: i64) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|error| error.to_string())?;
    mac.update(format!("{seconds}.{body}").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("t={seconds},v1={hex}"))
}

/// Runs the operator's command without a shell. The details are in its environment.
async fn run(program: &str, args: &[String], notice: &ApprovalNotice) -> Result<(), String> {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("MCPPROXY_APPROVAL_ID", notice.id.as_str())
        .env("MCPPROXY_APPROVE_URL", &notice.url)
        .env("MCPPROXY_AGENT", &notice.agent)
        .env("MCPPROXY_TOOL", &notice.tool)
        .env("MCPPROXY_RISK_LEVEL", notice.risk.risk.map_or("unclassified", RiskLevel::as_str))
        .env("MCPPROXY_RISK_SAID_BY", notice.risk.said_by.map_or("nobody", SaidBy::as_str))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("`{program}` could not be started: {error}"))?;
    match tokio::time::timeout(COMMAND_TIMEOUT, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("`{program}` exited with {status}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("`{program}` did not exit within {} s", COMMAND_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_can_be_checked_with_any_hmac() {
        // printf '1.{}' | openssl dgst -sha256 -hmac secret
        let expected = "t=1,v1=1122767b193110cfec322b6f199b599edbf608ed087f2d27afb0b97d99523908";
        assert_eq!(signature(b"secret", "{}", 1).unwrap(), expected);
    }
}
