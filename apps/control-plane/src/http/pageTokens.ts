import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Peppers } from '../features/keys/peppers.ts';
import { invalidPageToken } from '../shared/paging.ts';

const MAC_BYTES = 12;
const SIGNED = /^(?<token>[A-Za-z0-9_-]+)\.(?<mac>[A-Za-z0-9_-]{16})$/;

/**
 * Signs the page tokens of all lists for their caller's principal, and refuses every other with one error: tokens that were
 * made up, changed, or given to someone else. Call it before other checks of the query.
 */
export function signPageTokens(api: FastifyInstance, peppers: Peppers): void {
  api.addHook('preValidation', async (request) => {
    const query = request.query as { page_token?: unknown };
    if (query.page_token === undefined || query.page_token === '' || !isList(request)) return;
    query.page_token = verified(peppers, request, query.page_token);
  });
  api.addHook('preSerialization', async (request, _reply, payload) => {
    const { next_page_token: token } = (payload ?? {}) as { next_page_token?: unknown };
    if (typeof token !== 'string' || token === '') return payload;
    const mac = peppers.hash(digestOf(request, token)).subarray(0, MAC_BYTES).toString('base64url');
    return Object.assign({}, payload, { next_page_token: `${token}.${mac}` });
  });
}

function verified(peppers: Peppers, request: FastifyRequest, signed: unknown): string {
  const { token = '', mac = '' } = (typeof signed === 'string' && SIGNED.exec(signed)?.groups) || {};
  const given = Buffer.from(mac, 'base64url');
  const isOurs =
    given.length === MAC_BYTES &&
    peppers
      .hashes(digestOf(request, token))
      .some((hash) => timingSafeEqual(hash.subarray(0, MAC_BYTES), given));
  if (!isOurs) throw invalidPageToken();
  return token;
}

/** Never the digest of a key, which starts with `sk-svc-`. */
function digestOf({ caller }: FastifyRequest, token: string): Buffer {
  return createHash('sha256').update(`page_token\0${caller.principalId}\0${token}`).digest();
}

/** A route that takes no page token refuses it as any unknown parameter. */
function isList({ routeOptions }: FastifyRequest): boolean {
  const { properties } = (routeOptions.schema?.querystring ?? {}) as { properties?: object };
  return properties !== undefined && 'page_token' in properties;
}
