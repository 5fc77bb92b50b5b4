import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServerDuplexStream, status } from '@grpc/grpc-js';
import {
  type CloseEpochRequest,
  ControlService,
  type Delta,
  type DeltaSchema,
  grpcService,
  type Hello,
  type TableRow,
  type WatchRequest,
  type WatchResponse,
  WatchResponseSchema,
} from '@weighbridge/contracts';
import { createLogger } from '@weighbridge/runtime';
import { eventually, startTcpRelay } from '@weighbridge/testing';
import { afterEach, expect, it } from 'vitest';
import { type ControlPlane, connectControlPlane } from './controlPlane.ts';
import { ControlState } from './controlState.ts';
import { HeartbeatState } from './heartbeatState.ts';
import { createKeyStore } from './keyStore.ts';
import { KeyUses } from './keyUses.ts';
import { notReadyReason } from './readiness.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Received {
  readonly watched: WatchRequest[];
  readonly ended: CloseEpochRequest[];
  /** The number of keys in each look-up. */
  readonly lookUps: number[];
  streams: number;
}

/** A control plane that records what it receives, and can refuse every proxy. */
async function startControlPlane({
  refuses,
  isOld = false,
  onHello = () => {},
}: {
  readonly refuses: boolean;
  /** Of release 0.1.0. */
  readonly isOld?: boolean;
  readonly onHello?: (stream: ServerDuplexStream<WatchRequest, WatchResponse>, hello: Hello) => void;
}) {
  const received: Received = { watched: [], ended: [], lookUps: [], streams: 0 };
  const unused = async () => ({});
  const { definition, implementation } = grpcService(
    ControlService,
    {
      watch: (stream) => {
        received.streams++;
        stream.on('data', (message: WatchRequest) => {
          received.watched.push(message);
          if (message.message.case === 'hello') onHello(stream, message.message.value);
          if (!refuses) return;
          stream.emit('error', {
            code: status.FAILED_PRECONDITION,
            details: 'Another process took over the spool.',
          });
        });
        stream.on('end', () => stream.end());
        stream.on('error', () => {});
      },
      recordFeedback: unused,
      closeEpoch: async (request) => {
        received.ended.push(request);
        return { isClosed: received.ended.length > 1 };
      },
      resolve: async ({ tokenSha256 }) => {
        received.lookUps.push(1);
        return { revision: BigInt(tokenSha256[0] ?? 0) };
      },
      resolveKeys: async ({ tokenSha256s }) => {
        received.lookUps.push(tokenSha256s.length);
        return { responses: tokenSha256s.map(([first = 0]) => ({ revision: BigInt(first) })) };
      },
      recordResponse: unused,
      findResponse: unused,
      settleResponse: unused,
      listUnsettledResponses: unused,
      lease: unused,
    },
    { onError: () => {} },
  );
  const server = new Server();
  if (isOld) delete implementation.resolveKeys;
  server.addService(definition, implementation);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  closing.push(() => server.forceShutdown());
  return { received, port };
}

function connectTo(
  port: number,
  state = new ControlState({ keys: createKeyStore(1_000), maxStalenessMs: 1_000 }),
): ControlPlane {
  const logger = createLogger('test');
  logger.level = 'silent';
  const controlPlane = connectControlPlane({
    address: `127.0.0.1:${port}`,
    token: 'a token that the apps share',
    tls: undefined,
    proxy: {
      id: 'epoch-1',
      producerId: 'producer-1',
      key: undefined,
      name: 'a',
      version: '1',
      maxStalenessMs: 1_000,
    },
    state,
    heartbeats: new HeartbeatState(),
    onEvidence: () => {},
    onReclaim: () => {},
    onTest: async () => ({}),
    keyUses: new KeyUses(),
    load: () => ({
      inFlightRequests: 1,
      waitingUsageBytes: 2,
      watermarkAgeMs: 3,
      usageLimitBytes: 4,
      connectors: [{ connectorId: 'con_1', state: 2, downForMs: 5n }],
      overhead: { boundsUs: [50], counts: [6n, 7n], windowMs: 8 },
    }),
    logger,
  });
  closing.push(() => controlPlane.close());
  return controlPlane;
}

it('reports its spool and the age of its watermark', async () => {
  const { received, port } = await startControlPlane({ refuses: false });
  connectTo(port);
  await eventually(() => expect(received.watched.length).toBeGreaterThan(1));
  expect(received.watched[0]?.message).toMatchObject({
    case: 'hello',
    value: { proxyId: 'epoch-1', producerId: 'producer-1' },
  });
  expect(received.watched[1]?.message).toMatchObject({
    case: 'status',
    value: {
      waitingUsageBytes: 2n,
      markAgeMs: 3n,
      usageLimitBytes: 4n,
      connectors: [{ connectorId: 'con_1', state: 2, downForMs: 5n }],
      overhead: { boundsUs: [50], counts: [6n, 7n], windowMs: 8 },
    },
  });
});

it('stops for good, with the reason, when another process took over its spool', async () => {
  const { received, port } = await startControlPlane({ refuses: true });
  const controlPlane = connectTo(port);
  await expect(controlPlane.firstSnapshot(10_000)).rejects.toThrow('Another process took over the spool.');
  expect(controlPlane.refusal()?.message).toContain('no longer serves this process');
  // Otherwise it would reconnect within a tenth of a second.
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(received.streams).toBe(1);
});

it('reports the end of an epoch, and learns whether the ledger has all of it', async () => {
  const { received, port } = await startControlPlane({ refuses: false });
  const controlPlane = connectTo(port);
  const ended = { producerId: 'producer-1', epoch: 'epoch-0', lastN: [1n, 0n, 7n, 2n] };
  const close = () => controlPlane.closeEpoch({ ...ended, key: undefined });
  expect(await close()).toBe(false);
  expect(await close()).toBe(true);
  expect(received.ended).toMatchObject([ended, ended]);
});

it('replaces a connection on which nothing is answered any more', async () => {
  const { port } = await startControlPlane({ refuses: false });
  const relay = await startTcpRelay(`tcp://127.0.0.1:${port}`);
  closing.push(() => relay.close());
  const controlPlane = connectTo(Number(new URL(relay.url).port));
  const call = () =>
    controlPlane.closeEpoch({ producerId: 'producer-1', epoch: 'epoch-0', lastN: [], key: undefined });
  const fails = () =>
    call().then(
      () => false,
      () => true,
    );
  expect(await fails()).toBe(false);
  relay.hang();
  let failures = 0;
  while (await fails()) failures++;
  // Each takes two seconds; by default, gRPC would keep the connection for thirty.
  expect(failures).toBeGreaterThan(0);
  expect(failures).toBeLessThan(10);
});

class BuggyState extends ControlState {
  override applyDelta(delta: Delta, rows: readonly TableRow[]) {
    if (delta.allKeys) throw new Error('a bug');
    return super.applyDelta(delta, rows);
  }
}

/** Makes a change that cannot be applied, from the revision that the proxy has. */
const UNAPPLICABLE: readonly (readonly [
  string,
  (from: bigint) => MessageInitShape<typeof DeltaSchema>,
  string,
])[] = [
  [
    'a table of 20 MiB',
    (fromRevision) => ({ fromRevision, tables: { models: [{ id: 'x'.repeat(20 * 1024 ** 2) }] } }),
    'larger than max',
  ],
  ['after a gap', (from) => ({ fromRevision: from + 1n }), 'a change is missing'],
  ['that a bug refuses', (fromRevision) => ({ fromRevision, allKeys: true }), 'could not be applied'],
];

it.each(UNAPPLICABLE)('is not ready, and says why, while it is sent an update: %s', async (_, bad, why) => {
  let isBad = false;
  let revision = 5n;
  const sent: Hello[] = [];
  const { port } = await startControlPlane({
    refuses: false,
    onHello: (stream, hello) => {
      sent.push(hello);
      const from = hello.resumeFrom?.revision;
      const position = { databaseSystemId: 'db', timeline: 1, revision };
      const message =
        from === undefined
          ? { case: 'snapshot' as const, value: { revision, position } }
          : {
              case: 'delta' as const,
              value: { fromRevision: from, toRevision: revision, ...(isBad && bad(from)) },
            };
      stream.write(create(WatchResponseSchema, { message }));
      // As a control plane does every second.
      stream.write(create(WatchResponseSchema, { message: { case: 'heartbeat', value: { revision } } }));
      if (!isBad) setTimeout(() => stream.end(), 20);
    },
  });
  const state = new BuggyState({ keys: createKeyStore(1_000), maxStalenessMs: 60_000 });
  const controlPlane = connectTo(port, state);
  const reason = () => notReadyReason({ controlPlane, state, heartbeats: new HeartbeatState() });
  await eventually(() => expect(state.position?.revision).toBe(5n));
  expect([reason(), controlPlane.failedUpdates()]).toEqual([undefined, 0]);

  isBad = true;
  revision = 6n;
  await eventually(() => expect(String(reason())).toContain(why), { timeoutMs: 15_000 });
  expect(controlPlane.failedUpdates()).toBeGreaterThanOrEqual(3);
  // Nothing that it received prolongs the use of what it knows.
  const { lastContactMs } = state;
  const streams = sent.length;
  await eventually(() => expect(sent.length).toBeGreaterThan(streams + 1), { timeoutMs: 15_000 });
  expect([state.position?.revision, state.lastContactMs]).toEqual([5n, lastContactMs]);

  isBad = false;
  await eventually(() => expect([reason(), state.position?.revision]).toEqual([undefined, 6n]), {
    timeoutMs: 15_000,
  });
  expect(controlPlane.failedUpdates()).toBe(0);
});

it('takes a table of 20 MiB in parts, which is in force once all of them arrived, and drops those of a stream that broke', async () => {
  const MODELS = 2_000;
  const price = { version: 1, rates: { input: 1n, output: 2n } };
  const parts = Array.from({ length: 100 }, (_, part) => {
    const rows = Array.from({ length: MODELS / 100 }, (_, at) => {
      const id = `acme/${part}-${at}-${'x'.repeat(10_000)}`;
      return { row: { case: 'model' as const, value: { id, provider: 'acme', price } } };
    });
    return create(WatchResponseSchema, { message: { case: 'rows', value: { rows } } });
  });
  let isWhole = false;
  let broken = 0;
  const { received, port } = await startControlPlane({
    refuses: false,
    onHello: (stream, hello) => {
      expect(hello.takesRows).toBe(true);
      const sent = isWhole ? parts : parts.slice(0, -1);
      for (const part of sent) stream.write(part);
      if (!isWhole) {
        broken++;
        stream.end();
        return;
      }
      const position = { databaseSystemId: 'db', timeline: 1, revision: 5n };
      const snapshot = { revision: 5n, position, rowParts: parts.length };
      stream.write(create(WatchResponseSchema, { message: { case: 'snapshot', value: snapshot } }));
    },
  });
  const state = new ControlState({ keys: createKeyStore(1_000), maxStalenessMs: 60_000 });
  const controlPlane = connectTo(port, state);
  await eventually(() => expect(broken).toBe(2), { timeoutMs: 15_000 });
  expect([state.position, state.table]).toEqual([undefined, undefined]);

  isWhole = true;
  await eventually(() => expect(state.position?.revision).toBe(5n), { timeoutMs: 15_000 });
  expect([state.table?.models.size, controlPlane.failedUpdates()]).toEqual([MODELS, 0]);
  expect(received.streams).toBe(3);
});

it('looks keys up together, and one by one at a control plane of release 0.1.0', async () => {
  for (const [isOld, lookUps] of [
    [false, [3, 1]],
    [true, [1, 1, 1, 1]],
  ] as const) {
    const { received, port } = await startControlPlane({ refuses: false, isOld });
    const { resolve } = connectTo(port);
    const found = await Promise.all([5, 6, 7].map((n) => resolve(Uint8Array.of(n))));
    expect(found.map(({ revision }) => revision)).toEqual([5n, 6n, 7n]);
    expect((await resolve(Uint8Array.of(8))).revision).toBe(8n);
    expect(received.lookUps).toEqual(lookUps);
  }
});
