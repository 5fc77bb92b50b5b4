import { chatCompletions } from './chatCompletions.ts';
import { embeddings } from './embeddings.ts';
import type { Handler } from './exchange.ts';
import { models } from './models.ts';
import { VendorError } from './vendorError.ts';

/** The map of the vendor: one line per operation, one file per handler. */
const ROUTES: readonly { method: string; path: string; handler: Handler }[] = [
  { method: 'POST', path: '/v1/chat/completions', handler: chatCompletions },
  { method: 'POST', path: '/v1/embeddings', handler: embeddings },
  { method: 'GET', path: '/v1/models', handler: models },
];

/** The handler of a request, or OpenAI's 404 or 405. */
export function findRoute(method: string, pathAndQuery: string): Handler {
  const path = pathAndQuery.replace(/\?.*$/s, '');
  const routes = ROUTES.filter((route) => route.path === path);
  if (routes.length === 0) {
    throw new VendorError(404, `Invalid URL (${method} ${path})`, { code: 'unknown_url' });
  }
  const route = routes.find((candidate) => candidate.method === method);
  if (route) return route.handler;
  throw new VendorError(405, `Not allowed to ${method} on ${path}.`, {
    code: 'method_not_supported',
    headers: { allow: routes.map((candidate) => candidate.method).join(', ') },
  });
}
