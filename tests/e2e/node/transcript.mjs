// Reads a plan from standard input, lets a client play it, and prints everything the client heard as one JSON object.
import { text } from 'node:stream/consumers';

export async function run(connect) {
  const plan = JSON.parse(await text(process.stdin));
  const transcript = { protocol: null, results: [], progress: [], logs: [], asked: [] };
  const answer = kind => async request => {
    transcript.asked.push({ kind, params: request.params });
    return plan.answers[kind];
  };
  const heard = {
    elicitation: answer('elicitation'),
    sampling: answer('sampling'),
    roots: answer('roots'),
    log: async notification => { transcript.logs.push(notification.params); }
  };
  const { client, protocol, request } = await connect(plan, heard);
  transcript.protocol = protocol;
  for (const step of plan.steps) {
    transcript.results.push(await play(step, request, transcript));
  }
  await client.close();
  process.stdout.write(JSON.stringify(transcript), () => process.exit(0));
}

async function play(step, request, transcript) {
  const stop = new AbortController();
  let seen = 0;
  const options = {
    signal: stop.signal,
    timeout: 60_000,
    onprogress: progress => {
      transcript.progress.push(progress);
      seen += 1;
      if (step.cancel_after === seen) stop.abort('the test cancels here');
    }
  };
  try {
    return await request(step.method, step.params ?? {}, options);
  } catch (error) {
    if (stop.signal.aborted) return { cancelled: true };
    return { error: { code: error.code ?? null, message: error.message } };
  }
}
