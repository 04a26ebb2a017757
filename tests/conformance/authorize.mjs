// Loaded into the suite's process: it knows no tokens, and the gateway takes no agent without one.
import diagnostics from 'node:diagnostics_channel';

const value = `Bearer ${process.env.MCPPROXY_TOKEN}`;
// The suite sends most requests with `fetch` or undici, and those with odd headers with `node:http`.
diagnostics.subscribe('undici:request:create', ({ request }) => request.addHeader('authorization', value));
diagnostics.subscribe('http.client.request.created', ({ request }) => request.setHeader('authorization', value));
