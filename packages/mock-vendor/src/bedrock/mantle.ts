import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { arrivingEvents, askBehind } from '../shared/vendorBehind.ts';

type Prefix = '/v1' | '/openai/v1' | '/anthropic/v1';

interface MantleModel {
  /** Where it is served. A model has one of them. */
  readonly at: Prefix;
  /** What the vendor behind it calls it. */
  readonly sent: string;
  /** It has the responses API alone. */
  readonly responsesOnly?: boolean;
}

export interface MantleOptions {
  /** By their ids, which have no region and no version. */
  readonly models: Readonly<Record<string, MantleModel>>;
  /** The base URL of the mock vendor that answers. */
  readonly vendorUrl: string;
  readonly apiKey: string;
}

/**
 * Bedrock's other endpoint, `bedrock-mantle.<region>.api.aws`: OpenAI's routes and Anthropic's, by a long-lived key. It refuses
 * what it refuses there.
 */
export interface Mantle {
  /** The endpoint, without a path. */
  readonly url: string;
  /** The requests that it took, oldest first. */
  readonly requests: readonly {
    readonly path: string;
    readonly body: Readonly<Record<string, unknown>>;
  }[];
  /** The codes of the errors that it answered with, oldest first. */
  readonly refusals: readonly string[];
  /** The key was deleted, or has expired. */
  isRevoked: boolean;
  close(): Promise<void>;
}

const OPERATIONS: Readonly<Record<Prefix, readonly string[]>> = {
  '/v1': ['chat/completions', 'responses'],
  '/openai/v1': ['chat/completions', 'responses'],
  '/anthropic/v1': ['messages'],
};

export async function startMantle(options: MantleOptions): Promise<Mantle> {
  const { models, vendorUrl } = options;
  const requests: { path: string; body: Record<string, unknown> }[] = [];
  const refusals: string[] = [];

  function refuse(response: ServerResponse, prefix: Prefix, { status, code, message }: Refusal): void {
    refusals.push(code);
    const error = prefix === '/anthropic/v1' ? { type: code, message } : { code, message };
    response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ ...(prefix === '/anthropic/v1' && { type: 'error' }), error }));
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const { pathname: path } = new URL(request.url ?? '', 'http://mantle');
    const [, prefix = '/v1', operation = ''] =
      (/^(\/v1|\/openai\/v1|\/anthropic\/v1)\/(.+)$/.exec(path) as [string, Prefix, string] | null) ?? [];
    if (!isKnown(request, prefix, mantle.isRevoked ? undefined : options.apiKey)) {
      return refuse(response, prefix, UNAUTHORIZED[prefix === '/anthropic/v1' ? 1 : 0]);
    }
    if (request.method === 'GET' && operation === 'models') {
      const data = Object.keys(models).map((id) => ({ id, object: 'model', created: 0, owned_by: 'system' }));
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ object: 'list', data }));
      return;
    }
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Record<string, unknown>;
    const fault = faultOf(prefix, operation, request, models[String(body.model)], String(body.model));
    if (fault) return refuse(response, prefix, fault);
    requests.push({ path, body });
    const { sent } = models[String(body.model)] as MantleModel;
    const answer = await askBehind(response, `${vendorUrl}/${operation}`, {
      method: 'POST',
      headers: forwarded(request),
      body: JSON.stringify({ ...body, model: sent }),
    });
    if (!answer.ok) refusals.push(String(answer.status));
    const named = (text: string) =>
      text.replaceAll(`"model":${JSON.stringify(sent)}`, `"model":${JSON.stringify(body.model)}`);
    response.writeHead(answer.status, {
      'content-type': answer.headers.get('content-type') ?? 'application/json',
    });
    for await (const events of arrivingEvents(answer)) response.write(named(events));
    response.end();
  }

  const http = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  const port = await listenLocally(http);
  const mantle: Mantle = {
    url: `http://127.0.0.1:${port}`,
    requests,
    refusals,
    isRevoked: false,
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return mantle;
}

interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

const UNAUTHORIZED = [
  { status: 401, code: 'invalid_api_key', message: 'Invalid bearer token' },
  { status: 401, code: 'authentication_error', message: 'Invalid bearer token' },
] as const;

/** OpenAI's routes take a bearer token alone, Anthropic's its own header, too. */
function isKnown({ headers }: IncomingMessage, prefix: Prefix, apiKey: string | undefined): boolean {
  const given = [headers.authorization?.replace(/^Bearer /, ''), headers['x-api-key']];
  const [one, ...others] = given.filter((key) => key !== undefined);
  const isOwn = headers['x-api-key'] === undefined || prefix === '/anthropic/v1';
  return apiKey !== undefined && one === apiKey && others.length === 0 && isOwn;
}

function faultOf(
  prefix: Prefix,
  operation: string,
  { method, headers }: IncomingMessage,
  model: MantleModel | undefined,
  name: string,
): Refusal | undefined {
  const isMessages = prefix === '/anthropic/v1';
  if (method !== 'POST' || !OPERATIONS[prefix].includes(operation)) {
    return { status: 404, code: isMessages ? 'not_found_error' : 'not_found', message: 'Not Found' };
  }
  const invalid = (message: string) => ({
    status: 400,
    code: isMessages ? 'invalid_request_error' : 'validation_error',
    message,
  });
  if (model === undefined) {
    const message = `The model '${name}' does not exist`;
    return { status: 404, code: isMessages ? 'not_found_error' : 'model_not_found', message };
  }
  if (model.at !== prefix) return invalid(`model \`${name}\` isn't supported on this route`);
  if (model.responsesOnly && operation !== 'responses') {
    return invalid(`The model '${name}' does not support the '${prefix}/${operation}' API`);
  }
  return isMessages && !/^\d{4}-\d\d-\d\d$/.test(String(headers['anthropic-version']))
    ? invalid('anthropic-version: header is required')
    : undefined;
}

function forwarded({ headers }: IncomingMessage): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) => /^(content-type|anthropic-)/.test(name));
  return Object.fromEntries(kept) as Record<string, string>;
}
