import { lookup } from 'node:dns';
import { type ClientRequestArgs, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { assertPublicHost, publicLookup } from '@weighbridge/runtime';

export interface JsonRequest {
  readonly url: URL;
  /** Whether the host may have an address that is not public. */
  readonly allowPrivateAddress: boolean;
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/** Reads a JSON document. Follows no redirects; rejects if it exceeds the size or the time. */
export async function readJson(request: JsonRequest): Promise<unknown> {
  const { url, allowPrivateAddress, timeoutMs } = request;
  if (!allowPrivateAddress) assertPublicHost(url.hostname);
  const args: ClientRequestArgs = {
    headers: { accept: 'application/json', 'accept-encoding': 'identity', 'user-agent': 'weighbridge' },
    // No agent: a pooled connection would skip the check of the address.
    agent: false,
    lookup: (allowPrivateAddress ? lookup : publicLookup) as LookupFunction,
    signal: AbortSignal.timeout(timeoutMs),
  };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const call =
      url.protocol === 'https:' ? httpsRequest(url, args, resolve) : httpRequest(url, args, resolve);
    call.on('error', reject);
    call.end();
  });
  if (response.statusCode !== 200) {
    response.destroy();
    throw new Error(`${url.href} answered with ${response.statusCode}`);
  }
  return JSON.parse(await readAtMost(response, request));
}

async function readAtMost(response: IncomingMessage, { url, maxBytes }: JsonRequest): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Leaving the loop closes the connection.
    if (size > maxBytes) throw new Error(`${url.href} has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
