import type { FastifyRequest } from 'fastify';
import type { Wire } from '../formats/operation.ts';

const MESSAGES_PATH = /^\/v1\/messages(?=[/?]|$)/;
const MODELS_PATH = /^\/v1\/models(?=[/?]|$)/;

/** Whose client is asking: told by the path, and on `/v1/models`, which both vendors have, by a header. */
export function wireOf({ url, headers }: Pick<FastifyRequest, 'url' | 'headers'>): Wire {
  if (MESSAGES_PATH.test(url)) return 'anthropic';
  return MODELS_PATH.test(url) && headers['anthropic-version'] !== undefined ? 'anthropic' : 'openai';
}
