import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { arrivingEvents, askBehind } from '../shared/vendorBehind.ts';
import { converseAnswer, converseFrames, messagesOf } from './converse.ts';
import { cachePointFault, converseFault } from './converseBody.ts';
import { chunkFrame, exceptionFrame } from './eventFrame.ts';
import { type AwsAccount, sigV4Fault } from './sigV4.ts';

interface BedrockModel {
  /** What the vendor behind it calls it, and the name that its answers have. */
  readonly sent: string;
  readonly answered: string;
  /** By Converse it takes cache points. */
  readonly cachePoints?: boolean;
}

export interface BedrockOptions {
  readonly region: string;
  /** The models of the region, by their ids. */
  readonly models: Readonly<Record<string, BedrockModel>>;
  /** The base URL of the mock vendor that answers. */
  readonly vendorUrl: string;
  readonly nowMs?: () => number;
}

/**
 * Bedrock's runtime in one region: `InvokeModel` for Claude and `Converse` for all, with and without a stream. It refuses what
 * Bedrock refuses.
 */
export interface Bedrock {
  /** The base URL for a connector, and the endpoint for AWS's SDK. */
  readonly url: string;
  /** The identities that it knows. */
  accounts: readonly AwsAccount[];
  /** The requests that it took, oldest first. */
  readonly invocations: readonly {
    readonly path: string;
    readonly body: Readonly<Record<string, unknown>>;
  }[];
  /** The errors that it answered with, oldest first. */
  readonly refusals: readonly string[];
  /** The identities may not use models. */
  isForbidden: boolean;
  /** What becomes of the next streams after their first event. */
  breaks: 'exception' | 'checksum' | 'truncated' | undefined;
  close(): Promise<void>;
}

/** https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html */
const BETAS = new Set([
  'compact-2026-01-12',
  'computer-use-2024-10-22',
  'computer-use-2025-01-24',
  'computer-use-2025-11-24',
  'context-1m-2025-08-07',
  'context-management-2025-06-27',
  'dangerous-tool-use-2026-09-03',
  'effort-2025-11-24',
  'fine-grained-tool-streaming-2025-05-14',
  'interleaved-thinking-2025-05-14',
  'mid-conversation-output-config-2026-07-01',
  'mid-conversation-tool-changes-2026-07-01',
  'output-128k-2025-02-19',
  'thinking-binding-controls-2026-08-01',
  'thinking-display-updates-2026-08-18',
  'token-efficient-tools-2025-02-19',
  'tool-examples-2025-10-29',
  'tool-search-tool-2025-10-19',
]);
const STATUS: Readonly<Record<string, number>> = {
  ValidationException: 400,
  ResourceNotFoundException: 404,
  ThrottlingException: 429,
};

export async function startBedrock(options: BedrockOptions): Promise<Bedrock> {
  const { region, models, vendorUrl, nowMs = Date.now } = options;
  const invocations: { path: string; body: Record<string, unknown> }[] = [];
  const refusals: string[] = [];

  function refuse(response: ServerResponse, code: string, message: string): void {
    refusals.push(code);
    response
      .writeHead(STATUS[code] ?? 403, {
        'content-type': 'application/json',
        'x-amzn-errortype': `${code}:http://internal.amazon.com/coral/com.amazon.bedrock/`,
      })
      .end(JSON.stringify({ message }));
  }

  /** What the vendor behind it refuses, in Bedrock's words. */
  async function refuseAs(response: ServerResponse, answer: Response): Promise<void> {
    const text = await answer.text();
    if (answer.status !== 429) return refuse(response, 'ValidationException', text);
    const { error } = JSON.parse(text) as { error: { message: string } };
    refuse(response, 'ThrottlingException', error.message);
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method = '', url = '', headers } = request;
    const call = { method, url, headers, body };
    const fault = sigV4Fault(call, bedrock.accounts, { service: 'bedrock', region, nowMs: nowMs() });
    if (fault) return refuse(response, fault.code, fault.message);
    if (bedrock.isForbidden) {
      // It names the account: nobody may show it.
      const who = 'arn:aws:sts::123456789012:assumed-role/models/weighbridge';
      const why = `User: ${who} is not authorized to perform: bedrock:InvokeModel`;
      return refuse(response, 'AccessDeniedException', why);
    }
    const list = method === 'GET' ? listOf(url, Object.keys(models)) : undefined;
    if (list) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(list));
      return;
    }
    const [, id = '', action] =
      /^\/model\/([^/?]+)\/(invoke|invoke-with-response-stream|converse|converse-stream)$/.exec(url) ?? [];
    if (method !== 'POST' || action === undefined)
      return refuse(response, 'UnknownOperationException', 'Unknown');
    const model = models[decodeURIComponent(id)];
    if (model === undefined)
      return refuse(response, 'ValidationException', 'The provided model identifier is invalid.');
    const parsed = JSON.parse(body.toString('utf8')) as Record<string, unknown>;
    if (action.startsWith('converse')) return await converse(response, parsed, { url, model, action });
    const why = bodyFault(parsed);
    if (why !== undefined) return refuse(response, 'ValidationException', why);
    invocations.push({ path: url, body: parsed });
    const { anthropic_version: _version, anthropic_beta: betas = [], ...fields } = parsed;
    const stream = action === 'invoke-with-response-stream';
    const answer = await askBehind(response, `${vendorUrl}/messages`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'anthropic-version': '2023-06-01',
        'anthropic-beta': (betas as string[]).join(','),
      },
      body: JSON.stringify({ ...fields, model: model.sent, stream }),
    });
    if (!answer.ok) return await refuseAs(response, answer);
    if (!stream) {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(renamed(await answer.text(), model));
      return;
    }
    response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
    await pipeFrames(answer, model, response, bedrock.breaks);
  }

  async function converse(
    response: ServerResponse,
    body: Readonly<Record<string, unknown>>,
    { url, model, action }: { url: string; model: BedrockModel; action: string },
  ): Promise<void> {
    const why = converseFault(body);
    if (why !== undefined) return refuse(response, 'ValidationException', why);
    const fault = cachePointFault(body, model.cachePoints ?? false);
    if (fault) return refuse(response, fault.code, fault.message);
    invocations.push({ path: url, body });
    const answer = await askBehind(response, `${vendorUrl}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify(messagesOf(body, model.sent)),
    });
    if (!answer.ok) return await refuseAs(response, answer);
    const message = (await answer.json()) as Parameters<typeof converseAnswer>[0];
    if (action === 'converse') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(converseAnswer(message)));
      return;
    }
    response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
    await writeFrames(converseFrames(message), response, bedrock.breaks);
  }

  const http = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  const port = await listenLocally(http);
  const bedrock: Bedrock = {
    url: `http://127.0.0.1:${port}`,
    accounts: [],
    invocations,
    refusals,
    isForbidden: false,
    breaks: undefined,
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return bedrock;
}

/** The lists of models, which AWS has at another host. */
function listOf(url: string, ids: readonly string[]): object | undefined {
  const isProfile = (id: string) => /^(us|eu|apac|global)\./.test(id);
  if (url === '/foundation-models') {
    return { modelSummaries: ids.filter((id) => !isProfile(id)).map((modelId) => ({ modelId })) };
  }
  if (url !== '/inference-profiles') return undefined;
  const profiles = ids.filter(isProfile).map((inferenceProfileId) => ({ inferenceProfileId }));
  return { inferenceProfileSummaries: profiles };
}

/** What Bedrock says of a body that it refuses. */
function bodyFault(body: Readonly<Record<string, unknown>>): string | undefined {
  for (const name of ['model', 'stream']) {
    if (name in body)
      return `Malformed input request: #: extraneous key [${name}] is not permitted, please reformat your input and try again.`;
  }
  if (body.anthropic_version !== 'bedrock-2023-05-31') return 'anthropic_version: Field required';
  if (typeof body.max_tokens !== 'number') return 'max_tokens: Field required';
  const betas = (body.anthropic_beta ?? []) as string[];
  return betas.every((beta) => BETAS.has(beta)) ? undefined : 'invalid beta flag';
}

/** Claude names itself as Anthropic does, not as Bedrock does. */
function renamed(
  text: string,
  { sent, answered }: { readonly sent: string; readonly answered: string },
): string {
  return text.replace(`"model":${JSON.stringify(sent)}`, `"model":${JSON.stringify(answered)}`);
}

/** The vendor's events as frames, as they arrive. */
async function pipeFrames(
  answer: Response,
  model: { readonly sent: string; readonly answered: string },
  response: ServerResponse,
  breaks: Bedrock['breaks'],
): Promise<void> {
  const held: Buffer[] = [];
  for await (const events of arrivingEvents(answer)) {
    const data = [...renamed(events, model).matchAll(/^data: (.*)$/gm)].map(([, one = '']) => one);
    const frames = data.filter((one) => one !== '[DONE]').map(chunkFrame);
    // A stream that breaks has its first two frames only.
    if (breaks === undefined) await writePieces(Buffer.concat(frames), response);
    else held.push(...frames);
  }
  await writeFrames(held, response, breaks);
}

async function writeFrames(frames: Buffer[], response: ServerResponse, breaks: Bedrock['breaks']) {
  await writePieces(breaks === undefined ? Buffer.concat(frames) : brokenFrames(frames, breaks), response);
  response.end();
}

/** Sizes of pieces: a network splits where it likes, also within the length of a frame. */
const PIECES = [1, 2, 3, 5, 13, 333, 89];

async function writePieces(whole: Buffer, response: ServerResponse): Promise<void> {
  let at = 0;
  for (let n = 0; at < whole.length; n++) {
    const size = PIECES[n % PIECES.length] ?? 1;
    response.write(whole.subarray(at, at + size));
    at += size;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function brokenFrames([first = Buffer.alloc(0), second = Buffer.alloc(0)]: Buffer[], how: string): Buffer {
  if (how === 'exception')
    return Buffer.concat([first, exceptionFrame('throttlingException', 'Too many tokens.')]);
  if (how === 'truncated') return Buffer.concat([first, second.subarray(0, second.length - 5)]);
  const changed = Buffer.from(second);
  changed[40] = (changed[40] ?? 0) ^ 1;
  return Buffer.concat([first, changed]);
}
