//! The MCP side of the demo server: tools, one prompt and two resources over shared data.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, Role, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::tools::data::Data;
use crate::tools::{self, DemoTool};

const OVERVIEW_URI: &str = "demo://workspace/overview";
const SENT_URI: &str = "demo://mail/sent";
const REPORT_PROMPT: &str = "weekly_report";

/// An MCP handler over one data set, which clones share.
#[derive(Clone)]
pub struct Demo {
    data: Arc<Mutex<Data>>,
    tools: Arc<Vec<DemoTool>>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Demo {
    /// Creates a server with the sample data.
    pub fn new() -> Self {
        Self::with_clock(Timestamp::now)
    }

    /// Creates a server with the sample data and a clock.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { data: Arc::new(Mutex::new(Data::sample())), tools: Arc::new(tools::all()), clock: Arc::new(clock) }
    }

    /// Removes the contracts, as most servers have none.
    #[must_use]
    pub fn without_contracts(mut self) -> Self {
        let mut tools = tools::all();
        for demo in &mut tools {
            demo.tool.meta = None;
        }
        self.tools = Arc::new(tools);
        self
    }

    /// Returns the list of tools, each as JSON.
    pub fn list(&self) -> Vec<String> {
        self.tools.iter().filter_map(|demo| serde_json::to_string(&demo.tool).ok()).collect()
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        // A tool completes every change before it can panic, so the data is consistent behind a poisoned lock.
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Option<&DemoTool> {
        self.tools.iter().find(|candidate| candidate.tool.name == name)
    }

    fn overview(&self) -> String {
        let data = self.data();
        let mut lines = vec![format!("{} users, {} contacts", data.users.len(), data.contacts.len())];
        for project in &data.projects {
            lines.push(format!("{} ({}): {} tasks", project.name, project.id, project.tasks.len()));
        }
        for campaign in &data.campaigns {
            lines.push(format!("{} to {}: {} sent", campaign.template_id, campaign.segment_id, campaign.sent));
        }
        for (kind, count) in &data.events {
            lines.push(format!("{kind}: {count}"));
        }
        lines.join("\n")
    }
}

impl Default for Demo {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("demo-server", env!("CARGO_PKG_VERSION")))
            .with_instructions("A small workspace with projects, contacts, reminders and mail. Nothing here is real.")
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(|demo| demo.tool.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.find(name).map(|demo| demo.tool.clone())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let demo = self
            .find(&call.name)
            .ok_or_else(|| ErrorData::invalid_params(format!("there is no tool `{}`", call.name), None))?;
        let outcome = (demo.run)(&mut self.data(), call.arguments.unwrap_or_default(), (self.clock)());
        Ok(CallToolResponse::from(outcome.map_or_else(refusal, CallToolResult::structured)))
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let project = PromptArgument::new("projectId").with_description("The project to report on").with_required(true);
        let prompt = Prompt::new(REPORT_PROMPT, Some("Writes a weekly report on one project."), Some(vec![project]));
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != REPORT_PROMPT {
            return Err(ErrorData::invalid_params(format!("there is no prompt `{}`", request.name), None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let id = arguments.get("projectId").and_then(Value::as_str);
        let id = id.ok_or_else(|| ErrorData::invalid_params("`projectId` is missing", None))?;
        let data = self.data();
        let project = data
            .find_project(id)
            .ok_or_else(|| ErrorData::invalid_params(format!("there is no project `{id}`"), None))?;
        let tasks: Vec<String> =
            project.tasks.iter().map(|task| format!("- {} ({:?})", task.title, task.status)).collect();
        let text = format!("Write a weekly report on \"{}\". Its tasks:\n{}", project.name, tasks.join("\n"));
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            Resource::new(OVERVIEW_URI, "Workspace overview")
                .with_description("Number of records and events of each kind.")
                .with_mime_type("text/plain"),
            Resource::new(SENT_URI, "Sent mail")
                .with_description("Every email that was sent, oldest first.")
                .with_mime_type("application/json"),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (text, mime_type) = match request.uri.as_str() {
            OVERVIEW_URI => (self.overview(), "text/plain"),
            SENT_URI => (json!({ "emails": &self.data().sent }).to_string(), "application/json"),
            unknown => {
                let message = format!("there is no resource `{unknown}`");
                return Err(ErrorData::resource_not_found(message, Some(json!({ "uri": unknown }))));
            }
        };
        let contents = ResourceContents::text(text, request.uri).with_mime_type(mime_type);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn refusal(failure: Failure) -> CallToolResult {
    let code = failure.code.as_str();
    let error = json!({ "error": { "code": code, "message": failure.message } });
    let mut result = CallToolResult::structured_error(error);
    result.content = vec![ContentBlock::text(format!("{code}: {}", failure.message))];
    result
}
