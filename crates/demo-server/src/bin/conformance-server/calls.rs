//! Runs the fixture tools that answer in one round, some of them with notifications before the answer.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateMessageRequestParams, ElicitRequestParams, JsonObject, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, ResourceContents, SamplingMessage,
};
use rmcp::service::{RequestContext, ServiceError};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::content::{PIXEL_PNG, SILENCE_WAV};
use crate::fixture::{Change, Fixture, is_modern};
use crate::rounds;

/// Long enough for a client to see that messages arrive one by one.
const STEP: Duration = Duration::from_millis(50);

/// Closes the event stream of an HTTP request. The session continues, and the client can fetch the answer later.
#[derive(Clone, Default)]
pub(crate) struct StreamCloser(CancellationToken);

impl StreamCloser {
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.clone().cancelled_owned()
    }
}

/// Runs one tool by name.
pub(crate) async fn call(
    fixture: &Fixture,
    call: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    if let Some(response) = rounds::call(&fixture.shared.state, &call, &context) {
        return response;
    }
    let arguments = call.arguments.unwrap_or_default();
    let content = match &*call.name {
        "test_simple_text" => vec![ContentBlock::text("This is a simple text response for testing.")],
        "test_image_content" => vec![ContentBlock::image(PIXEL_PNG, "image/png")],
        "test_audio_content" => vec![ContentBlock::audio(SILENCE_WAV, "audio/wav")],
        "test_embedded_resource" => {
            vec![embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PIXEL_PNG, "image/png"),
            embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ],
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            return Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into());
        }
        "test_tool_with_logging" | "test_logging_tool" => log(fixture, &context).await?,
        "test_tool_with_progress" => progress(&context).await?,
        "test_reconnection" => reconnection(&context).await,
        "test_sampling" => sample(&arguments, &context).await?,
        "test_elicitation" => elicit(text_argument(&arguments, "message")?, contact_form(), &context).await?,
        "test_elicitation_sep1034_defaults" => elicit("Please check your profile", default_form(), &context).await?,
        "test_elicitation_sep1330_enums" => elicit("Please choose", choice_form(), &context).await?,
        "test_streaming_elicitation" => elicit("What is your name?", contact_form(), &context).await?,
        "test_missing_capability" => {
            require_sampling(&context)?;
            vec![ContentBlock::text("The client can sample.")]
        }
        "test_trigger_tool_change" => {
            fixture.shared.change(Change::Tools);
            vec![ContentBlock::text("The list of tools has changed.")]
        }
        "test_trigger_prompt_change" => {
            fixture.shared.change(Change::Prompts);
            vec![ContentBlock::text("The list of prompts has changed.")]
        }
        "test_header_argument" => vec![ContentBlock::text(text_argument(&arguments, "region")?)],
        "json_schema_2020_12_tool" => vec![ContentBlock::text(Value::Object(arguments).to_string())],
        "test_extra_tool" => vec![ContentBlock::text("Here for now.")],
        unknown => return Err(ErrorData::invalid_params(format!("there is no tool `{unknown}`"), None)),
    };
    Ok(CallToolResult::success(content).into())
}

async fn log(fixture: &Fixture, context: &RequestContext<RoleServer>) -> Result<Vec<ContentBlock>, ErrorData> {
    let wanted = fixture.log_level(context).is_some_and(|least| severity(LoggingLevel::Info) >= severity(least));
    for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text));
            context.peer.notify_logging_message(message).await.map_err(internal)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(vec![ContentBlock::text("Logged three messages.")])
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<Vec<ContentBlock>, ErrorData> {
    let token = context.meta.get_progress_token();
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = token.clone() {
            let step = ProgressNotificationParam::new(token, done).with_total(100.0);
            context.peer.notify_progress(step).await.map_err(internal)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(vec![ContentBlock::text("Reported progress three times.")])
}

async fn reconnection(context: &RequestContext<RoleServer>) -> Vec<ContentBlock> {
    // Without sessions, a client could not resume the stream to get the answer.
    if !is_modern(context) {
        let parts = context.extensions.get::<http::request::Parts>();
        if let Some(closer) = parts.and_then(|parts| parts.extensions.get::<StreamCloser>()) {
            // The client must receive the first event, which has the ID to resume from.
            tokio::time::sleep(STEP).await;
            closer.0.cancel();
            tokio::time::sleep(STEP).await;
        }
    }
    vec![ContentBlock::text("Reconnection test completed.")]
}

async fn sample(arguments: &JsonObject, context: &RequestContext<RoleServer>) -> Result<Vec<ContentBlock>, ErrorData> {
    require_sampling(context)?;
    let prompt = text_argument(arguments, "prompt")?;
    let request = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    let answer = context.peer.create_message(request).await.map_err(internal)?;
    let answer = serde_json::to_value(answer).unwrap_or_default();
    let text = answer.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
    Ok(vec![ContentBlock::text(format!("LLM response: {text}"))])
}

async fn elicit(
    message: &str,
    schema: Value,
    context: &RequestContext<RoleServer>,
) -> Result<Vec<ContentBlock>, ErrorData> {
    let requested_schema =
        serde_json::from_value(schema).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let request =
        ElicitRequestParams::FormElicitationParams { meta: None, message: message.to_owned(), requested_schema };
    let answer = context.peer.create_elicitation(request).await.map_err(internal)?;
    let action = serde_json::to_value(&answer.action).unwrap_or_default();
    let content = answer.content.unwrap_or_default();
    let action = action.as_str().unwrap_or_default();
    Ok(vec![ContentBlock::text(format!("Elicitation completed: action={action}, content={content}"))])
}

fn require_sampling(context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    if context.client_capabilities().is_some_and(|capabilities| capabilities.sampling.is_some()) {
        return Ok(());
    }
    let required = ClientCapabilities::builder().enable_sampling().build();
    Err(ErrorData::missing_required_client_capability(required))
}

fn text_argument<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, ErrorData> {
    let text = arguments.get(name).and_then(Value::as_str);
    text.ok_or_else(|| ErrorData::invalid_params(format!("`{name}` must be a text"), None))
}

fn embedded(uri: &str, mime_type: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(mime_type))
}

fn internal(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

fn contact_form() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    })
}

fn default_form() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
        },
    })
}

fn choice_form() -> Value {
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": ["option1", "option2", "option3"] } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        },
    })
}
