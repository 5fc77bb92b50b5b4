import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { arrivingEvents, askBehind } from '../shared/vendorBehind.ts';
import { FIRST_EVENT, filteredAnswer, filteredEvents, isFiltered, PROMPT_REFUSAL } from './contentFilter.ts';
import type { Entra } from './entra.ts';

export interface AzureResourceOptions {
  readonly entra: Pick<Entra, 'faultOf'>;
  /** By the name of a deployment: what the vendor behind it calls its model, and the name that its answers have. */
  readonly deployments: Readonly<Record<string, { readonly sent: string; readonly answered: string }>>;
  /** The base URL of the mock vendor that answers. */
  readonly vendorUrl: string;
  readonly apiKey?: string;
  /** The resource that tokens must be for. */
  readonly audience?: string;
}

/** A resource of Azure OpenAI or of Foundry: OpenAI's routes and Anthropic's, for its deployments. It refuses what Azure refuses. */
export interface AzureResource {
  /** The endpoint, without a path. */
  readonly url: string;
  /** The requests that it took, oldest first. */
  readonly requests: readonly {
    readonly path: string;
    readonly body: Readonly<Record<string, unknown>>;
  }[];
  /** The codes of the errors that it answered with, oldest first. */
  readonly refusals: readonly string[];
  /** Whether identities have a role there. */
  hasRole: boolean;
  close(): Promise<void>;
}

const OPERATIONS = new Set(['chat/completions', 'responses', 'embeddings', 'completions', 'models']);
const AUDIENCE = 'https://cognitiveservices.azure.com';

interface Route {
  /** Below the vendor's base URL. */
  readonly operation: string;
  /** Of the classic routes, which name it in the path. */
  readonly deployment?: string;
}

export async function startAzureResource(options: AzureResourceOptions): Promise<AzureResource> {
  const { deployments, vendorUrl } = options;
  const requests: { path: string; body: Record<string, unknown> }[] = [];
  const refusals: string[] = [];

  function refuse(response: ServerResponse, status: number, code: string, message: string): undefined {
    refusals.push(code);
    response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ error: { code, message } }));
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const url = new URL(request.url ?? '', 'http://azure');
    const fault = accessFault(request, options, resource.hasRole);
    if (fault) return refuse(response, 401, fault.code, fault.message);
    const route = routeOf(url, request);
    if (!route) return refuse(response, 404, '404', 'Resource not found');
    if (route.operation === 'models') return reply(response, modelList(Object.keys(deployments)));
    const body = parsed(Buffer.concat(chunks));
    if (!body) return refuse(response, 400, 'BadRequest', 'The request body is not valid JSON.');
    const deployment = deployments[route.deployment ?? String(body.model)];
    if (!deployment) {
      return refuse(
        response,
        404,
        'DeploymentNotFound',
        'The API deployment for this resource does not exist.',
      );
    }
    requests.push({ path: url.pathname + url.search, body });
    if (isFiltered(body)) return refuseFiltered(response);
    const answer = await askBehind(response, `${vendorUrl}/${route.operation}`, {
      method: 'POST',
      headers: forwarded(request),
      body: JSON.stringify({ ...body, model: deployment.sent }),
    });
    const [sent, answered] = [deployment.sent, deployment.answered].map(
      (name) => `"model":${JSON.stringify(name)}`,
    );
    const named = (text: string) => text.replaceAll(sent ?? '', answered ?? '');
    if (!answer.ok) refusals.push(String(answer.status));
    const type = answer.headers.get('content-type') ?? 'application/json';
    response.writeHead(answer.status, {
      'content-type': type,
      'apim-request-id': 'a',
      'x-ms-region': 'Test',
    });
    const isChat = answer.ok && route.operation === 'chat/completions';
    if (!type.startsWith('text/event-stream')) {
      const text = named(await answer.text());
      response.end(isChat ? filteredAnswer(text) : text);
      return;
    }
    if (isChat) response.write(FIRST_EVENT);
    for await (const events of arrivingEvents(answer)) {
      response.write(isChat ? filteredEvents(named(events)) : named(events));
    }
    response.end();
  }

  function refuseFiltered(response: ServerResponse): undefined {
    refusals.push('content_filter');
    response.writeHead(400, { 'content-type': 'application/json' }).end(PROMPT_REFUSAL);
  }

  const http = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  const port = await listenLocally(http);
  const resource: AzureResource = {
    url: `http://127.0.0.1:${port}`,
    requests,
    refusals,
    hasRole: true,
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return resource;
}

interface Fault {
  readonly code: string;
  readonly message: string;
}

/** A key or a token, and not both. */
function accessFault(
  { headers }: IncomingMessage,
  { entra, apiKey, audience = AUDIENCE }: AzureResourceOptions,
  hasRole: boolean,
): Fault | undefined {
  const keys = [headers['api-key'], headers['x-api-key']].filter((key) => key !== undefined);
  const [, bearer] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? [];
  const given = [...keys, ...(bearer === undefined ? [] : [bearer])];
  const denied = {
    code: '401',
    message:
      'Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource.',
  };
  if (given.length !== 1) return denied;
  if (apiKey !== undefined && given[0] === apiKey) return undefined;
  if (bearer === undefined) return denied;
  const fault = entra.faultOf(bearer, audience);
  if (fault !== undefined) {
    // It repeats the token: nobody may show it.
    const message = `Unauthorized. Access token ${bearer} is missing, invalid, audience is incorrect (${audience}), or have expired.`;
    return { code: 'Unauthorized', message };
  }
  if (hasRole) return undefined;
  const action = 'Microsoft.CognitiveServices/accounts/OpenAI/deployments/chat/completions/action';
  return {
    code: 'PermissionDenied',
    message: `The principal lacks the required data action \`${action}\`.`,
  };
}

function routeOf({ pathname, searchParams }: URL, { method, headers }: IncomingMessage): Route | undefined {
  const names = [...searchParams.keys()];
  const version = searchParams.get('api-version');
  const [, v1] = /^\/openai\/v1\/(.+)$/.exec(pathname) ?? [];
  if (v1 !== undefined) {
    const isKnown = OPERATIONS.has(v1) && method === (v1 === 'models' ? 'GET' : 'POST');
    const isVersion = version === null || version === 'preview' || version === 'v1';
    return isKnown && isVersion && names.every((name) => name === 'api-version')
      ? { operation: v1 }
      : undefined;
  }
  const [, deployment, classic] = /^\/openai\/deployments\/([^/]+)\/(.+)$/.exec(pathname) ?? [];
  if (deployment !== undefined && classic !== undefined) {
    const isDated = /^\d{4}-\d{2}-\d{2}(-preview)?$/.test(version ?? '');
    return isDated && method === 'POST' && OPERATIONS.has(classic) && classic !== 'responses'
      ? { operation: classic, deployment: decodeURIComponent(deployment) }
      : undefined;
  }
  const isMessages = pathname === '/anthropic/v1/messages' && method === 'POST';
  const isDated = /^\d{4}-\d{2}-\d{2}$/.test(String(headers['anthropic-version']));
  return isMessages && isDated ? { operation: 'messages' } : undefined;
}

function forwarded({ headers }: IncomingMessage): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) =>
    /^(content-type|anthropic-|x-mock-|idempotency)/.test(name),
  );
  return Object.fromEntries(kept) as Record<string, string>;
}

function modelList(names: readonly string[]): object {
  return {
    object: 'list',
    data: names.map((id) => ({ id, object: 'model', created: 0, owned_by: 'azure' })),
  };
}

function reply(response: ServerResponse, body: object): undefined {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function parsed(body: Buffer): Record<string, unknown> | undefined {
  try {
    return JSON.parse(body.toString('utf8')) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
