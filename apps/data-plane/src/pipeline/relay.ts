import type { ServerResponse } from 'node:http';
import { Outcome } from '@weighbridge/contracts';
import { estimateTokens, microFromNano, type NanoUsd } from '@weighbridge/domain';
import { toHttpError } from '@weighbridge/errors';
import { ChatStreamTap, readChatAnswer } from '../answer/chatUsage.ts';
import type { UpstreamAnswer } from '../upstream/upstreams.ts';
import { upstreamError } from '../upstream/upstreams.ts';
import type { AttemptResult } from './settle.ts';

/** What passes an answer on to its caller. */
export interface Relay {
  readonly answer: UpstreamAnswer;
  readonly client: ServerResponse;
  readonly headers: Record<string, string | string[]>;
  readonly provider: string;
  readonly requestId: string;
  /** Prices and records the attempt. The caller sees the end of the answer only after that. */
  readonly settle: (result: AttemptResult) => NanoUsd;
}

/** An answer up to this size is held until it is complete, so that its cost can stand in a header. */
const MAX_HELD_BYTES = 1024 * 1024;
/** An answer beyond this size is passed on without being read for its usage. */
const MAX_READ_BYTES = 32 * 1024 * 1024;
/** How far a vendor is listened to whose caller has left, to learn what it counted. */
const DRAIN_MS = 30_000;
const DRAIN_BYTES = 1024 * 1024;

/** Passes on an answer that is one JSON document, or whatever else is no stream of events. */
export async function relayWhole(relay: Relay): Promise<void> {
  const { answer, client, headers } = relay;
  const listener = listenToTheEnd(relay);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let firstByteAt: number | undefined;
  let failure: unknown;
  try {
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      firstByteAt ??= performance.now();
      bytes += chunk.length;
      if (bytes <= MAX_READ_BYTES) chunks.push(chunk);
      if (bytes > MAX_HELD_BYTES) {
        if (!client.headersSent) {
          client.writeHead(answer.status, headers);
          await write(client, Buffer.concat(chunks));
        } else await write(client, chunk);
      }
      if (!listener.goesOnAfter(chunk.length)) break;
    }
  } catch (error) {
    failure = error;
  }
  listener.end();

  const complete = bytes <= MAX_READ_BYTES;
  const facts =
    complete && !failure ? readChatAnswer(Buffer.concat(chunks)) : { usage: undefined, responseId: '' };
  const cost = relay.settle({
    outcome: failure
      ? Outcome.INTERRUPTED
      : answer.status >= 300
        ? Outcome.UPSTREAM_ERROR
        : listener.outcome(),
    status: answer.status,
    usage: facts.usage,
    outputTokensSeen: estimateTokens(bytes),
    responseId: facts.responseId,
    firstByteAt,
  });

  if (failure) return failClient(relay, failure);
  if (client.headersSent) return void client.end();
  const body = Buffer.concat(chunks);
  const costHeader = answer.status < 300 && { 'x-svc-cost-micro-usd': String(microFromNano(cost)) };
  client.writeHead(answer.status, { ...headers, ...costHeader, 'content-length': body.length });
  client.end(body);
}

/** Passes on a stream of events as it comes. */
export async function relayStream(relay: Relay, options: { readonly hideUsage: boolean }): Promise<void> {
  const { answer, client, headers } = relay;
  const listener = listenToTheEnd(relay);
  const tap = new ChatStreamTap(options);
  let firstByteAt: number | undefined;
  let failure: unknown;
  client.writeHead(answer.status, headers);
  client.flushHeaders();
  try {
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      firstByteAt ??= performance.now();
      await write(client, tap.push(chunk));
      if (!listener.goesOnAfter(chunk.length)) break;
    }
    await write(client, tap.end());
  } catch (error) {
    failure = error;
  }
  listener.end();

  const { usage, responseId } = tap.facts;
  relay.settle({
    outcome: failure ? Outcome.INTERRUPTED : tap.failed ? Outcome.UPSTREAM_ERROR : listener.outcome(),
    status: answer.status,
    usage,
    outputTokensSeen: tap.chunks,
    responseId,
    firstByteAt,
  });
  if (failure) failClient(relay, failure);
  else client.end();
}

/** Writes as fast as the caller reads, and to nobody once it has left. */
function write(client: ServerResponse, bytes: Buffer): Promise<void> | undefined {
  if (bytes.length === 0 || client.destroyed || client.write(bytes)) return undefined;
  return new Promise((resolve) => {
    const goOn = () => {
      client.off('drain', goOn);
      client.off('close', goOn);
      resolve();
    };
    client.on('drain', goOn);
    client.on('close', goOn);
  });
}

/** Keeps count of how far a vendor is still listened to after its caller has left. */
function listenToTheEnd({ client, answer }: Relay) {
  let left = false;
  let drained = 0;
  let timer: NodeJS.Timeout | undefined;
  const leave = () => {
    if (client.writableFinished) return;
    left = true;
    timer = setTimeout(() => answer.body.destroy(), DRAIN_MS);
  };
  if (client.destroyed) leave();
  else client.once('close', leave);
  return {
    goesOnAfter(bytes: number): boolean {
      if (left) drained += bytes;
      return drained <= DRAIN_BYTES;
    },
    outcome: () => (left ? Outcome.CLIENT_GONE : Outcome.SUCCESS),
    end() {
      clearTimeout(timer);
      client.off('close', leave);
    },
  };
}

/** Tells the caller that the vendor failed it: by a status where that is still possible, else within the stream. */
function failClient({ client, headers: sent, provider, requestId }: Relay, failure: unknown): void {
  const { status, headers, body } = toHttpError(upstreamError(failure, provider), requestId);
  const text = JSON.stringify(body);
  if (!client.headersSent) {
    client.writeHead(status, { ...headers, 'x-request-id': requestId, 'content-type': 'application/json' });
    client.end(text);
  } else if (isEventStream(sent['content-type'])) client.end(`data: ${text}\n\n`);
  // Half a document with a good end would pass for a whole one.
  else client.destroy();
}

export function isEventStream(contentType: unknown): boolean {
  return typeof contentType === 'string' && contentType.toLowerCase().startsWith('text/event-stream');
}
