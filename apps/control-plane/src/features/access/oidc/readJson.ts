import { lookup } from 'node:dns';
import { type ClientRequestArgs, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { assertPublicHost, publicLookup } from '@weighbridge/runtime';

export interface JsonRequest {
  readonly url: URL;
  /** Whether it may lead to an address that is not of the public internet. */
  readonly allowPrivateAddress: boolean;
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/** Reads a small JSON document. Follows no redirect, and rejects what is larger or slower than it may be. */
export async function readJson(request: JsonRequest): Promise<unknown> {
  const { url, allowPrivateAddress, timeoutMs } = request;
  if (!allowPrivateAddress) assertPublicHost(url.hostname);
  const args: ClientRequestArgs = {
    headers: { accept: 'application/json', 'accept-encoding': 'identity', 'user-agent': 'weighbridge' },
    // A connection of its own, to an address that was looked at.
    agent: false,
    lookup: (allowPrivateAddress ? lookup : publicLookup) as LookupFunction,
    signal: AbortSignal.timeout(timeoutMs),
  };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const call =
      url.protocol === 'https:' ? httpsRequest(url, args, resolve) : httpRequest(url, args, resolve);
    call.on('error', reject);
    call.end();
  });
  if (answer.statusCode !== 200) {
    answer.destroy();
    throw new Error(`${url.href} answered with ${answer.statusCode}`);
  }
  return JSON.parse(await readAtMost(answer, request));
}

async function readAtMost(answer: IncomingMessage, { url, maxBytes }: JsonRequest): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Leaving the loop destroys the connection.
    if (size > maxBytes) throw new Error(`${url.href} has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
