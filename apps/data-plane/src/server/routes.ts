import {
  type Dialect,
  GEMINI_OPERATIONS,
  GENERATE_CONTENT,
  OPERATIONS,
  type Operation,
} from '../formats/operation.ts';
import { type Endpoint, endpointOf } from '../observe/endpoints.ts';
import type { Serve } from './exchange.ts';
import { createRouter } from './router.ts';
import { serveFeedback, serveHealth, serveModel, serveModels, serveReadiness } from './serveHere.ts';
import { serveDeployment, serveGemini, serveOperation, serveStored } from './serveInference.ts';

/** What is served at a path for a method. GET is served for HEAD too. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** `{id}` stands for one segment, `{model}` and `{deployment}` for a name, which may have slashes in it. */
  readonly path: string;
  readonly endpoint: Endpoint;
  /** `header`: the caller's, which a header tells. */
  readonly dialect: Dialect | 'header';
  readonly serve: Serve;
}

/*
 * Where clients look for the inference API, besides `/v1`. Groq's SDK appends `/openai/v1` to its base URL. Azure's clients
 * append `/openai`, and to some operations the deployment, which here is the model
 * (https://learn.microsoft.com/azure/ai-services/openai/reference). Google's append `/v1beta`, and newer ones `/v1`.
 */
const OPENAI_PREFIXES = ['/openai/v1', '/openai'];
const GEMINI_PREFIXES = ['/v1beta', '/v1'];
const OPENAI_OPERATIONS = OPERATIONS.filter(({ dialect }) => dialect === 'openai');

/** Every route of this service. */
export const ROUTES: readonly Route[] = [
  { method: 'GET', path: '/healthz', endpoint: 'other', dialect: 'openai', serve: serveHealth },
  { method: 'GET', path: '/readyz', endpoint: 'other', dialect: 'openai', serve: serveReadiness },
  ...below(['/v1'], OPERATIONS.map(generation)),
  ...below(OPENAI_PREFIXES, OPENAI_OPERATIONS.map(generation)),
  ...below(['/openai/deployments/{deployment}'], OPENAI_OPERATIONS.map(deployment)),
  ...below(GEMINI_PREFIXES, [
    ...GEMINI_OPERATIONS.map((operation) => gemini(operation, operation.path, false)),
    gemini(GENERATE_CONTENT, '/models/{model}:streamGenerateContent', true),
  ]),
  ...below(
    ['/v1', ...OPENAI_PREFIXES],
    [stored('GET', ''), stored('DELETE', ''), stored('GET', '/input_items'), stored('POST', '/cancel')],
  ),
  ...below(['/v1'], models('header')),
  ...below(['/v1beta'], models('gemini')),
  ...below(OPENAI_PREFIXES, models('openai')),
  { method: 'POST', path: '/v1/feedback', endpoint: 'feedback', dialect: 'openai', serve: serveFeedback },
];

/** What is served at a path, as it stands in a request, without its query. */
export const findRoutes = createRouter(ROUTES);

function below(prefixes: readonly string[], routes: readonly Route[]): Route[] {
  return prefixes.flatMap((prefix) => routes.map((route) => ({ ...route, path: prefix + route.path })));
}

function generation(operation: Operation): Route {
  const { path, dialect } = operation;
  return { method: 'POST', path, endpoint: endpointOf(operation), dialect, serve: serveOperation(operation) };
}

function deployment(operation: Operation): Route {
  return { ...generation(operation), serve: serveDeployment(operation) };
}

function gemini(operation: Operation, path: string, isStream: boolean): Route {
  return { ...generation(operation), path, serve: serveGemini(operation, isStream) };
}

function stored(method: Route['method'], rest: string): Route {
  const path = `/responses/{id}${rest}`;
  return { method, path, endpoint: 'stored_responses', dialect: 'openai', serve: serveStored(method, rest) };
}

function models(dialect: Route['dialect']): Route[] {
  return [
    { method: 'GET', path: '/models', endpoint: 'models', dialect, serve: serveModels },
    { method: 'GET', path: '/models/{model}', endpoint: 'models', dialect, serve: serveModel },
  ];
}
