// An MCP server that asks for OAuth: TypeScript SDK 1.x, with tokens of `identity-provider.mjs`.
//
//   node oauth-server.mjs '{"issuer": "http://127.0.0.1:4000"}'
//
// It prints `{"url": "http://127.0.0.1:PORT/mcp"}` when it listens, and ends when its standard input ends. It serves
// protected resource metadata (RFC 9728) and accepts JWTs whose issuer, signature, audience and scopes are right.
//
// | member | default | meaning |
// |---|---|---|
// | `issuer` | required | the identity provider |
// | `port` | 0 | the port; 0 lets the kernel choose |
// | `scopes` | ["notes:read"] | scopes that a token needs; also listed in the metadata |
// | `write_scope` | none | a scope that `write_note` needs in addition. Without it, the server answers 403 `insufficient_scope`. |
// | `tools` | ["read_note", "write_note", "whoami"] | its tools |
// | `accept` | "valid" | "none": every token gets a 401 |
// | `challenge` | true | send `WWW-Authenticate`; false sends a 401 without it |
// | `metadata` | {} | members that replace those of the protected resource metadata |
// | `redirect` | none | the metadata answers with a redirect to this URL |
// | `sse` | false | use the deprecated HTTP+SSE transport |
// | `leak` | false | the tool `whoami` answers with the received `Authorization` header |
//
// `POST /test/set {…}` changes the members while it runs. `GET /test/requests` lists the requests that arrived.
import { randomUUID } from 'node:crypto';
import express from 'express';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';

const config = {
  port: 0, scopes: ['notes:read'], tools: ['read_note', 'write_note', 'whoami'], accept: 'valid', challenge: true,
  metadata: {}, leak: false, sse: false, ...JSON.parse(process.argv[2])
};
const keys = createRemoteJWKSet(new URL(`${config.issuer}/jwks`));
const sessions = new Map();
const requests = [];

const app = express();
const listening = app.listen(config.port, '127.0.0.1', () => console.log(JSON.stringify({ url: resource() })));
process.stdin.resume().on('end', () => process.exit(0));
const origin = () => `http://127.0.0.1:${listening.address().port}`;
const resource = () => `${origin()}/mcp`;
const metadataUrl = () => `${origin()}/.well-known/oauth-protected-resource/mcp`;

app.use(express.json({ limit: '4mb' }));
app.get('/test/requests', (_request, response) => response.json(requests));
app.post('/test/set', (request, response) => response.json(Object.assign(config, request.body)));
app.get('/.well-known/oauth-protected-resource/mcp', (_request, response) => {
  if (config.redirect) return response.redirect(302, config.redirect);
  return response.json({
    resource: resource(), authorization_servers: [config.issuer], scopes_supported: config.scopes,
    resource_name: 'Test notes', ...config.metadata
  });
});
app.use('/mcp', (request, response, next) => {
  response.on('finish', () => requests.push({
    verb: request.method, method: request.body?.method, status: response.statusCode,
    subject: request.auth?.extra?.sub ?? null, scopes: request.auth?.scopes ?? [],
    authorization: request.headers.authorization ? 'sent' : 'none'
  }));
  if (config.challenge) return next();
  return request.headers.authorization ? next() : response.status(401).end();
});
app.use('/mcp', (request, response, next) => requireBearerAuth({
  verifier: { verifyAccessToken }, requiredScopes: config.scopes, resourceMetadataUrl: metadataUrl()
})(request, response, next));
app.use('/mcp', (request, response, next) => {
  const writes = request.body?.method === 'tools/call' && request.body.params?.name === 'write_note';
  if (!writes || !config.write_scope || request.auth.scopes.includes(config.write_scope)) return next();
  return response.status(403).set('WWW-Authenticate',
    `Bearer error="insufficient_scope", scope="${[...config.scopes, config.write_scope].join(' ')}", resource_metadata="${metadataUrl()}"`
  ).json({ error: 'insufficient_scope' });
});
app.all('/mcp', async (request, response) => {
  if (config.sse) return overSse(request, response);
  const known = sessions.get(request.headers['mcp-session-id']);
  if (known) return known.handleRequest(request, response, request.body);
  if (!isInitializeRequest(request.body)) return response.status(404).json({ error: 'no such session' });
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID, onsessioninitialized: id => sessions.set(id, transport)
  });
  await notes().connect(transport);
  return transport.handleRequest(request, response, request.body);
});

async function verifyAccessToken(token) {
  if (config.accept === 'none') throw new InvalidTokenError('the test accepts no token');
  try {
    const { payload } = await jwtVerify(token, keys, { issuer: config.issuer, audience: resource() });
    return {
      token, clientId: payload.client_id, scopes: (payload.scope ?? '').split(' '), expiresAt: payload.exp,
      extra: { sub: payload.sub }
    };
  } catch (error) {
    throw new InvalidTokenError(error.message);
  }
}

function notes() {
  const server = new McpServer({ name: 'notes', version: '1' });
  const say = text => ({ content: [{ type: 'text', text }] });
  const readOnly = { annotations: { readOnlyHint: true } };
  const all = {
    read_note: [{ description: 'Reads the note', ...readOnly }, () => say('the note')],
    write_note: [{ description: 'Writes the note' }, () => say('written')],
    whoami: [{ description: 'Tells who is signed in', ...readOnly }, ({ authInfo, requestInfo }) =>
      say(config.leak ? JSON.stringify(requestInfo.headers) : `${authInfo.extra.sub}: ${authInfo.scopes.join(' ')}`)]
  };
  for (const name of config.tools) server.registerTool(name, ...all[name]);
  return server;
}

async function overSse(request, response) {
  if (request.method === 'POST') {
    const known = sessions.get(request.query.sessionId);
    return known ? known.handlePostMessage(request, response, request.body) : response.status(404).end();
  }
  const transport = new SSEServerTransport('/mcp', response);
  sessions.set(transport.sessionId, transport);
  return notes().connect(transport);
}
