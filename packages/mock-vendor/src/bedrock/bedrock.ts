import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chunkFrame, exceptionFrame } from './eventFrame.ts';
import { type AwsAccount, sigV4Fault } from './sigV4.ts';

export interface BedrockOptions {
  readonly region: string;
  /** By the id of a model of the region: what the vendor behind it calls it, and the name that its answers have. */
  readonly models: Readonly<Record<string, { readonly sent: string; readonly answered: string }>>;
  /** The base URL of the mock vendor that answers. */
  readonly vendorUrl: string;
  readonly nowMs?: () => number;
}

/** Bedrock's runtime in one region: `InvokeModel` for Claude, with and without a stream. It refuses what Bedrock refuses. */
export interface Bedrock {
  /** The base URL for a connector, and the endpoint for AWS's SDK. */
  readonly url: string;
  /** The identities that it knows. */
  accounts: AwsAccount[];
  /** The requests that it took, oldest first. */
  readonly invocations: readonly {
    readonly path: string;
    readonly body: Readonly<Record<string, unknown>>;
  }[];
  /** The errors that it answered with, oldest first. */
  readonly refusals: readonly string[];
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
const STATUS: Readonly<Record<string, number>> = { ValidationException: 400, ResourceNotFoundException: 404 };

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

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method = '', url = '', headers } = request;
    const call = { method, url, headers, body };
    const fault = sigV4Fault(call, bedrock.accounts, { service: 'bedrock', region, nowMs: nowMs() });
    if (fault) return refuse(response, fault.code, fault.message);
    const [, id = '', action] = /^\/model\/([^/?]+)\/(invoke|invoke-with-response-stream)$/.exec(url) ?? [];
    if (method !== 'POST' || action === undefined)
      return refuse(response, 'UnknownOperationException', 'Unknown');
    const model = models[decodeURIComponent(id)];
    if (model === undefined)
      return refuse(response, 'ValidationException', 'The provided model identifier is invalid.');
    const parsed = JSON.parse(body.toString('utf8')) as Record<string, unknown>;
    const why = bodyFault(parsed);
    if (why !== undefined) return refuse(response, 'ValidationException', why);
    invocations.push({ path: url, body: parsed });
    const { anthropic_version: _version, anthropic_beta: betas = [], ...fields } = parsed;
    const stream = action === 'invoke-with-response-stream';
    const answer = await fetch(`${vendorUrl}/messages`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'anthropic-version': '2023-06-01',
        'anthropic-beta': (betas as string[]).join(','),
      },
      body: JSON.stringify({ ...fields, model: model.sent, stream }),
    });
    if (!answer.ok) return refuse(response, 'ValidationException', await answer.text());
    if (!stream) {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(renamed(await answer.text(), model));
      return;
    }
    response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
    await pipeFrames(renamed(await answer.text(), model), response, bedrock.breaks);
  }

  const http = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const bedrock: Bedrock = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    accounts: [],
    invocations,
    refusals,
    breaks: undefined,
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return bedrock;
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

/** The vendor's events as frames, split where no frame ends. */
async function pipeFrames(text: string, response: ServerResponse, breaks: Bedrock['breaks']): Promise<void> {
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => data);
  const frames = events.filter((data) => data !== '[DONE]').map(chunkFrame);
  const whole = breaks === undefined ? Buffer.concat(frames) : brokenFrames(frames, breaks);
  for (let at = 0; at < whole.length; at += 333) {
    response.write(whole.subarray(at, at + 333));
    await new Promise((resolve) => setImmediate(resolve));
  }
  response.end();
}

function brokenFrames([first = Buffer.alloc(0), second = Buffer.alloc(0)]: Buffer[], how: string): Buffer {
  if (how === 'exception')
    return Buffer.concat([first, exceptionFrame('throttlingException', 'Too many tokens.')]);
  if (how === 'truncated') return Buffer.concat([first, second.subarray(0, second.length - 5)]);
  const changed = Buffer.from(second);
  changed[40] = (changed[40] ?? 0) ^ 1;
  return Buffer.concat([first, changed]);
}
