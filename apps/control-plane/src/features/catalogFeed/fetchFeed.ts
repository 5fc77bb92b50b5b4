import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { NOT_PUBLIC, SettingsError } from '@weighbridge/runtime';
import { outgoingRequest } from '../../shared/outgoingRequest.ts';
import type { UpstreamHosts } from '../connectors/upstreamHosts.ts';
import { FeedError } from './readFeed.ts';

/** A feed that the deployment configured. */
export interface FeedSource {
  readonly url: URL;
  readonly hosts: UpstreamHosts;
}

export interface FetchLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Ends the fetch when the process stops. */
  readonly stopping?: AbortSignal | undefined;
}

export const FETCH_LIMITS: FetchLimits = { timeoutMs: 60_000, maxBytes: 16 * 1024 * 1024 };

/** Undefined text: the document has not changed since the given etag. */
export interface FetchedFeed {
  readonly text: string | undefined;
  readonly etag: string | null;
}

const MAX_REDIRECTS = 3;
const MAX_ETAG = 256;
const REDIRECTS: ReadonlySet<number | undefined> = new Set([301, 302, 303, 307, 308]);

/** The feed of the setting CATALOG_FEED_URL; undefined if it is not set. */
export function feedSource(text: string | undefined, hosts: UpstreamHosts): FeedSource | undefined {
  if (!text) return undefined;
  const refuse = (why: string) => new SettingsError(`CATALOG_FEED_URL is not valid: ${why}`);
  if (!URL.canParse(text)) throw refuse('it is not a URL such as https://models.dev/api.json');
  const url = new URL(text);
  if (url.username || url.password) throw refuse('it must not have a user or password');
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refuse('it must begin with https://');
  const source = { url, hosts };
  if (url.protocol === 'http:' && !mayBePrivate(source, url)) {
    throw refuse(`it must begin with https://; to allow ${url.host}, add it to ALLOWED_UPSTREAM_HOSTS`);
  }
  return source;
}

/** Fetches the document. Throws a `FeedError` that says why it can't; it never names the query, which may have a secret. */
export async function fetchFeed(
  source: FeedSource,
  etag: string | null,
  limits: FetchLimits = FETCH_LIMITS,
): Promise<FetchedFeed> {
  const timeout = AbortSignal.timeout(limits.timeoutMs);
  const signal = limits.stopping ? AbortSignal.any([timeout, limits.stopping]) : timeout;
  try {
    let url = source.url;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const response = await get(source, url, etag, signal);
      if (!REDIRECTS.has(response.statusCode)) return await documentOf(response, etag, limits);
      response.destroy();
      url = redirectTarget(url, response.headers.location);
    }
    throw new FeedError(`it redirects more than ${MAX_REDIRECTS} times`);
  } catch (error) {
    // A response that is cut off by the time-out is reported as a broken connection.
    if (timeout.aborted) throw new FeedError(`it was not read within ${limits.timeoutMs} ms`);
    throw asFeedError(error);
  }
}

function redirectTarget(from: URL, location: string | undefined): URL {
  if (location && URL.canParse(location, from.href)) return new URL(location, from);
  throw new FeedError('it redirects to nowhere');
}

async function get(
  source: FeedSource,
  url: URL,
  etag: string | null,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const isPrivateAllowed = mayBePrivate(source, url);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isPrivateAllowed)) {
    throw new FeedError(`it redirects to ${url.protocol}//${url.host}, which is not https`);
  }
  return await outgoingRequest({
    url,
    headers: { accept: 'application/json', ...(etag && { 'if-none-match': etag }) },
    allowPrivateAddress: isPrivateAllowed,
    signal,
  });
}

/** A host that the deployment allows, or loopback if the feed itself is there: a feed elsewhere can't redirect to it. */
function mayBePrivate({ url: configured, hosts }: FeedSource, url: URL): boolean {
  return hosts.allows(url) || (isLoopback(configured) && isLoopback(url));
}

function isLoopback({ hostname }: URL): boolean {
  const host = hostname.replace(/^\[|\]$/g, '');
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

async function documentOf(
  response: IncomingMessage,
  etag: string | null,
  limits: FetchLimits,
): Promise<FetchedFeed> {
  const { statusCode, headers } = response;
  if (statusCode === 304 && etag) {
    response.destroy();
    return { text: undefined, etag };
  }
  if (statusCode !== 200) {
    response.destroy();
    throw new FeedError(`its server answered with ${statusCode}`);
  }
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    response.destroy();
    throw new FeedError('its server compressed it, although that was not asked for');
  }
  const text = await readAtMost(response, limits.maxBytes);
  return { text, etag: headers.etag && headers.etag.length <= MAX_ETAG ? headers.etag : null };
}

async function readAtMost(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Leaving the loop closes the connection.
    if (size > maxBytes) throw new FeedError(`it is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function asFeedError(error: unknown): FeedError {
  if (error instanceof FeedError) return error;
  const { code } = error as NodeJS.ErrnoException;
  if (code === NOT_PUBLIC) {
    return new FeedError(
      'its host, or where it redirects to, has an address that is not public; to allow it, add the host to ALLOWED_UPSTREAM_HOSTS',
    );
  }
  return new FeedError(`it can't be fetched${typeof code === 'string' ? ` (${code})` : ''}`, {
    cause: error,
  });
}
