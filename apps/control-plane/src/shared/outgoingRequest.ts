import { lookup } from 'node:dns';
import { type ClientRequestArgs, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { assertPublicHost, publicLookup } from '@weighbridge/runtime';

export interface OutgoingRequest {
  /** Default: GET. */
  readonly method?: 'GET' | 'POST';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The deployment allows its host to have a private address. */
  readonly allowPrivateAddress: boolean;
  readonly signal: AbortSignal;
}

/**
 * Sends a request to a host that an operator named. It goes to public addresses only, unless a private one is allowed, and
 * follows no redirect. Rejects with the code `NOT_PUBLIC` for another address.
 */
export async function outgoingRequest(request: OutgoingRequest): Promise<IncomingMessage> {
  const { method = 'GET', url, headers, body, allowPrivateAddress, signal } = request;
  if (!allowPrivateAddress) assertPublicHost(url.hostname);
  const args: ClientRequestArgs = {
    method,
    headers: { 'accept-encoding': 'identity', 'user-agent': 'weighbridge', ...headers },
    // A new connection, to an address that was checked: a pooled one may go elsewhere.
    agent: false,
    lookup: (allowPrivateAddress ? lookup : publicLookup) as LookupFunction,
    signal,
  };
  return await new Promise<IncomingMessage>((resolve, reject) => {
    const call =
      url.protocol === 'https:' ? httpsRequest(url, args, resolve) : httpRequest(url, args, resolve);
    call.on('error', reject);
    // Without a listener, such an answer ends the connection and nothing else happens: the request would never settle.
    call.on('upgrade', (response, socket) => {
      socket.destroy();
      reject(new Error(`it answered with ${response.statusCode}, to switch to another protocol`));
    });
    call.end(body);
  });
}

/** The beginning of a response, up to a number of bytes; the rest is not read. */
export async function readStart(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    // Leaving the loop destroys the connection.
    if (size >= maxBytes) break;
  }
  return Buffer.concat(chunks).toString('utf8', 0, maxBytes);
}
