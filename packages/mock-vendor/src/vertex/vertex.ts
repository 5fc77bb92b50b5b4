import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { arrivingEvents, askBehind } from '../shared/vendorBehind.ts';
import type { GoogleTokens } from './googleTokens.ts';
import { claudeFault, geminiFault } from './vertexBodies.ts';

export interface VertexOptions {
  readonly project: string;
  readonly location: string;
  /** By publisher and name, as `anthropic/claude-sonnet-4-5@20250929`: what the vendor behind it calls the model. */
  readonly models: Readonly<Record<string, { readonly sent: string; readonly answered?: string }>>;
  /** The base URL of the mock vendor that answers. */
  readonly vendorUrl: string;
  readonly tokens: Pick<GoogleTokens, 'faultOf'>;
}

/** Vertex AI in one location of one project: Gemini, Claude, and the OpenAI-compatible route. It refuses what Vertex refuses. */
export interface Vertex {
  /** The base URL for a connector, and that of Anthropic's SDK. */
  readonly url: string;
  /** The requests that it took, oldest first. */
  readonly calls: readonly VertexCall[];
  /** The errors that it answered with, oldest first. */
  readonly refusals: readonly string[];
  /** The account may not use models. */
  isForbidden: boolean;
  close(): Promise<void>;
}

export interface VertexCall {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Readonly<Record<string, unknown>>;
}

const STATUS: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
};

interface Refusal {
  readonly status: string;
  readonly message: string;
}

/** What is asked of the vendor behind it. */
interface Passed {
  readonly path: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
  /** The name that the answer has instead. */
  readonly renamed?: readonly [string, string] | undefined;
}

export async function startVertex(options: VertexOptions): Promise<Vertex> {
  const { project, location, models, vendorUrl, tokens } = options;
  const calls: VertexCall[] = [];
  const refusals: string[] = [];
  const root = new URL(vendorUrl).origin;
  const within = `/v1(?:beta1)?/projects/${project}/locations/${location}`;
  const PUBLISHED = new RegExp(`^${within}/publishers/(\\w+)/models/([^/:?]+):(\\w+)(\\?alt=sse)?$`);
  const COMPATIBLE = new RegExp(`^${within}/endpoints/openapi/chat/completions$`);

  function unauthenticated({ headers }: IncomingMessage): Refusal | undefined {
    const [, token] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? [];
    const fault = token === undefined ? 'missing' : tokens.faultOf(token);
    // It repeats the token: nobody may show it.
    const message = `Request had invalid authentication credentials (${headers.authorization}).`;
    if (fault !== undefined || headers['x-goog-api-key'] || headers['x-api-key']) {
      return { status: 'UNAUTHENTICATED', message };
    }
    if (!vertex.isForbidden) return undefined;
    const resource = `//aiplatform.googleapis.com/projects/${project}/locations/${location}`;
    return {
      status: 'PERMISSION_DENIED',
      message: `Permission 'aiplatform.endpoints.predict' denied on resource '${resource}' (or it may not exist).`,
    };
  }

  function asked(url: string, headers: IncomingMessage['headers'], body: Json): Passed | Refusal {
    if (COMPATIBLE.test(url)) {
      const model = models[String(body.model)];
      return model === undefined || !String(body.model).includes('/')
        ? notFound(String(body.model))
        : { path: '/v1/chat/completions', body: { ...body, model: model.sent } };
    }
    const [, publisher = '', name = '', method = '', sse = ''] = PUBLISHED.exec(url) ?? [];
    const named = decodeURIComponent(name);
    if (publisher === 'anthropic') return askedOfClaude(named, method, headers, body);
    const model = models[`${publisher}/${named}`];
    if (publisher !== 'google' || model === undefined)
      return notFound(`publishers/${publisher}/models/${named}`);
    const why = geminiFault(method, body);
    if (why !== undefined) return { status: 'INVALID_ARGUMENT', message: why };
    // The vendor behind it counts a request within one.
    const sent =
      method === 'countTokens'
        ? { generateContentRequest: { ...body, model: `models/${model.sent}` } }
        : body;
    return { path: `/v1beta/models/${model.sent}:${method}${sse}`, body: sent };
  }

  function askedOfClaude(
    named: string,
    method: string,
    headers: IncomingMessage['headers'],
    body: Json,
  ): Passed | Refusal {
    const isCount = named === 'count-tokens';
    const model = models[`anthropic/${isCount ? String(body.model) : named}`];
    if (model === undefined) return notFound(`publishers/anthropic/models/${named}`);
    const why = claudeFault({ method, isCount, betas: headers['anthropic-beta'], body });
    if (why !== undefined) return { status: 'anthropic', message: why };
    const { anthropic_version: _version, ...fields } = body;
    return {
      path: `/v1/messages${isCount ? '/count_tokens' : ''}`,
      body: { ...fields, model: model.sent },
      headers: {
        'anthropic-version': '2023-06-01',
        ...(headers['anthropic-beta'] && { 'anthropic-beta': String(headers['anthropic-beta']) }),
      },
      renamed: model.answered === undefined ? undefined : [model.sent, model.answered],
    };
  }

  function notFound(resource: string): Refusal {
    const name = `projects/${project}/locations/${location}/${resource}`;
    return {
      status: 'NOT_FOUND',
      message: `Publisher Model \`${name}\` was not found or your project does not have access to it.`,
    };
  }

  function refuse(response: ServerResponse, { status, message }: Refusal, isList: boolean): void {
    refusals.push(status === 'anthropic' ? message : status);
    const code = STATUS[status] ?? 400;
    const body =
      status === 'anthropic'
        ? { type: 'error', error: { type: 'invalid_request_error', message }, request_id: 'req_vrtx_1' }
        : { error: { code, message, status } };
    response.writeHead(code, { 'content-type': 'application/json; charset=UTF-8' });
    response.end(JSON.stringify(isList && status !== 'anthropic' ? [body] : body));
  }

  /** https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/publishers.models/list */
  function list(response: ServerResponse, publisher: string): void {
    const named = Object.keys(models).filter((name) => name.startsWith(`${publisher}/`));
    const publisherModels = named.map((name) => ({
      name: `publishers/${publisher}/models/${name.slice(publisher.length + 1).split('@')[0]}`,
      versionId: name.split('@')[1] ?? 'default',
    }));
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ publisherModels }));
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const { method, url = '', headers } = request;
    // Errors of streams, and of the compatible route, come in a list.
    const isList = url.includes('stream') || COMPATIBLE.test(url);
    const fault = unauthenticated(request);
    if (fault) return refuse(response, fault, isList);
    const [, publisher] = /^\/v1beta1\/publishers\/(\w+)\/models$/.exec(url) ?? [];
    if (method === 'GET' && publisher) return list(response, publisher);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Json;
    const call = method === 'POST' ? asked(url, headers, body) : notFound('');
    if ('status' in call) return refuse(response, call, isList);
    calls.push({ path: url, headers, body });
    const answer = await askBehind(response, root + call.path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...call.headers },
      body: JSON.stringify(call.body),
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    if (!answer.ok) refusals.push(String(answer.status));
    const [from, to] = call.renamed ?? [];
    for await (const text of arrivingEvents(answer)) {
      // The model stands in the first event.
      response.write(from === undefined ? text : text.replace(`"model":"${from}"`, `"model":"${to}"`));
    }
    response.end();
  }

  const http = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  const port = await listenLocally(http);
  const vertex: Vertex = {
    url: `http://127.0.0.1:${port}/v1`,
    calls,
    refusals,
    isForbidden: false,
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return vertex;
}

type Json = Readonly<Record<string, unknown>>;
