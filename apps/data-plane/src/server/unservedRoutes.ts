import type { IncomingMessage } from 'node:http';
import { AppError } from '@weighbridge/errors';
import { type Dialect, GEMINI_OPERATIONS, OPERATIONS } from '../formats/operation.ts';
import { splitUrl } from './requestUrl.ts';

const OTHERS: Readonly<Record<Dialect, readonly string[]>> = {
  openai: [
    'GET, DELETE /v1/responses/{id}',
    'GET /v1/responses/{id}/input_items',
    'POST /v1/responses/{id}/cancel',
    'GET /v1/models',
  ],
  anthropic: ['GET /v1/models'],
  gemini: ['POST /v1beta/models/{model}:streamGenerateContent', 'GET /v1beta/models'],
};
const SERVED: Readonly<Record<Dialect, readonly string[]>> = {
  openai: servedIn('openai'),
  anthropic: servedIn('anthropic'),
  gemini: servedIn('gemini'),
};
export const ROUTE_NOT_SERVED = 'route_not_served';
const MAX_SHOWN = 200;

function servedIn(dialect: Dialect): string[] {
  const operations = [...OPERATIONS, ...GEMINI_OPERATIONS].filter(
    (operation) => operation.dialect === dialect,
  );
  const prefix = dialect === 'gemini' ? '/v1beta' : '/v1';
  return [...operations.map(({ path }) => `POST ${prefix}${path}`), ...OTHERS[dialect]];
}

type Asked = Pick<IncomingMessage, 'url' | 'headers'>;

/** The 404 for a route that this service does not have: names those of the caller's dialect. */
export function routeNotServed(method: string, request: Asked): AppError {
  const { path } = splitUrl(request.url ?? '');
  const shown = path.length > MAX_SHOWN ? `${path.slice(0, MAX_SHOWN)}…` : path;
  const served = SERVED[dialectOfUnserved(request)];
  const message = `${method} ${shown} is not served here.${hintFor(path)} Served are: ${served.join(', ')}.`;
  return new AppError('not_found', ROUTE_NOT_SERVED, message, { details: { served } });
}

/** Google names an operation at the end of the path: `/models/gemini-2.5-pro:predict`. */
const NAMED_OPERATION = /:[a-z][A-Za-z]{2,40}$/;

/** An operation of Google's that is not served: its path is unknown, although that of its model is served for GET. */
export function isUnservedOperation(method: string, path: string): boolean {
  return method === 'POST' && path.includes('/models/') && NAMED_OPERATION.test(path.slice(-MAX_SHOWN));
}

/** Long-running operations of Google's, below a model that has none: `models/veo-3/operations/abc`. */
export function isModelOperation(name: string): boolean {
  return /^[^/]+\/operations\/[^/]+$/.test(name);
}

/** What routes have below a version: a template, and what it matches. */
const BELOW_VERSION = [...Object.values(SERVED).flat(), 'GET /v1/models/{model}', 'POST /v1/feedback'].map(
  (route) => {
    const template = route.slice(route.indexOf('/'));
    const below = template.replace(/^\/[^/]+/, '');
    return { template, pattern: new RegExp(`^${below.replace(/\{[^}]+\}/g, '[^/:]+')}$`) };
  },
);
const VERSIONS = /^(?:\/v1(?:beta)?(?=\/))+/;

/** A base URL without its version, or with two, is the usual mistake. */
function hintFor(path: string): string {
  const [versions = ''] = VERSIONS.exec(path) ?? [];
  if (/^\/[^/]+$/.test(versions)) return '';
  const below = path.slice(versions.length, versions.length + MAX_SHOWN).replace(/\/$/, '');
  const meant = BELOW_VERSION.find(({ pattern }) => pattern.test(below));
  return meant ? ` Did you mean ${meant.template}? Check the base URL.` : '';
}

const ANTHROPIC_PATH = /^\/(?:v1\/)?(?:messages|complete)(?=[/?]|$)/;
const GEMINI_PATH = /^\/(?:upload\/)?v1(?:beta|alpha)\d*(?=[/?]|$)/;
/** Google's way to name a method: `/models/gemini-pro:generateContent`. */
const GEMINI_METHOD = /^:[a-z]{1,40}[A-Z][A-Za-z]{0,40}$/;

/** The dialect of a caller that asks for what is not served: by the path, or by a header that only its clients send. */
export function dialectOfUnserved({ url = '', headers }: Asked): Dialect {
  if (ANTHROPIC_PATH.test(url) || headers['anthropic-version'] !== undefined) return 'anthropic';
  const isGoogles = headers['x-goog-api-key'] !== undefined || headers['x-goog-api-client'] !== undefined;
  return isGoogles || GEMINI_PATH.test(url) || isGeminiMethod(splitUrl(url).path) ? 'gemini' : 'openai';
}

/** Not one expression: two open ends would take a time that grows with the square of the path. */
function isGeminiMethod(path: string): boolean {
  const colon = path.lastIndexOf(':');
  return colon >= 0 && GEMINI_METHOD.test(path.slice(colon)) && path.includes('/models/');
}
