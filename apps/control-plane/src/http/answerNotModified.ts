import { createHash } from 'node:crypto';
import type { FastifyInstance, RouteOptions } from 'fastify';
import { type TObject, Type } from 'typebox';

const IF_NONE_MATCH = Type.Optional(
  Type.String({
    description: 'The ETag of an earlier answer: 304 without a body if the answer would be the same.',
  }),
);
const NOT_MODIFIED = Type.Null({ description: 'The answer is the one that has the ETag of If-None-Match.' });

/**
 * Gives every JSON answer to a GET a weak ETag of its body, so that whoever asks again and again gets a 304 until something changes.
 * A resource whose ETag guards its changes keeps that one, and is always answered in full: its body also has what nobody sets.
 */
export function answerNotModified(api: FastifyInstance): void {
  api.addHook('onRoute', (route) => {
    if (!isTagged(route)) return;
    const { headers, response } = route.schema ?? {};
    const { properties = {} } = (headers ?? {}) as Partial<TObject>;
    route.schema = {
      ...route.schema,
      headers: Type.Object({ ...properties, 'if-none-match': IF_NONE_MATCH }),
      response: { ...(response as object), 304: NOT_MODIFIED },
    };
  });
  api.addHook('onSend', async (request, reply, payload) => {
    if (request.method !== 'GET') return payload;
    // What someone may see is no one else's, wherever it passes.
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store');
    if (reply.statusCode !== 200 || typeof payload !== 'string' || reply.hasHeader('etag')) return payload;
    const etag = `W/"${createHash('sha256').update(payload).digest('base64url').slice(0, 27)}"`;
    reply.header('etag', etag);
    if (!isNamed(etag, request.headers['if-none-match'])) return payload;
    reply.code(304).removeHeader('content-type');
    return null;
  });
}

function isTagged({ method, schema, config }: RouteOptions): boolean {
  const isGet = [method].flat().includes('GET');
  if (!isGet || schema?.hide || config?.versioned) return false;
  const { content } = ((schema?.response as Record<number, unknown>)?.[200] ?? {}) as { content?: object };
  return content === undefined || 'application/json' in content;
}

/** The comparison of If-None-Match is always weak. */
function isNamed(etag: string, header: string | undefined): boolean {
  if (header === undefined) return false;
  return header
    .split(',')
    .map((tag) => tag.trim())
    .some((tag) => tag === '*' || tag.replace(/^W\//, '') === etag.replace(/^W\//, ''));
}
