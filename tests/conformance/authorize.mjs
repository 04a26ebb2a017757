// Loaded into the suite's process: it knows no tokens, and the gateway takes no agent without one.
import diagnostics from 'node:diagnostics_channel';

diagnostics.subscribe('undici:request:create', ({ request }) => {
  request.addHeader('authorization', `Bearer ${process.env.MCPPROXY_TOKEN}`);
});
