import type { UsageStream } from '@weighbridge/bus';
import type { Tracing } from '@weighbridge/runtime';

/** Wraps a stream so that each publication is a span, whose context travels with the message. */
export function tracedStream(stream: UsageStream, tracing: Tracing): UsageStream {
  // One by one: a spread would lose the methods of a class.
  return {
    consume: (shard, handle) => stream.consume(shard, handle),
    position: (shards) => stream.position(shards),
    shardsInUse: () => stream.shardsInUse(),
    sendAck: (producerId, payload) => stream.sendAck(producerId, payload),
    onAck: (producerId, handle) => stream.onAck(producerId, handle),
    requestAck: (payload) => stream.requestAck(payload),
    onAckRequest: (handle) => stream.onAckRequest(handle),
    sendRefusals: (producerId, payload) => stream.sendRefusals(producerId, payload),
    onRefusals: (handle) => stream.onRefusals(handle),
    announce: (name, payload) => stream.announce(name, payload),
    onReconnect: (handle) => stream.onReconnect(handle),
    close: () => stream.close(),
    async publish(shard, producerId, messageId, payload) {
      const span = tracing.begin('publish usage', {
        kind: 'producer',
        attributes: {
          'messaging.message.id': messageId,
          'messaging.message.body.size': payload.length,
          'weighbridge.usage.shard': shard,
        },
      });
      let errorType: string | undefined = 'not_stored';
      try {
        const stored = await stream.publish(shard, producerId, messageId, payload, span.headers.traceparent);
        errorType = undefined;
        return stored;
      } finally {
        span.end(errorType);
      }
    },
  };
}
