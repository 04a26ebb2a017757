//! The fixture prompts, resources and completions.

use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceResponse, ReadResourceResult, Reference,
    Resource, ResourceContents, ResourceTemplate, Role,
};
use serde_json::{Value, json};

use crate::rounds::{Answers, ask, text_question};

/// One red pixel.
pub(crate) const PIXEL_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
/// A WAV header that announces no samples.
pub(crate) const SILENCE_WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const TEXT_URI: &str = "test://static-text";
const BINARY_URI: &str = "test://static-binary";
const WATCHED_URI: &str = "test://watched-resource";

/// Returns all prompts. `extra` adds the prompt that appears and disappears.
pub(crate) fn prompts(extra: bool) -> Vec<Prompt> {
    let argument =
        |name: &str, description: &str| PromptArgument::new(name).with_description(description).with_required(true);
    let prompt = |name: &str, description: &str, arguments: Vec<PromptArgument>| {
        Prompt::new(name, Some(description), (!arguments.is_empty()).then_some(arguments))
    };
    let two = vec![argument("arg1", "First test argument"), argument("arg2", "Second test argument")];
    let mut prompts = vec![
        prompt("test_simple_prompt", "A prompt without arguments.", Vec::new()),
        prompt("test_prompt_with_arguments", "A prompt that repeats its arguments.", two),
        prompt(
            "test_prompt_with_embedded_resource",
            "A prompt with a resource in it.",
            vec![argument("resourceUri", "URI of the resource to embed")],
        ),
        prompt("test_prompt_with_image", "A prompt with an image in it.", Vec::new()),
        prompt("test_input_required_result_prompt", "A prompt that needs context from the user.", Vec::new()),
    ];
    if extra {
        prompts.push(prompt("test_extra_prompt", "Is listed only after an odd number of changes.", Vec::new()));
    }
    prompts
}

/// Returns a prompt with its arguments filled in, or a request for the missing input.
pub(crate) fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name)).and_then(Value::as_str);
        value.ok_or_else(|| ErrorData::invalid_params(format!("`{name}` is missing"), None))
    };
    let text = |text: String| PromptMessage::new_text(Role::User, text);
    let messages = match request.name.as_str() {
        "test_simple_prompt" | "test_extra_prompt" => vec![text("This is a simple prompt for testing.".to_owned())],
        "test_prompt_with_arguments" => {
            vec![text(format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1")?, argument("arg2")?))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = ResourceContents::text("Embedded resource content for testing.", argument("resourceUri")?);
            vec![
                PromptMessage::new(Role::User, ContentBlock::resource(resource.with_mime_type("text/plain"))),
                text("Please process the embedded resource above.".to_owned()),
            ]
        }
        "test_prompt_with_image" => vec![
            PromptMessage::new(Role::User, ContentBlock::image(PIXEL_PNG, "image/png")),
            text("Please analyze the image above.".to_owned()),
        ],
        "test_input_required_result_prompt" => {
            let answers = Answers(request.input_responses.as_ref());
            let Some(context) = answers.accepted("user_context", "context").and_then(Value::as_str) else {
                let question = text_question("What context should the prompt use?", "context");
                return Ok(ask([("user_context", question)], None)?.into());
            };
            vec![text(format!("Use this context: {context}"))]
        }
        unknown => return Err(ErrorData::invalid_params(format!("there is no prompt `{unknown}`"), None)),
    };
    Ok(GetPromptResult::new(messages).into())
}

pub(crate) fn resources() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, description: &str, mime_type: &str| {
        Resource::new(uri, name).with_description(description).with_mime_type(mime_type)
    };
    vec![
        resource(TEXT_URI, "Static text", "A text that never changes.", "text/plain"),
        resource(BINARY_URI, "Static binary", "An image that never changes.", "image/png"),
        resource(WATCHED_URI, "Watched resource", "A text to subscribe to.", "text/plain"),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("test://template/{id}/data", "Template")
            .with_description("Data for any id.")
            .with_mime_type("application/json"),
    ]
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let contents = match uri {
        TEXT_URI => text(uri, "This is the content of the static text resource.", "text/plain"),
        BINARY_URI => ResourceContents::blob(PIXEL_PNG, uri).with_mime_type("image/png"),
        WATCHED_URI => text(uri, "Nothing has happened yet.", "text/plain"),
        _ => {
            let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
            let Some(id) = id.filter(|id| !id.is_empty() && !id.contains('/')) else {
                return Err(ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri }))));
            };
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            text(uri, &data.to_string(), "application/json")
        }
    };
    Ok(ReadResourceResult::new(vec![contents]).into())
}

pub(crate) fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let known: &[&str] = match (&request.r#ref, request.argument.name.as_str()) {
        (Reference::Prompt(prompt), "arg1" | "arg2") if prompt.name == "test_prompt_with_arguments" => {
            &["paris", "park", "party", "test"]
        }
        (Reference::Resource(_), "id") => &["123", "456"],
        _ => &[],
    };
    let begins = |value: &&&str| value.starts_with(&request.argument.value);
    let values = known.iter().filter(begins).map(|value| (*value).to_owned()).collect();
    let completion = CompletionInfo::with_all_values(values).map_err(|error| ErrorData::internal_error(error, None))?;
    Ok(CompleteResult::new(completion))
}

fn text(uri: &str, text: &str, mime_type: &str) -> ResourceContents {
    ResourceContents::text(text, uri).with_mime_type(mime_type)
}
