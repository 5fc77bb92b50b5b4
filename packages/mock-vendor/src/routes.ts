import { chatCompletions } from './dialects/chatCompletions.ts';
import { completions } from './dialects/completions.ts';
import { embeddings } from './dialects/embeddings.ts';
import { countContentTokens, generateContent, streamGenerateContent } from './dialects/gemini.ts';
import { batchEmbedContents, embedContent } from './dialects/geminiEmbeddings.ts';
import { countTokens, messages } from './dialects/messages.ts';
import { models } from './dialects/models.ts';
import { compact, inputTokens, responses } from './dialects/responses.ts';
import {
  cancelResponse,
  deleteResponse,
  listInputItems,
  retrieveResponse,
} from './dialects/storedResponses.ts';
import type { Handler } from './http/exchange.ts';
import { VendorError } from './shared/vendorError.ts';

function gemini(method: string): RegExp {
  return new RegExp(`^/v1(beta)?/models/[^/]+:${method}$`);
}

/** All operations, each with its handler. */
const ROUTES: readonly { method: string; path: RegExp; handler: Handler }[] = [
  { method: 'POST', path: /^\/v1\/chat\/completions$/, handler: chatCompletions },
  { method: 'POST', path: /^\/v1\/completions$/, handler: completions },
  { method: 'POST', path: /^\/v1\/responses$/, handler: responses },
  { method: 'POST', path: /^\/v1\/responses\/input_tokens$/, handler: inputTokens },
  { method: 'POST', path: /^\/v1\/responses\/compact$/, handler: compact },
  { method: 'GET', path: /^\/v1\/responses\/[^/]+$/, handler: retrieveResponse },
  { method: 'DELETE', path: /^\/v1\/responses\/[^/]+$/, handler: deleteResponse },
  { method: 'GET', path: /^\/v1\/responses\/[^/]+\/input_items$/, handler: listInputItems },
  { method: 'POST', path: /^\/v1\/responses\/[^/]+\/cancel$/, handler: cancelResponse },
  { method: 'POST', path: /^\/v1\/messages$/, handler: messages },
  { method: 'POST', path: /^\/v1\/messages\/count_tokens$/, handler: countTokens },
  { method: 'POST', path: /^\/v1\/embeddings$/, handler: embeddings },
  { method: 'GET', path: /^\/v1\/models$/, handler: models },
  { method: 'POST', path: gemini('generateContent'), handler: generateContent },
  { method: 'POST', path: gemini('streamGenerateContent'), handler: streamGenerateContent },
  { method: 'POST', path: gemini('countTokens'), handler: countContentTokens },
  { method: 'POST', path: gemini('embedContent'), handler: embedContent },
  { method: 'POST', path: gemini('batchEmbedContents'), handler: batchEmbedContents },
];

/** The handler of a request. Throws OpenAI's 404 or 405. */
export function findRoute(method: string, pathAndQuery: string): Handler {
  // Google's compatible API is below its own.
  const path = pathAndQuery.replace(/\?.*$/s, '').replace(/^\/v1beta\/openai\//, '/v1/');
  const routes = ROUTES.filter((route) => route.path.test(path));
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
