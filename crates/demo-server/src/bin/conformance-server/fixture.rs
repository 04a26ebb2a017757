//! The MCP handler: answers every method, and tells listeners when a list has changed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, RequestStateCodec, RequestStateError, ServerCapabilities, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::broadcast;

use crate::{calls, content, tools};

const CHANGES_KEPT: usize = 64;

/// A list that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
}

/// State that all sessions and requests share.
pub(crate) struct Shared {
    pub(crate) state: RequestStateCodec,
    changes: broadcast::Sender<Change>,
    extra_tool: AtomicBool,
    extra_prompt: AtomicBool,
}

impl Shared {
    pub(crate) fn new() -> Result<Arc<Self>, RequestStateError> {
        Ok(Arc::new(Self {
            state: RequestStateCodec::try_new(rand::random::<[u8; 32]>())?,
            changes: broadcast::channel(CHANGES_KEPT).0,
            extra_tool: AtomicBool::new(false),
            extra_prompt: AtomicBool::new(false),
        }))
    }

    /// Changes the list, then notifies all listeners.
    pub(crate) fn change(&self, change: Change) {
        let flag = match change {
            Change::Tools => &self.extra_tool,
            Change::Prompts => &self.extra_prompt,
        };
        flag.fetch_xor(true, Ordering::SeqCst);
        // Sending fails if there are no listeners, which is fine.
        let _ = self.changes.send(change);
    }
}

/// One session, or one request of a protocol without sessions.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) shared: Arc<Shared>,
    log_level: Arc<Mutex<LoggingLevel>>,
    subscribed: Arc<Mutex<BTreeSet<String>>>,
}

impl Fixture {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), log_level: Arc::new(Mutex::new(LoggingLevel::Info)), subscribed: Arc::default() }
    }

    /// Returns the minimum log level for the client, from the session or from the request itself.
    pub(crate) fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        if is_modern(context) {
            return context.meta.log_level();
        }
        Some(*self.log_level.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tools(&self) -> Vec<Tool> {
        tools::all(self.shared.extra_tool.load(Ordering::SeqCst))
    }
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("conformance-server", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        calls::call(self, call, context).await
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let extra = self.shared.extra_prompt.load(Ordering::SeqCst);
        Ok(ListPromptsResult::with_all_items(content::prompts(extra)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        content::prompt(&request)
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(content::resources()))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(content::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        content::read(&request.uri)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        content::complete(&request)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = request.level;
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.uri);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.shared.changes.subscribe();
        tokio::spawn(async move {
            // A session that fell behind has missed changes, but still receives later ones.
            loop {
                let sent = match changes.recv().await {
                    Ok(Change::Tools) => context.peer.notify_tool_list_changed().await,
                    Ok(Change::Prompts) => context.peer.notify_prompt_list_changed().await,
                    Err(broadcast::error::RecvError::Lagged(_)) => continue,
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                if sent.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let wanted = context.accepted();
            let sent = match change {
                Ok(Change::Tools) if wanted.tools_list_changed == Some(true) => {
                    context.sink().notify_tool_list_changed().await
                }
                Ok(Change::Prompts) if wanted.prompts_list_changed == Some(true) => {
                    context.sink().notify_prompt_list_changed().await
                }
                Ok(Change::Tools | Change::Prompts) | Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            };
            if sent.is_err() {
                return Ok(());
            }
        }
    }
}

/// Returns `true` for protocol revision 2026-07-28, which has neither sessions nor requests from the server.
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    // Revisions are dates, so they compare as text.
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}
