//! Runs the fixture tools that need several rounds: they request input, and the client calls again with it.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequest, InputRequiredResult,
    InputResponses, RequestStateCodec, SealOptions,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::fixture::is_modern;

type Response = Result<CallToolResponse, ErrorData>;

/// Runs a tool of this module. Returns `None` for other tools.
pub(crate) fn call(
    state: &RequestStateCodec,
    call: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Response> {
    let answers = Answers(call.input_responses.as_ref());
    Some(match &*call.name {
        "test_input_required_result_elicitation" => elicitation(&answers),
        // With sessions, the server sends this as a request of its own.
        "test_streaming_elicitation" if is_modern(context) => elicitation(&answers),
        "test_input_required_result_sampling" => sampling(&answers),
        "test_input_required_result_list_roots" => list_roots(&answers),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            confirmed(state, call, &answers)
        }
        "test_input_required_result_multiple_inputs" => multiple(state, call, &answers),
        "test_input_required_result_multi_round" => multi_round(state, call, &answers),
        "test_input_required_result_capabilities" => capabilities(context, &answers),
        _ => return None,
    })
}

/// Builds an input request with one text field for the user.
pub(crate) fn text_question(message: &str, field: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": { field: { "type": "string" } },
                "required": [field],
            },
        },
    })
}

/// Builds the result that requests input from the client.
pub(crate) fn ask<const N: usize>(
    questions: [(&str, Value); N],
    state: Option<String>,
) -> Result<InputRequiredResult, ErrorData> {
    let questions = questions.into_iter().map(|(key, question)| {
        let request: InputRequest =
            serde_json::from_value(question).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok((key.to_owned(), request))
    });
    Ok(InputRequiredResult::new(Some(questions.collect::<Result<_, ErrorData>>()?), state))
}

/// The input that the client sent. Unknown keys are ignored, and malformed values count as missing.
pub(crate) struct Answers<'a>(pub(crate) Option<&'a InputResponses>);

impl Answers<'_> {
    fn find(&self, key: &str, pointer: &str) -> Option<&Value> {
        self.0?.get(key)?.pointer(pointer)
    }

    /// Returns one field of a form that the user accepted.
    pub(crate) fn accepted(&self, key: &str, field: &str) -> Option<&Value> {
        let action = self.find(key, "/action").and_then(Value::as_str);
        self.find(key, "/content")?.get(field).filter(|_field| action == Some("accept"))
    }

    fn sampled(&self, key: &str) -> Option<&str> {
        self.find(key, "/content/text")?.as_str()
    }

    fn roots(&self, key: &str) -> Option<usize> {
        Some(self.find(key, "/roots")?.as_array()?.len())
    }
}

fn elicitation(answers: &Answers<'_>) -> Response {
    match answers.accepted("user_name", "name").and_then(Value::as_str) {
        Some(name) => complete(format!("Hello, {name}!")),
        None => Ok(ask([("user_name", text_question("What is your name?", "name"))], None)?.into()),
    }
}

fn sampling(answers: &Answers<'_>) -> Response {
    match answers.sampled("capital_question") {
        Some(text) => complete(text.to_owned()),
        None => Ok(ask([("capital_question", model_question("What is the capital of France?"))], None)?.into()),
    }
}

fn list_roots(answers: &Answers<'_>) -> Response {
    match answers.roots("client_roots") {
        Some(count) => complete(format!("The client has {count} roots.")),
        None => Ok(ask([("client_roots", roots_question())], None)?.into()),
    }
}

fn confirmed(state: &RequestStateCodec, call: &CallToolRequestParams, answers: &Answers<'_>) -> Response {
    if let Some(sealed) = &call.request_state {
        open(state, call, sealed)?;
        if answers.accepted("confirm", "ok") == Some(&json!(true)) {
            return complete("state-ok".to_owned());
        }
    }
    let question = json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Please confirm",
            "requestedSchema": {
                "type": "object",
                "properties": { "ok": { "type": "boolean" } },
                "required": ["ok"],
            },
        },
    });
    Ok(ask([("confirm", question)], Some(seal(state, call, "confirm")))?.into())
}

fn multiple(state: &RequestStateCodec, call: &CallToolRequestParams, answers: &Answers<'_>) -> Response {
    if let Some(sealed) = &call.request_state {
        open(state, call, sealed)?;
        let name = answers.accepted("user_name", "name").and_then(Value::as_str);
        let greeting = answers.sampled("greeting");
        if let (Some(name), Some(greeting), Some(roots)) = (name, greeting, answers.roots("client_roots")) {
            return complete(format!("{greeting} {name}, {roots} roots"));
        }
    }
    let questions = [
        ("user_name", text_question("What is your name?", "name")),
        ("greeting", model_question("Generate a greeting")),
        ("client_roots", roots_question()),
    ];
    Ok(ask(questions, Some(seal(state, call, "all")))?.into())
}

fn multi_round(state: &RequestStateCodec, call: &CallToolRequestParams, answers: &Answers<'_>) -> Response {
    let reached = call.request_state.as_ref().map(|sealed| open(state, call, sealed)).transpose()?;
    let name = match reached.as_deref().and_then(|text| text.strip_prefix("named ")) {
        Some(name) => Some(name.to_owned()),
        None if reached.is_some() => answers.accepted("step1", "name").and_then(Value::as_str).map(str::to_owned),
        None => None,
    };
    let Some(name) = name else {
        let question = text_question("Step 1: What is your name?", "name");
        return Ok(ask([("step1", question)], Some(seal(state, call, "begun")))?.into());
    };
    match answers.accepted("step2", "color").and_then(Value::as_str) {
        Some(color) => complete(format!("{name} likes {color}.")),
        None => {
            let question = text_question("Step 2: What is your favorite color?", "color");
            Ok(ask([("step2", question)], Some(seal(state, call, &format!("named {name}"))))?.into())
        }
    }
}

fn capabilities(context: &RequestContext<RoleServer>, answers: &Answers<'_>) -> Response {
    if let Some(text) = answers.sampled("greeting") {
        return complete(text.to_owned());
    }
    if let Some(name) = answers.accepted("user_name", "name").and_then(Value::as_str) {
        return complete(format!("Hello, {name}!"));
    }
    let declared = context.client_capabilities().unwrap_or_default();
    if declared.sampling.is_some() {
        return Ok(ask([("greeting", model_question("Generate a greeting"))], None)?.into());
    }
    if declared.elicitation.is_some() {
        return Ok(ask([("user_name", text_question("What is your name?", "name"))], None)?.into());
    }
    complete("The client can provide nothing.".to_owned())
}

fn model_question(text: &str) -> Value {
    json!({
        "method": "sampling/createMessage",
        "params": { "messages": [{ "role": "user", "content": { "type": "text", "text": text } }], "maxTokens": 100 },
    })
}

fn roots_question() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

fn complete(text: String) -> Response {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

/// Binds state to its tool, so that other tools reject it.
fn seal(state: &RequestStateCodec, call: &CallToolRequestParams, text: &str) -> String {
    state.seal_with(text.as_bytes(), &SealOptions::new().associated_data(call.name.as_bytes()))
}

fn open(state: &RequestStateCodec, call: &CallToolRequestParams, sealed: &str) -> Result<String, ErrorData> {
    let refused = || ErrorData::invalid_params("`requestState` is not what this server sent", None);
    let bytes = state.open_with(sealed, call.name.as_bytes()).map_err(|_error| refused())?;
    String::from_utf8(bytes).map_err(|_error| refused())
}
