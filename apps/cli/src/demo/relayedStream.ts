import type { UsageStream } from '@weighbridge/bus';
import type { RelayReply, RelayRequest } from './relay.ts';

const TIMEOUT_MS = 5_000;

/** The usage stream of the parent process, for a proxy in a process of its own. */
export function createRelayedStream(): UsageStream {
  let calls = 0;
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  const acks = new Map<string, Set<(payload: Uint8Array) => void>>();
  const send = (request: RelayRequest) => process.send?.(request, undefined, {}, () => {});

  process.on('message', (message) => {
    const reply = message as RelayReply;
    if (reply.op === 'ack') {
      for (const handle of acks.get(reply.producerId) ?? []) handle(reply.payload);
      return;
    }
    const call = waiting.get(reply.call);
    waiting.delete(reply.call);
    if (reply.op === 'result') call?.resolve(reply.value);
    else call?.reject(new Error(reply.message));
  });

  const ask = async (request: (call: number) => RelayRequest) => {
    const call = ++calls;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<unknown>((resolve, reject) => {
        waiting.set(call, { resolve, reject });
        timer = setTimeout(() => reject(new Error('the usage stream does not respond')), TIMEOUT_MS);
        send(request(call));
      });
    } finally {
      clearTimeout(timer);
      waiting.delete(call);
    }
  };
  const none = { stop: async () => {} };
  return {
    publish: (...args) =>
      ask((call) => ({ op: 'publish', call, args })) as ReturnType<UsageStream['publish']>,
    position: (shards) =>
      ask((call) => ({ op: 'position', call, shards })) as ReturnType<UsageStream['position']>,
    onAck(producerId, handle) {
      const handlers = acks.get(producerId) ?? new Set();
      if (handlers.size === 0) send({ op: 'onAck', producerId });
      acks.set(producerId, handlers.add(handle));
      return {
        stop: async () => {
          handlers.delete(handle);
        },
      };
    },
    requestAck: (payload) => void send({ op: 'requestAck', payload }),
    sendRefusals: (producerId, payload) => void send({ op: 'sendRefusals', producerId, payload }),
    // A proxy reads no usage and announces nothing: that is metering's part.
    consume: () => Promise.reject(new Error('a proxy does not read the usage stream')),
    shardsInUse: () => Promise.reject(new Error('a proxy does not read the usage stream')),
    sendAck() {},
    onAckRequest: () => none,
    onRefusals: () => none,
    announce() {},
    onReconnect: () => none,
    close: async () => {},
  };
}
