// Runs a list of requests with the TypeScript SDK 2.x, in the era asked for, and prints what came back.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { run } from './transcript.mjs';

await run(async (plan, heard) => {
  const capabilities = {};
  if (plan.answers?.elicitation) capabilities.elicitation = plan.elicitation;
  if (plan.answers?.sampling) capabilities.sampling = {};
  if (plan.answers?.roots) capabilities.roots = {};
  const client = new Client(
    { name: 'ts-client-2', version: '1' },
    { capabilities, versionNegotiation: { mode: plan.era === 'legacy' ? 'legacy' : { pin: plan.era } } }
  );
  if (capabilities.elicitation) client.setRequestHandler('elicitation/create', heard.elicitation);
  if (capabilities.sampling) client.setRequestHandler('sampling/createMessage', heard.sampling);
  if (capabilities.roots) client.setRequestHandler('roots/list', heard.roots);
  client.setNotificationHandler('notifications/message', heard.log);
  await client.connect(
    new StreamableHTTPClientTransport(new URL(plan.url), {
      requestInit: { headers: { Authorization: `Bearer ${plan.token}` } }
    })
  );
  const request = (method, params, options) => {
    switch (method) {
      case 'tools/list': return client.listTools(params, options);
      case 'tools/call': return client.callTool(params, options);
      case 'resources/list': return client.listResources(params, options);
      case 'resources/read': return client.readResource(params, options);
      case 'prompts/list': return client.listPrompts(params, options);
      case 'prompts/get': return client.getPrompt(params, options);
      case 'logging/setLevel': return client.setLoggingLevel(params.level, options);
      default: throw new Error(`this driver does not know ${method}`);
    }
  };
  return { client, protocol: client.getNegotiatedProtocolVersion(), request };
});
