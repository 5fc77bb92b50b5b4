import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useNatsWithUsers } from '../../test/natsWithUsers.ts';
import { openJetStreamBucket } from '../keyValue/jetStream.ts';
import { CACHE_BUCKET, PIN_BUCKET, RESPONSE_BUCKET } from '../keyValue/keyValue.ts';
import { natsAddress } from '../nats/natsAddress.ts';
import { openJetStreamUsageStream } from '../usageStream/jetStream.ts';
import type { UsageMessage, UsageStream } from '../usageStream/usageStream.ts';
import { NATS_USERS, permissionsOf } from './permissions.ts';

const [MINE, OTHERS] = ['0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60', '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d61'];
const MIB = 2 ** 20;
const urlOf = useNatsWithUsers([
  ...NATS_USERS,
  {
    user: 'sharing',
    passwordVariable: 'NATS_SHARING_PASSWORD',
    permissions: permissionsOf('data-plane', { user: 'sharing', sharesCache: true }),
  },
  // A proxy with its own user.
  {
    user: 'proxy-a',
    passwordVariable: 'NATS_PROXY_A_PASSWORD',
    permissions: permissionsOf('data-plane', { user: 'proxy-a', producerId: MINE }),
  },
]);
const errors: string[] = [];
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  errors.length = 0;
});

const onError = (error: unknown, what: string) => void errors.push(`${what}: ${(error as Error)?.message}`);
async function open(user: string): Promise<UsageStream> {
  const stream = await openJetStreamUsageStream({
    url: urlOf(user),
    name: user,
    maxBytes: 64 * MIB,
    onError,
  });
  closing.push(() => stream.close());
  return stream;
}
async function bucket(user: string, name: string) {
  const settings = { name, ttlMs: 60_000, maxBytes: MIB, maxValueBytes: 1_000, replicas: 1 };
  const options = { url: urlOf(user), clientName: user, setBy: 'the test', onError, timeoutMs: 2_000 };
  const opened = await openJetStreamBucket(options, settings);
  closing.push(() => opened.close());
  return opened;
}
async function connection(user: string): Promise<NatsConnection> {
  const connected = await connect({ ...natsAddress(urlOf(user)), reconnect: false });
  closing.push(() => connected.close());
  return connected;
}

describe.each(['data-plane', 'sharing', 'proxy-a'])('the app with the user %s', (proxyUser) => {
  it('can do all of its work beside metering', async () => {
    const [proxy, metering] = [await open(proxyUser), await open('metering')];
    const seen: UsageMessage[] = [];
    for (let shard = 0; shard < USAGE_SHARDS; shard++)
      await metering.consume(shard, async (batch) => void seen.push(...batch));
    const acks: string[] = [];
    proxy.onAck(MINE, (payload) => void acks.push(Buffer.from(payload).toString()));
    const asked: string[] = [];
    metering.onAckRequest((payload) => void asked.push(Buffer.from(payload).toString()));
    const refused: string[] = [];
    metering.onRefusals(
      (payload, producerId) => void refused.push(`${producerId} ${Buffer.from(payload).toString()}`),
    );
    for (let shard = 0; shard < USAGE_SHARDS; shard++)
      await proxy.publish(shard, MINE, `${proxyUser}-${shard}`, Buffer.from('usage'));
    await eventually(() => expect(seen.map(({ producerId }) => producerId)).toEqual(Array(4).fill(MINE)));
    await eventually(() => {
      metering.sendAck(MINE, Buffer.from('ack'));
      proxy.requestAck(Buffer.from('request'));
      proxy.sendRefusals(MINE, Buffer.from('refused'));
      expect([acks[0], asked[0], refused[0]]).toEqual(['ack', 'request', `${MINE} refused`]);
    });
    // A shard beyond the first, as proxies with USAGE_SHARDS write.
    await proxy.publish(40, MINE, `${proxyUser}-40`, Buffer.from('usage'));
    expect(await metering.shardsInUse()).toContain(40);
    await metering.consume(40, async (batch) => void seen.push(...batch));
    await eventually(() => expect(seen).toHaveLength(USAGE_SHARDS + 1));
    metering.announce('budget_threshold', Buffer.from('{}'));
    await eventually(async () => {
      const { lastSequence, handledUpTo } = await proxy.position(41);
      expect(handledUpTo).toContain(lastSequence);
    });

    for (const name of [PIN_BUCKET, RESPONSE_BUCKET, ...(proxyUser === 'sharing' ? [CACHE_BUCKET] : [])]) {
      const pins = await bucket(proxyUser, name);
      const key = proxyUser;
      const revision = await pins.create(key, Buffer.from('a'));
      expect(await pins.update(key, Buffer.from('b'), revision ?? 0)).toBeGreaterThan(revision ?? 0);
      await pins.put(key, Buffer.from('c'));
      expect(Buffer.from((await pins.get(key))?.value ?? []).toString()).toBe('c');
      await pins.delete(key);
      expect(await pins.get(key)).toBeUndefined();
    }
    expect(errors).toEqual([]);
  });
});

const USAGE = `usage.v2.s0.${OTHERS}`;
const HARM = {
  'send acks': `usage.confirms.${OTHERS}`,
  'delete the stream': '$JS.API.STREAM.DELETE.USAGE_EVENTS',
  'purge the stream': '$JS.API.STREAM.PURGE.USAGE_EVENTS',
  'change the stream': '$JS.API.STREAM.UPDATE.USAGE_EVENTS',
  'read usage out of the stream': '$JS.API.STREAM.MSG.GET.USAGE_EVENTS',
  'read usage directly': '$JS.API.DIRECT.GET.USAGE_EVENTS',
  'delete usage': '$JS.API.STREAM.MSG.DELETE.USAGE_EVENTS',
  'restore a stream': '$JS.API.STREAM.RESTORE.USAGE_EVENTS',
  'make its own stream': '$JS.API.STREAM.CREATE.MINE',
  "take metering's messages": '$JS.API.CONSUMER.MSG.NEXT.USAGE_EVENTS.metering-s0',
  "acknowledge metering's messages": '$JS.ACK.USAGE_EVENTS.metering-s0.1.1.1.1.1',
  'make a consumer of usage': '$JS.API.CONSUMER.CREATE.USAGE_EVENTS.mine',
  "delete metering's consumer": '$JS.API.CONSUMER.DELETE.USAGE_EVENTS.metering-s0',
  'make a consumer of pins': `$JS.API.CONSUMER.CREATE.KV_${PIN_BUCKET}`,
  'delete the pins': `$JS.API.STREAM.DELETE.KV_${PIN_BUCKET}`,
  'announce events': 'events.v1.budget_threshold',
  'answer in the name of the server': '_INBOX.metering.x',
  'use other subjects': 'anything.else',
} as const;
const CACHE_OF_PROXIES = {
  'read the response cache': `$JS.API.STREAM.MSG.GET.KV_${CACHE_BUCKET}`,
  'write the response cache': `$KV.${CACHE_BUCKET}.k`,
  'read the session pins': `$JS.API.STREAM.MSG.GET.KV_${PIN_BUCKET}`,
  'write the session pins': `$KV.${PIN_BUCKET}.k`,
  'read stored responses': `$JS.API.STREAM.MSG.GET.KV_${RESPONSE_BUCKET}`,
  'write stored responses': `$KV.${RESPONSE_BUCKET}.k`,
} as const;
const UNLESS_METERING = new Set<string>([
  HARM['send acks'],
  HARM["take metering's messages"],
  HARM["acknowledge metering's messages"],
  HARM['make a consumer of usage'],
  HARM['announce events'],
]);

const REFUSED_PUBLISHING: [user: string, what: string, subject: string][] = [
  ...Object.entries(HARM).flatMap(([what, subject]): [string, string, string][] => [
    ['data-plane', what, subject],
    ['proxy-a', what, subject],
    ...(UNLESS_METERING.has(subject) ? [] : [['metering', what, subject] as [string, string, string]]),
  ]),
  ['proxy-a', "send another producer's usage", USAGE],
  ['proxy-a', 'send usage of no producer', 'usage.v2.s0'],
  ['data-plane', 'send usage of no producer', 'usage.v2.s0'],
  ['metering', 'send usage', USAGE],
  ['metering', 'send refused requests', `usage.refusals.${OTHERS}`],
  ['proxy-a', "send another producer's refused requests", `usage.refusals.${OTHERS}`],
  ...Object.entries(CACHE_OF_PROXIES).map(([what, subject]): [string, string, string] => [
    'metering',
    what,
    subject,
  ]),
  // Unless it is used.
  ...[`$JS.API.STREAM.CREATE.KV_${CACHE_BUCKET}`, ...Object.values(CACHE_OF_PROXIES).slice(0, 2)].map(
    (subject): [string, string, string] => ['data-plane', 'use the response cache', subject],
  ),
];

const REFUSED_LISTENING: [user: string, what: string, subject: string][] = [
  ...['data-plane', 'proxy-a', 'metering'].flatMap((user): [string, string, string][] => [
    [user, 'everything', '>'],
    [user, 'all usage', 'usage.>'],
    [user, "another producer's usage", USAGE],
    [user, 'the response cache', `$KV.${CACHE_BUCKET}.>`],
    [user, 'all replies', '_INBOX.>'],
    [user, 'what is asked of the server', '$JS.API.>'],
    [user, 'events', 'events.v1.*'],
  ]),
  ['data-plane', "metering's replies", '_INBOX.metering.>'],
  ['data-plane', 'requests for acks', 'usage.confirm-queries'],
  ['data-plane', 'refused requests', 'usage.refusals.*'],
  ['proxy-a', "another producer's acks", `usage.confirms.${OTHERS}`],
  ['proxy-a', "other proxies' replies", '_INBOX.data-plane.>'],
  ['metering', "proxies' replies", '_INBOX.data-plane.>'],
  ['metering', 'acks', 'usage.confirms.*'],
];

describe('the server refuses', () => {
  beforeAll(async () => {
    // What is attacked exists.
    const stream = await open('operator');
    for (let shard = 0; shard < USAGE_SHARDS; shard++)
      await (await stream.consume(shard, async () => {})).stop();
    for (const name of [PIN_BUCKET, RESPONSE_BUCKET, CACHE_BUCKET]) await bucket('sharing', name);
  });

  it.each(REFUSED_PUBLISHING)('%s to %s (%s)', async (user, _what, subject) => {
    const attacker = await connection(user);
    const refused = refusalsOf(attacker);
    attacker.publish(subject, 'x', { reply: `_INBOX.${user}.reply` });
    await attacker.flush();
    await eventually(() => expect(refused).toEqual([`publish ${subject}`]));
  });

  it.each(REFUSED_LISTENING)('%s to listen to %s (%s)', async (user, _what, subject) => {
    const attacker = await connection(user);
    const refused = refusalsOf(attacker);
    attacker.subscribe(subject, { callback: () => {} });
    await attacker.flush();
    await eventually(() => expect(refused).toEqual([`subscription ${subject}`]));
  });

  it('clients with no user, or a wrong password', async () => {
    const url = new URL(urlOf('data-plane').replace('nats:', 'http:')).host;
    await expect(openJetStreamUsageStream({ url, name: 'x', onError })).rejects.toThrow(
      'NATS refuses the user and password of NATS_URL',
    );
    const wrong = `nats://data-plane:wrong@${url}`;
    await expect(openJetStreamUsageStream({ url: wrong, name: 'x', onError })).rejects.toThrow(
      'NATS refuses',
    );
  });

  it('a new configuration of a stream that exists', async () => {
    const manager = await jetstreamManager(await connection('data-plane'));
    await expect(
      manager.streams.add({ name: 'USAGE_EVENTS', subjects: ['usage.v2.*.*'], max_msgs: 1 }),
    ).rejects.toThrow(/already in use/);
    const { config } = await manager.streams.info('USAGE_EVENTS');
    expect(config.max_msgs).toBe(-1);
    await expect(manager.consumers.add('USAGE_EVENTS', { ack_policy: AckPolicy.None })).rejects.toThrow(
      /Permissions/,
    );
    await expect(jetstream(await connection('metering')).publish(USAGE, 'x')).rejects.toThrow(/Permissions/);
  });
});

/** What the server refused to a connection. */
function refusalsOf(connected: NatsConnection): string[] {
  const refused: string[] = [];
  void (async () => {
    for await (const status of connected.status()) {
      if (status.type !== 'error') continue;
      const { operation, subject } = status.error as Error & { operation?: string; subject?: string };
      refused.push(`${operation} ${subject}`);
    }
  })();
  return refused;
}
