import { create, type DescMessage, type Message, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, status } from '@grpc/grpc-js';
import {
  ControlService,
  callUnary,
  canNameProducers,
  namedProducers,
  newProducerKey,
  openBidi,
  type ProducerKey,
  pathOf,
  SettleResponseResponse_Result as Result,
  signCall,
  tokenMetadata,
  type WatchRequest,
  WatchRequestSchema,
} from '@weighbridge/contracts';
import { mintToken, newUuid } from '@weighbridge/domain';
import { closeEpoch as endEpoch, registerProducer } from '@weighbridge/ledger';
import { createLogger } from '@weighbridge/runtime';
import { useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../config.ts';
import { startControlPlane } from '../../controlPlane.ts';
import { recordRunWatermarks, servingProxies } from './producers.service.ts';

/** A proxy that was taken over: it has CONTROL_PLANE_TOKEN and a key of its own, and names another proxy's producer. */

const TOKEN = 'a token that the apps share';
const database = useDatabase();
const closing: (() => unknown)[] = [];
const { key: victim } = newProducerKey();
const { key: attacker } = newProducerKey();
let client: Client;

beforeAll(async () => {
  client = await start({});
});
afterAll(async () => {
  for (const step of closing) await step();
});

async function start(env: Record<string, string>): Promise<Client> {
  const logger = createLogger('test');
  logger.level = 'silent';
  const context = {
    logger,
    onShutdown: (_name: string, step: () => unknown) => void closing.unshift(step),
    fail: (error: Error) => {
      throw error;
    },
  };
  const config = loadConfig({
    DATABASE_URL: database.url,
    CONTROL_PLANE_TOKEN: TOKEN,
    PORT: '0',
    GRPC_PORT: '0',
    WEIGHBRIDGE_BOOTSTRAP_KEY: mintToken(),
    ...env,
  });
  const { db } = database;
  const { grpcAddress } = await startControlPlane(
    config,
    { pools: { writes: db, leases: db, lookups: db, reports: db }, now: () => new Date() },
    context,
  );
  const opened = new Client(grpcAddress, credentials.createInsecure());
  closing.unshift(() => opened.close());
  return opened;
}

type Method = (typeof ControlService.methods)[number];

/** Every way to name a producer in a request of this type: one message each, with the producer in one field. */
function naming(schema: DescMessage, producerId: string): Message[] {
  return schema.fields.flatMap((field) => {
    const wrap = (value: unknown) =>
      create(
        schema,
        (field.oneof
          ? { [field.oneof.localName]: { case: field.localName, value } }
          : { [field.localName]: field.fieldKind === 'list' ? [value] : value }) as never,
      );
    if (field.name === 'producer_id') return [wrap(producerId)];
    return field.message && canNameProducers(field.message)
      ? naming(field.message, producerId).map(wrap)
      : [];
  });
}

interface Proof {
  readonly by: ProducerKey;
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** The status of a call with a request, and a proof or none. */
async function statusOf(
  to: Client,
  method: Method,
  request: Message,
  proof: Proof | undefined,
): Promise<number> {
  const metadata = tokenMetadata(TOKEN);
  if (proof) signCall(metadata, proof.path, proof.bytes, proof.by);
  if (method.methodKind === 'unary') {
    return await callUnary(to, method as never, request as never, { timeoutMs: 5_000, metadata }).then(
      () => status.OK,
      (error: { code: number }) => error.code,
    );
  }
  const stream = openBidi(to, ControlService.method.watch, metadata);
  return await new Promise((resolve) => {
    stream.on('status', ({ code }) => resolve(code));
    stream.on('error', () => {});
    stream.on('data', () => {
      stream.end();
      resolve(status.OK);
    });
    stream.write(request as WatchRequest);
  });
}

const NAMING = ControlService.methods.filter((method) => canNameProducers(method.input));

describe('a call that names another producer', () => {
  it.each(NAMING.map((method) => [method.name, method] as const))(
    '%s is refused without its signature, with that of others, of another call, or of other content',
    async (_name, method) => {
      const requests = naming(method.input, victim.producerId);
      expect(requests.length).toBeGreaterThan(0);
      for (const request of requests) {
        expect(namedProducers(method.input, request).filter((id) => id !== '')).toEqual([victim.producerId]);
        const bytes = toBinary(method.input, request);
        const proofs: (Proof | undefined)[] = [
          undefined,
          { by: attacker, path: pathOf(method), bytes },
          { by: victim, path: '/weighbridge.v1.ControlService/Other', bytes },
          { by: victim, path: pathOf(method), bytes: Buffer.concat([bytes, Buffer.of(0)]) },
        ];
        for (const proof of proofs) {
          expect(await statusOf(client, method, request, proof)).toBe(status.PERMISSION_DENIED);
        }
        expect(await statusOf(client, method, request, { by: victim, path: pathOf(method), bytes })).not.toBe(
          status.PERMISSION_DENIED,
        );
      }
    },
  );

  it('is refused in each form of a UUID that Postgres reads', async () => {
    const { producerId } = victim;
    const bare = producerId.replaceAll('-', '');
    for (const form of [
      producerId.toUpperCase(),
      bare,
      `{${producerId}}`,
      ` ${producerId}`,
      `${bare.slice(0, 4)}-${bare.slice(4)}`,
    ]) {
      for (const method of NAMING) {
        for (const request of naming(method.input, form)) {
          expect(await statusOf(client, method, request, undefined)).toBe(status.INVALID_ARGUMENT);
        }
      }
    }
  });

  it('counts unsigned while ACCEPT_UNSIGNED_CALLS is set', async () => {
    const { method } = ControlService;
    const tolerant = await start({ ACCEPT_UNSIGNED_CALLS: 'true' });
    for (const producerId of [victim.producerId, newUuid()]) {
      expect(await statusOf(tolerant, method.closeEpoch, ended(producerId), undefined)).toBe(status.OK);
    }
  });
});

const ended = (producerId: string) =>
  create(ControlService.method.closeEpoch.input, { producerId, epoch: newUuid(), lastN: [0n, 0n, 0n, 0n] });

describe('a producer of release 0.1.0, which has no key,', () => {
  beforeEach(() => sql`TRUNCATE producers, producer_shards, stored_responses CASCADE`.execute(database.db));
  /** Calls that name no one, or a producer that no one knows. */
  const unknown = () =>
    ['', newUuid()].flatMap((producerId) =>
      NAMING.flatMap((method) =>
        naming(method.input, producerId).map((request) => [method, request] as const),
      ),
    );
  const expectRefused = async () => {
    for (const [method, request] of unknown()) {
      const own = { by: attacker, path: pathOf(method), bytes: toBinary(method.input, request) };
      // The signature of a producer that isn't named proves nothing.
      for (const proof of [undefined, own]) {
        expect(await statusOf(client, method, request, proof), method.name).toBe(status.PERMISSION_DENIED);
      }
    }
  };

  it('is refused with a new id, and with none, unless one is live; nothing is recorded or leased', async () => {
    await expectRefused();
    expect(await database.db.selectFrom('producers').selectAll().execute()).toEqual([]);
    expect(await database.db.selectFrom('stored_responses').selectAll().execute()).toEqual([]);
  });

  it('counts if it is known; with a new id or none while another is live, until the last has ended', async () => {
    const [live, epoch] = [newUuid(), newUuid()];
    await registerProducer(database.db, {
      producerId: live,
      epoch,
      name: 'old',
      signsUsage: false,
      now: new Date(),
    });
    for (const [method, request] of unknown()) {
      expect(await statusOf(client, method, request, undefined), method.name).not.toBe(
        status.PERMISSION_DENIED,
      );
    }
    await database.db
      .updateTable('producers')
      .set({ state: 'closed', ended_at: new Date() })
      .where(sql<boolean>`substr(producer_id::text, 15, 1) <> '8'`)
      .execute();
    await expectRefused();
    const { closeEpoch } = ControlService.method;
    expect(await statusOf(client, closeEpoch, ended(live), undefined)).toBe(status.OK);
  });

  it('is not made live by a producer with a key', async () => {
    const run = { producerId: attacker.producerId, epoch: newUuid(), name: 'new', now: new Date() };
    await registerProducer(database.db, { ...run, signsUsage: false });
    await expectRefused();
  });
});

describe('a proxy that was taken over', () => {
  const call = (key: ProducerKey) => ({ timeoutMs: 5_000, metadata: tokenMetadata(TOKEN), key });

  it("does not settle another proxy's background response, whatever it claims", async () => {
    const { method } = ControlService;
    const response = { connectorId: 'con_1', principalId: 'ada' };
    const eventId = newUuid();
    const record = (key: ProducerKey, responseId: string) =>
      callUnary(
        client,
        method.recordResponse,
        {
          ...response,
          responseId,
          keyId: 'key_1',
          producerId: key.producerId,
          unfinished: { eventId, model: 'mock/echo', producerId: key.producerId },
        },
        call(key),
      );
    await record(victim, 'resp_victim');
    const settle = async (key: ProducerKey, responseId: string, producerId = key.producerId) =>
      (
        await callUnary(
          client,
          method.settleResponse,
          { ...response, responseId, producerId, usage: {} },
          call(key),
        )
      ).result;
    // The victim never said hello: no one waits for it.
    expect(await settle(attacker, 'resp_victim')).toBe(Result.UNKNOWN);
    await expect(settle(attacker, 'resp_victim', '')).rejects.toMatchObject({
      code: status.PERMISSION_DENIED,
    });
    expect(await settle(victim, 'resp_victim')).toBe(Result.PENDING);
    // It claims an id that is not recorded, for the victim's attempt.
    await record(attacker, 'resp_claimed');
    await database.db.insertInto('usage_events').values(attemptOf(victim.producerId, eventId)).execute();
    expect(await settle(attacker, 'resp_claimed')).toBe(Result.UNKNOWN);
    expect(await settle(victim, 'resp_victim')).toBe(Result.SETTLED);
  });

  it("does not take the place of another proxy's process", async () => {
    const epoch = newUuid();
    const hello = (producer: ProducerKey) => {
      const request = create(WatchRequestSchema, {
        message: {
          case: 'hello',
          value: {
            proxyId: epoch,
            producerId: producer.producerId,
            signsUsage: true,
            version: '1',
            maxStalenessMs: 60_000,
            name: 'pod',
          },
        },
      });
      const proof = {
        by: producer,
        path: pathOf(ControlService.method.watch),
        bytes: toBinary(WatchRequestSchema, request),
      };
      return statusOf(client, ControlService.method.watch, request, proof);
    };
    expect(await hello(victim)).toBe(status.OK);
    expect(await hello(attacker)).toBe(status.PERMISSION_DENIED);
    expect(await hello(victim)).toBe(status.OK);
    // It ends the epoch of the victim's process as if it were its own.
    const own = { producerId: attacker.producerId, epoch };
    const { db } = database;
    await endEpoch(db, { ...own, lastN: [0n, 0n, 0n, 0n], now: new Date() });
    const hourAgo = new Date(Date.now() - 3_600_000);
    await db
      .updateTable('producers')
      .set({ ended_at: hourAgo })
      .where('producer_id', '=', own.producerId)
      .where('epoch', '=', epoch)
      .execute();
    const marks = { epoch, markAt: hourAgo, seenAt: hourAgo };
    expect(await recordRunWatermarks(db, [{ ...marks, producerId: victim.producerId }])).toEqual([]);
    expect((await servingProxies(db)).map(({ id }) => id)).toContain(epoch);
    expect(await hello(victim)).toBe(status.OK);
  });
});

function attemptOf(producerId: string, eventId: string) {
  const at = new Date();
  return {
    event_id: eventId,
    request_id: 'req_1',
    attempt: 1,
    model_attempt: 1,
    key_id: 'key_1',
    principal_id: 'ada',
    policy_id: 'pol_1',
    bucket_keys: ['pol_1/1/0/policy'],
    model_requested: 'mock/echo',
    model: 'mock/echo',
    connector_id: 'con_1',
    input_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 0,
    cost_nano_usd: 1_000n,
    price_version: 1,
    estimated: true,
    outcome: 'success',
    http_status: 200,
    streamed: false,
    admitted_at: at,
    settled_at: at,
    duration_us: 1,
    attribution: '{}',
    response_id: 'resp_victim',
    producer_id: producerId,
    epoch: newUuid(),
    shard: 0,
    n: 1n,
  };
}
