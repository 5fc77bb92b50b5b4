import { create, equals, type MessageInitShape } from '@bufbuild/protobuf';
import type { ServerDuplexStream } from '@grpc/grpc-js';
import {
  type Snapshot,
  SnapshotSchema,
  type WatchRequest,
  type WatchResponse,
  WatchResponseSchema,
} from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';

type WatchStream = ServerDuplexStream<WatchRequest, WatchResponse>;

export interface WatcherDeps {
  readonly logger: Logger;
  readonly readRevision: () => Promise<bigint>;
  readonly readSnapshot: () => Promise<MessageInitShape<typeof SnapshotSchema>>;
  readonly pollMs?: number;
  /** How long a snapshot is good for though the revision stays: a credential in a file changes without one. */
  readonly refreshMs?: number;
}

export interface Watchers {
  /** Serves a proxy's stream until either side ends it. */
  add(stream: WatchStream): void;
  close(): void;
}

const POLL_MS = 1_000;
const REFRESH_MS = 30_000;

/**
 * Tells every proxy the state of things: a snapshot when it comes and after each change, and a heartbeat every second.
 * While the revision can't be read there is no heartbeat, so that a proxy never takes silence for news.
 */
export function startWatchers(deps: WatcherDeps): Watchers {
  const { logger, readRevision, readSnapshot, pollMs = POLL_MS, refreshMs = REFRESH_MS } = deps;
  const streams = new Map<WatchStream, { sent: Snapshot | undefined }>();
  let snapshot: Snapshot | undefined;
  let readAt = 0;
  let closed = false;
  let polling: NodeJS.Timeout | undefined;

  async function poll(): Promise<void> {
    try {
      if (streams.size > 0) {
        const revision = await readRevision();
        const isOld = performance.now() - readAt >= refreshMs;
        if (snapshot?.revision !== revision || isOld) await renew();
        for (const stream of streams.keys()) send(stream, revision);
      }
    } catch (error) {
      logger.error({ err: error }, 'the revision could not be read; proxies get no heartbeat');
    } finally {
      if (!closed) polling = setTimeout(poll, pollMs);
    }
  }

  async function renew(): Promise<void> {
    const read = create(SnapshotSchema, await readSnapshot());
    readAt = performance.now();
    if (!snapshot || !equals(SnapshotSchema, snapshot, read)) snapshot = read;
  }

  function send(stream: WatchStream, revision: bigint): void {
    const state = streams.get(stream);
    if (!state || !snapshot) return;
    if (state.sent !== snapshot) {
      // A proxy that does not read must not make us hold every state that it missed: it gets the newest when it does.
      if (stream.writableNeedDrain) return;
      state.sent = snapshot;
      stream.write(create(WatchResponseSchema, { message: { case: 'snapshot', value: snapshot } }));
    }
    if (stream.writableNeedDrain) return;
    stream.write(create(WatchResponseSchema, { message: { case: 'heartbeat', value: { revision } } }));
  }

  async function welcome(stream: WatchStream): Promise<void> {
    streams.set(stream, { sent: undefined });
    try {
      await renew();
      if (snapshot) send(stream, snapshot.revision);
    } catch (error) {
      logger.error({ err: error }, 'a snapshot could not be read; the proxy gets it with the next poll');
    }
  }

  polling = setTimeout(poll, pollMs);
  return {
    add(stream) {
      if (closed) return void stream.end();
      stream.on('data', ({ message }: WatchRequest) => {
        if (message.case !== 'hello') return;
        logger.info(
          { proxyId: message.value.proxyId, version: message.value.version },
          'a proxy is watching',
        );
        void welcome(stream);
      });
      stream.on('error', () => streams.delete(stream));
      stream.on('close', () => streams.delete(stream));
      stream.on('end', () => {
        streams.delete(stream);
        stream.end();
      });
    },
    close() {
      closed = true;
      clearTimeout(polling);
      for (const stream of streams.keys()) stream.end();
      streams.clear();
    },
  };
}
