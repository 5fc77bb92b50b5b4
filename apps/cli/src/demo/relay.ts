import type { ChildProcess } from 'node:child_process';
import type { Subscription, UsageStream } from '@weighbridge/bus';

/** What a proxy's process sends to the one that holds the usage stream, over Node's channel between the two. */
export type RelayRequest =
  | {
      readonly op: 'publish';
      readonly call: number;
      readonly args: Parameters<UsageStream['publish']>;
    }
  | { readonly op: 'position'; readonly call: number; readonly shards: number | undefined }
  | { readonly op: 'onAck'; readonly producerId: string }
  | { readonly op: 'requestAck'; readonly payload: Uint8Array }
  | { readonly op: 'sendRefusals'; readonly producerId: string; readonly payload: Uint8Array }
  | { readonly op: 'ready'; readonly url: string };

/** What it gets back. */
export type RelayReply =
  | { readonly op: 'result'; readonly call: number; readonly value: unknown }
  | { readonly op: 'failed'; readonly call: number; readonly message: string }
  | { readonly op: 'ack'; readonly producerId: string; readonly payload: Uint8Array };

/**
 * Serves the stream of this process to a proxy in another one, which needs no NATS then. Resolves with the proxy's address once
 * it is ready; rejects if it ends before.
 */
export function serveRelay(child: ChildProcess, stream: UsageStream): Promise<string> {
  const listening: Subscription[] = [];
  const send = (reply: RelayReply) => {
    // A killed process gets nothing more: its spool is read by its successor.
    if (child.connected) child.send(reply, () => {});
  };
  const answer = (call: number, work: Promise<unknown>) =>
    work.then(
      (value) => send({ op: 'result', call, value }),
      (error: Error) => send({ op: 'failed', call, message: error.message }),
    );
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.once('exit', (code, signal) => {
      for (const one of listening) void one.stop();
      reject(new Error(`a proxy ended before it was ready (${signal ?? code})`));
    });
    child.on('message', (message) => {
      const request = message as RelayRequest;
      if (request.op === 'publish') void answer(request.call, stream.publish(...request.args));
      if (request.op === 'position') void answer(request.call, stream.position(request.shards));
      if (request.op === 'requestAck') stream.requestAck(request.payload);
      if (request.op === 'sendRefusals') stream.sendRefusals(request.producerId, request.payload);
      if (request.op === 'ready') resolve(request.url);
      if (request.op === 'onAck') {
        const { producerId } = request;
        listening.push(stream.onAck(producerId, (payload) => send({ op: 'ack', producerId, payload })));
      }
    });
  });
}
