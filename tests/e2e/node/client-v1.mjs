// Runs a list of requests with the TypeScript SDK 1.x, which speaks the revisions with `initialize` only.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import { run } from './transcript.mjs';

await run(async (plan, heard) => {
  const capabilities = {};
  if (plan.answers?.elicitation) capabilities.elicitation = plan.elicitation;
  if (plan.answers?.sampling) capabilities.sampling = {};
  if (plan.answers?.roots) capabilities.roots = {};
  const client = new Client({ name: 'ts-client-1', version: '1' }, { capabilities });
  if (capabilities.elicitation) client.setRequestHandler(ElicitRequestSchema, heard.elicitation);
  if (capabilities.sampling) client.setRequestHandler(CreateMessageRequestSchema, heard.sampling);
  if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, heard.roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, heard.log);
  const transport = new StreamableHTTPClientTransport(new URL(plan.url), {
    requestInit: { headers: { Authorization: `Bearer ${plan.token}` } }
  });
  await client.connect(transport);
  const request = (method, params, options) => {
    switch (method) {
      case 'tools/list': return client.listTools(params, options);
      case 'tools/call': return client.callTool(params, undefined, options);
      case 'resources/list': return client.listResources(params, options);
      case 'resources/read': return client.readResource(params, options);
      case 'prompts/list': return client.listPrompts(params, options);
      case 'prompts/get': return client.getPrompt(params, options);
      case 'logging/setLevel': return client.setLoggingLevel(params.level, options);
      default: throw new Error(`this driver does not know ${method}`);
    }
  };
  return { client, protocol: transport.protocolVersion, request };
});
