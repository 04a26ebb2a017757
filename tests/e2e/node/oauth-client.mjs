// Connects with the OAuth client of the TypeScript SDK: it finds the identity provider by itself, registers, signs the
// user in without a click, and then runs a list of requests. Prints what came back as one JSON object.
//
//   {"library": "v1" | "v2", "url": "http://…/mcp", "era": "legacy" | "2026-07-28", "calls": [{"name", "arguments"}]}
import { text } from 'node:stream/consumers';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';

const REDIRECT = 'http://127.0.0.1:33418/callback';
const plan = JSON.parse(await text(process.stdin));

class Memory {
  redirectUrl = REDIRECT;
  clientMetadata = {
    client_name: 'ts-client', redirect_uris: [REDIRECT], token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code']
  };
  state() { return 'state-of-the-test'; }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  async redirectToAuthorization(url) { this.answer = await signIn(url); }
}

// Follows the redirects of the provider, as a browser would, up to the client's own address.
async function signIn(url) {
  const cookies = new Map();
  for (let next = new URL(url); ;) {
    if (next.href.startsWith(REDIRECT)) return next.searchParams;
    const header = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(next, { redirect: 'manual', headers: { cookie: header } });
    for (const cookie of response.headers.getSetCookie()) {
      const [name, value] = cookie.split(';')[0].split('=');
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (!location) throw new Error(`the provider answered ${response.status}: ${await response.text()}`);
    next = new URL(location, next);
  }
}

const provider = new Memory();
const connect = async () => {
  const { Client, Transport, options } = plan.library === 'v1'
    ? { Client: ClientV1, Transport: TransportV1, options: {} }
    : {
        Client: ClientV2, Transport: TransportV2,
        options: { versionNegotiation: { mode: plan.era === 'legacy' ? 'legacy' : { pin: plan.era } } }
      };
  const transport = new Transport(new URL(plan.url), { authProvider: provider });
  const client = new Client({ name: `ts-oauth-${plan.library}`, version: '1' }, options);
  return { client, transport };
};

const first = await connect();
try {
  await first.client.connect(first.transport);
  throw new Error('the gateway let a client in without a token');
} catch (error) {
  if (error.constructor.name !== 'UnauthorizedError') throw error;
}
await (plan.library === 'v1'
  ? first.transport.finishAuth(provider.answer.get('code'))
  : first.transport.finishAuth(provider.answer));
const { client, transport } = await connect();
await client.connect(transport);
const results = [];
for (const call of plan.calls) results.push(await client.callTool(call));
await client.close();
process.stdout.write(JSON.stringify({ results, token: provider.saved.access_token }), () => process.exit(0));
