// An identity provider on loopback: OpenID Connect and OAuth 2.1 with the package `oidc-provider`.
//
//   node identity-provider.mjs '{"clients": [...], "login": "click"}'
//
// It prints one line of JSON when it listens, `{"issuer": "http://127.0.0.1:PORT"}`, and ends when its standard input
// ends. `tests/e2e/identity_provider.py` starts it from Python. All members of the argument are optional:
//
// | member | default | meaning |
// |---|---|---|
// | `port` | 0 | the port; 0 lets the kernel choose |
// | `host` | "127.0.0.1" | the host name in the issuer |
// | `path` | "" | a path in the issuer, such as "/tenant" |
// | `clients` | [] | static clients, as `oidc-provider` takes them (`client_id`, `client_secret`, `redirect_uris`, …) |
// | `registration` | true | dynamic client registration (RFC 7591) |
// | `client_id_documents` | false | client IDs that are URLs of metadata documents |
// | `device` | true | device authorization (RFC 8628) |
// | `resources` | any | `{"URL": {"scope": "notes:read notes:write", "ttl": 60, "jwt": true}}`: resource servers (RFC 8707). Without this member, every resource is known and accepts every scope of `scopes`. |
// | `scopes` | see below | scopes of resources that are not listed one by one |
// | `users` | ada, bob | `{"ada": {"email": "ada@example.com", "groups": ["staff"]}}`: claims of the ID token and userinfo |
// | `user` | first of `users` | the user whom "auto" signs in |
// | `token_claims` | {} | `{"ada": {"groups": ["staff"]}}`: additional claims of a user's JWT access tokens |
// | `login` | "auto" | "auto": no click; "click": a page with one button per user, and "Cancel"; "deny": access is denied |
// | `ttl` | see below | seconds: `access`, `refresh`, `code`, `id`, `device` |
// | `refresh` | true | issue refresh tokens |
// | `rotate` | true | rotate refresh tokens; a reused one revokes the whole grant |
// | `keys` | none | a file with the signing keys. It is read if it exists, else written. Restart with another one to rotate keys. |
// | `metadata` | {} | members that replace those of the metadata documents; null removes a member |
// | `id_token` | {} | claims that replace those of ID tokens, such as `nonce`, `iss`, `auth_time` or `acr`; null removes a claim |
// | `iss` | true | RFC 9207 `iss` in authorization responses: true, false (none), or another issuer to claim |
//
// The test controls it while it runs, at `/test/…` of the same port:
//
// | request | effect |
// |---|---|
// | `GET /test/requests` | what clients requested: `[{"route", "method", "status", "params"}]`; `params` has no secrets |
// | `POST /test/set {…}` | changes `login`, `user`, `iss`, `id_token`, `metadata`, `ttl`, `users`, `token_claims`, and `down` |
// | `POST /test/set {"down": true}` | answers 503 to everything but `/test/`; `"drop"` closes connections; `"lose"` handles token requests and loses the answers; a number is a delay in ms |
// | `GET /test/secrets` | every token and code that it issued, to look for leaks |
// | `POST /test/forget` | forgets all refresh tokens, as if they were revoked |
// | `POST /test/device {"user_code", "user"}` | signs the user in at a device, as the verification page does |
// | `POST /test/sign {"claims", "header"}` | signs any claims as a JWT with the provider's key: `{"jwt"}` |
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, importJWK, SignJWT } from 'jose';
import Provider from 'oidc-provider';

const config = {
  port: 0, host: '127.0.0.1', path: '', clients: [], registration: true, client_id_documents: false, device: true,
  scopes: ['notes:read', 'notes:write', 'admin', 'mcp'],
  users: {
    ada: { email: 'ada@example.com', email_verified: true, name: 'Ada', groups: ['staff', 'mcp-admins'] },
    bob: { email: 'bob@example.com', email_verified: true, name: 'Bob', groups: ['staff'] }
  },
  token_claims: {}, login: 'auto', refresh: true, rotate: true, metadata: {}, id_token: {}, iss: true, down: false,
  ...JSON.parse(process.argv[2] ?? '{}')
};
config.ttl = { access: 3600, refresh: 86_400, code: 60, id: 3600, device: 600, ...config.ttl };
const userNow = () => config.user ?? Object.keys(config.users)[0];

const jwks = await signingKeys();
const server = createServer();
await new Promise(ready => server.listen(config.port, '127.0.0.1', ready));
const issuer = `http://${config.host}:${server.address().port}${config.path}`;
const requests = [];
const refreshTokens = new Set();
const secrets = [];

const provider = new Provider(issuer, {
  jwks,
  clients: config.clients,
  clientBasedCORS: () => false,
  claims: {
    openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'preferred_username'], groups: ['groups']
  },
  conformIdTokenClaims: false,
  // A client that registers names its scopes, and the provider must know them.
  scopes: [...new Set(['openid', 'offline_access', 'email', 'profile', 'groups', ...config.scopes])],
  cookies: { keys: ['one key for the tests'] },
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    deviceFlow: { enabled: config.device },
    registration: { enabled: config.registration },
    registrationManagement: { enabled: config.registration },
    ...(config.client_id_documents ? { clientIdMetadataDocument: { enabled: true, ack: 'draft-02' } } : {}),
    resourceIndicators: {
      enabled: true,
      defaultResource: (_ctx, _client, one) => (Array.isArray(one) ? one[0] : one),
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => resourceServer(resource)
    }
  },
  findAccount: (_ctx, sub) => account(sub),
  extraTokenClaims: (_ctx, token) => config.token_claims[token.accountId],
  issueRefreshToken: (_ctx, client) => config.refresh && client.grantTypeAllowed('refresh_token'),
  expiresWithSession: () => false,
  rotateRefreshToken: () => config.rotate,
  interactions: { url: (_ctx, interaction) => `${config.path}/interaction/${interaction.uid}` },
  renderError: (ctx, out) => { ctx.type = 'json'; ctx.body = out; },
  ttl: {
    AccessToken: (_ctx, token) => token.resourceServer?.accessTokenTTL ?? config.ttl.access,
    ClientCredentials: (_ctx, token) => token.resourceServer?.accessTokenTTL ?? config.ttl.access,
    RefreshToken: () => config.ttl.refresh,
    AuthorizationCode: () => config.ttl.code,
    IdToken: () => config.ttl.id,
    DeviceCode: () => config.ttl.device,
    Interaction: 600, Session: 86_400, Grant: 86_400
  }
});
provider.on('refresh_token.saved', token => refreshTokens.add(token));
provider.on('server_error', (_ctx, error) => console.error(error));
provider.use(async (ctx, next) => {
  await next();
  note(ctx);
  disguise(ctx);
  await forge(ctx);
});

const answer = provider.callback();
server.on('request', async (request, response) => {
  const path = new URL(request.url, issuer).pathname;
  if (path.startsWith('/test/')) return control(path, request, response);
  if (config.down === 'drop') return request.socket.destroy();
  if (typeof config.down === 'number') await new Promise(done => setTimeout(done, config.down));
  if (config.down === 'lose' && path.endsWith('/token')) response.end = () => request.socket.destroy();
  if (config.down === true) return response.writeHead(503).end('down for the test');
  request.url = wellKnown(request.url);
  if (config.path && request.url.startsWith(config.path)) request.url = request.url.slice(config.path.length) || '/';
  if (request.url.startsWith('/interaction/')) return interact(request, response).catch(error => {
    console.error(error);
    response.writeHead(500).end(String(error));
  });
  return answer(request, response);
});
process.stdin.resume().on('end', () => process.exit(0));
console.log(JSON.stringify({ issuer }));

// RFC 8414 inserts the well-known path before the issuer's path; OpenID Connect appends it.
function wellKnown(url) {
  return config.path ? url.replace(/^(\/\.well-known\/[a-z-]+)\/.*$/, '$1') : url;
}

async function signingKeys() {
  if (config.keys && existsSync(config.keys)) return JSON.parse(readFileSync(config.keys, 'utf8'));
  const keys = [];
  for (const alg of ['RS256', 'ES256']) {
    const { privateKey } = await generateKeyPair(alg, { extractable: true });
    keys.push({ ...await exportJWK(privateKey), alg, use: 'sig', kid: `${alg}-${crypto.randomUUID()}` });
  }
  if (config.keys) writeFileSync(config.keys, JSON.stringify({ keys }));
  return { keys };
}

function resourceServer(resource) {
  const listed = config.resources?.[resource];
  if (config.resources && !listed) throw new Error(`unknown resource ${resource}`);
  const { scope = config.scopes.join(' '), ttl, jwt = true } = listed ?? {};
  return {
    scope, audience: resource, accessTokenTTL: ttl ?? config.ttl.access,
    accessTokenFormat: jwt ? 'jwt' : 'opaque', ...(jwt ? { jwt: { sign: { alg: 'RS256' } } } : {})
  };
}

function account(sub) {
  const claims = config.users[sub];
  return claims && { accountId: sub, claims: () => ({ sub, preferred_username: sub, ...claims }) };
}

// Signs a user in and consents to everything that is requested, at once or after one click.
async function interact(request, response) {
  const details = await provider.interactionDetails(request, response);
  const form = request.method === 'POST' ? new URLSearchParams(await body(request)) : null;
  const choice = form?.get('user') ?? (config.login === 'auto' ? userNow() : config.login === 'deny' ? '' : null);
  if (choice === null) return response.writeHead(200, { 'content-type': 'text/html' }).end(signInPage(details));
  const result = choice === ''
    ? { error: 'access_denied', error_description: 'the user cancelled the sign-in' }
    : { login: { accountId: choice }, consent: { grantId: await grantFor(choice, details) } };
  return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

function signInPage({ params, uid }) {
  const safe = text => String(text).replace(/[&<>"]/g, one => `&#${one.charCodeAt(0)};`);
  const buttons = Object.keys(config.users).map(user =>
    `<button name="user" value="${safe(user)}">Sign in as ${safe(user)}</button>`);
  return `<!doctype html><html lang="en"><title>Test provider</title><h1>Test provider</h1>
<p>${safe(params.client_id)} asks for: ${safe(params.scope ?? '')}</p>
<form method="post" action="${config.path}/interaction/${uid}">${buttons.join(' ')} <button name="user" value="">Cancel</button></form>`;
}

async function grantFor(accountId, { params, grantId }) {
  const known = grantId && await provider.Grant.find(grantId);
  // Another user may have signed in before, in the same browser.
  const grant = known?.accountId === accountId ? known : new provider.Grant({ accountId, clientId: params.client_id });
  allow(grant, params.scope, params.resource);
  return grant.save();
}

function allow(grant, scope, resource) {
  if (!scope) return;
  grant.addOIDCScope(scope);
  for (const one of [resource ?? []].flat()) grant.addResourceScope(one, scope);
}

function note(ctx) {
  const params = { ...ctx.oidc?.params?.toPlainObject?.() };
  for (const secret of ['client_secret', 'code', 'refresh_token', 'token', 'code_verifier', 'device_code', 'client_assertion']) {
    if (params[secret]) params[secret] = '…';
  }
  for (const name of ['access_token', 'refresh_token', 'device_code', 'client_secret']) {
    if (ctx.body?.[name]) secrets.push(ctx.body[name]);
  }
  requests.push({ route: ctx.oidc?.route ?? ctx.path, method: ctx.method, status: ctx.status, params });
}

// Plays a provider that lies about itself: in its metadata, or about the issuer of a response.
function disguise(ctx) {
  if (ctx.path.startsWith('/.well-known/') && ctx.body?.issuer) {
    const changed = { ...ctx.body, ...config.metadata };
    ctx.body = Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== null));
  }
  const location = ctx.response.get('location');
  if (config.iss !== true && /[?&]iss=/.test(location)) {
    const url = new URL(location);
    if (config.iss === false) url.searchParams.delete('iss');
    else url.searchParams.set('iss', config.iss);
    ctx.set('location', url.href);
  }
}

// Signs the ID token of an answer again, with other claims.
async function forge(ctx) {
  if (!ctx.body?.id_token || Object.keys(config.id_token).length === 0) return;
  const [head, payload] = ctx.body.id_token.split('.').slice(0, 2).map(part => JSON.parse(Buffer.from(part, 'base64url')));
  const claims = Object.entries({ ...payload, ...config.id_token }).filter(([, value]) => value !== null);
  const key = jwks.keys.find(one => one.kid === head.kid);
  const id_token = await new SignJWT(Object.fromEntries(claims)).setProtectedHeader(head).sign(await importJWK(key, key.alg));
  ctx.body = { ...ctx.body, id_token };
}

async function control(path, request, response) {
  const input = request.method === 'POST' ? JSON.parse(await body(request) || '{}') : {};
  try {
    const result = await controls[path.slice('/test/'.length)](input);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result ?? {}));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
}

const controls = {
  requests: () => requests,
  secrets: () => secrets,
  set({ ttl, ...changes }) {
    Object.assign(config, changes);
    Object.assign(config.ttl, ttl);
  },
  async forget() {
    for (const token of refreshTokens) await token.destroy();
    refreshTokens.clear();
  },
  async device({ user_code, user = userNow() }) {
    const normal = user_code.toUpperCase().replace(/\W/g, '');
    const code = await provider.DeviceCode.findByUserCode(normal, { ignoreExpiration: true });
    const grant = new provider.Grant({ accountId: user, clientId: code.clientId });
    allow(grant, code.params.scope, code.params.resource);
    Object.assign(code, {
      accountId: user, grantId: await grant.save(), scope: code.params.scope, resource: code.params.resource,
      authTime: Math.floor(Date.now() / 1000), claims: {}
    });
    await code.save();
  },
  async sign({ claims, header = {} }) {
    const key = jwks.keys.find(one => one.alg === (header.alg ?? 'RS256'));
    const jwt = await new SignJWT(claims).setProtectedHeader({ alg: key.alg, kid: key.kid, ...header }).sign(await importJWK(key, key.alg));
    return { jwt };
  }
};

async function body(request) {
  let text = '';
  for await (const piece of request) text += piece;
  return text;
}
