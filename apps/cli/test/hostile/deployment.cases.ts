import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { connect } from '@nats-io/transport-node';
import { natsAddress } from '@weighbridge/bus';
import { UsageBatchSchema, UsageEventSchema } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { startApp } from '../processes.ts';
import type { HostileCase } from './hostileCase.ts';
import { type Mode, operate } from './product.ts';
import type { Scene } from './scene.ts';

/** What the parts of a deployment keep from tenants, from each other, and from other users of their machine. */
export const deploymentCases = (mode: Mode): readonly HostileCase[] => [
  ...IN_ANY_MODE,
  // Embedded mode has no NATS.
  ...(mode === 'distributed' ? BETWEEN_APPS : []),
];

const BETWEEN_APPS: readonly HostileCase[] = [
  {
    row: 'nats',
    title: 'a proxy cannot send acks, read what others send, or delete it',
    run: (scene) => refusesAll(scene, 'data-plane', [...OF_METERING, ...OF_NO_APP]),
  },
  {
    row: 'nats',
    title: 'metering cannot send usage, or reach what proxies store for themselves',
    run: (scene) => refusesAll(scene, 'metering', [...OF_PROXIES, ...OF_NO_APP]),
  },
  {
    row: 'nats',
    title: "usage on one producer's subject that names another is not recorded, nor released later",
    run: foreignUsageIsRefused,
  },
];

const OF_METERING = [
  'publish usage.confirms.0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60',
  'publish $JS.ACK.USAGE_EVENTS.metering-s0.1.1.1.1.1',
  'publish $JS.API.CONSUMER.MSG.NEXT.USAGE_EVENTS.metering-s0',
  'publish $JS.API.CONSUMER.CREATE.USAGE_EVENTS',
  // The stream of release 0.1.0.
  'publish $JS.ACK.USAGE.metering-s0.1.1.1.1.1',
  'publish $JS.API.CONSUMER.MSG.NEXT.USAGE.metering-s0',
  'publish events.v1.budget_threshold',
  'subscribe usage.v2.>',
  'subscribe _INBOX.metering.>',
];
const OF_PROXIES = [
  'publish usage.v2.s0.0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60',
  'publish $KV.SESSION_PINS.x',
  'publish $JS.API.STREAM.MSG.GET.KV_SESSION_PINS',
  'publish $JS.API.STREAM.MSG.GET.KV_RESPONSE_CACHE',
  'subscribe $KV.>',
  'subscribe _INBOX.data-plane.>',
];
const OF_NO_APP = [
  // As release 0.1.0, which knows no users.
  'publish usage.v1.s0',
  // On a name that does not exist: a server that allows it must not lose what the other cases need.
  'publish $JS.API.STREAM.DELETE.NONE',
  'publish $JS.API.STREAM.PURGE.NONE',
  'publish $JS.API.STREAM.CREATE.NONE',
  'publish $JS.API.STREAM.MSG.GET.USAGE_EVENTS',
  'publish $JS.API.STREAM.SNAPSHOT.USAGE_EVENTS',
  'subscribe >',
  'subscribe _INBOX.>',
];

/** The server refuses each of these to the app with this user. */
async function refusesAll(
  { product }: Scene,
  app: 'data-plane' | 'metering',
  attempts: readonly string[],
): Promise<void> {
  const connection = await connect(natsAddress(product.natsUrls?.[app] ?? ''));
  try {
    const refused = new Set<string>();
    void (async () => {
      for await (const status of connection.status()) {
        if (status.type !== 'error') continue;
        const { operation, subject } = status.error as { operation?: string; subject?: string };
        refused.add(`${operation === 'publish' ? 'publish' : 'subscribe'} ${subject}`);
      }
    })();
    for (const attempt of attempts) {
      const [operation, subject = ''] = attempt.split(' ');
      if (operation === 'publish') connection.publish(subject, '{');
      else connection.subscribe(subject, { callback: () => {} }).unsubscribe();
    }
    for (let at = 0; at < 2; at++) await connection.flush();
    expect(attempts.filter((attempt) => !refused.has(attempt))).toEqual([]);
  } finally {
    await connection.close();
  }
}

/** A proxy that took over the numbers of another's events would have them counted as sent. */
async function foreignUsageIsRefused({ product }: Scene): Promise<void> {
  const [own, victim, epoch] = [randomUUID(), randomUUID(), randomUUID()];
  const batch = create(UsageBatchSchema, {
    producerId: victim,
    epoch,
    shard: 0,
    firstN: 1n,
    events: [toBinary(UsageEventSchema, create(UsageEventSchema, { principalId: 'victim' }))],
  });
  const connection = await connect(natsAddress(product.natsUrls?.['data-plane'] ?? ''));
  const acks: string[] = [];
  connection.subscribe(`usage.confirms.${victim}`, {
    callback: (_error, { subject }) => void acks.push(subject),
  });
  // As an earlier release, and as this one.
  for (const subject of ['usage.v1.s0', `usage.v2.s0.${own}`])
    connection.publish(subject, toBinary(UsageBatchSchema, batch));
  await connection.flush();
  type Held = { id: string; kind: string; reason: string };
  const held = await eventually(async () => {
    const { data } = await operate(product, 'GET', '/api/v1/quarantine?state=held&page_size=500');
    // The event in it is refused too; where the message is not, that is all.
    const found = (data as Held[]).find(({ kind, reason }) => kind === 'batch' && reason.includes(own));
    if (!found) throw new Error('the message is not in quarantine');
    return found;
  });
  const path = `/api/v1/quarantine/${held.id}/release`;
  expect((await manage(product, 'POST', path)).status).toBe(422);
  expect(acks).toEqual([]);
  await connection.close();
}

const IN_ANY_MODE: readonly HostileCase[] = [
  {
    row: 'metrics',
    title: 'no one who can send a request for inference can read what others use',
    run: metricsAreNotForTenants,
  },
  {
    row: 'token',
    title:
      'no control plane serves credentials, and no proxy asks for them, without a token, on loopback either',
    run: tokenIsAlwaysRequired,
  },
];

async function metricsAreNotForTenants({ product, tenant }: Scene): Promise<void> {
  const { key } = await tenant();
  await expect(scrapes(product.inferenceUrl, key)).resolves.toEqual([]);
  await expect(scrapes(product.managementUrl, key)).resolves.toEqual([]);
  const status = async (url: string, headers: Record<string, string> = {}) =>
    (await fetch(`${url}/metrics`, { headers })).status;
  const asOperator = { authorization: `Bearer ${product.operatorKey}` };
  if (product.mode === 'embedded') {
    expect(await status(product.inferenceUrl)).toBe(401);
    expect(await status(product.inferenceUrl, { authorization: `Bearer ${key}` })).toBe(403);
    expect(await status(product.inferenceUrl, asOperator)).toBe(200);
  } else {
    for (const url of [product.inferenceUrl, product.managementUrl]) {
      const answer = await fetch(`${url}/metrics`, { headers: asOperator });
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({
        error: { code: url === product.inferenceUrl ? 'route_not_served' : 'route_not_found' },
      });
    }
  }
}

/** The ways of asking an address for metrics that return some. */
async function scrapes(url: string, key: string): Promise<string[]> {
  const paths = [
    '/metrics',
    '/metrics/',
    '/metrics?x=1',
    '//metrics',
    '/%6detrics',
    '/v1/metrics',
    '/v1/../metrics',
  ];
  const found: string[] = [];
  for (const path of paths) {
    for (const headers of [{}, { authorization: `Bearer ${key}` }, { 'x-api-key': key }]) {
      const answer = await fetch(`${url}${path}`, { headers });
      if (/^# (HELP|TYPE) /m.test(await answer.text())) found.push(`${path} ${Object.keys(headers)}`);
    }
  }
  return found;
}

async function tokenIsAlwaysRequired(): Promise<void> {
  // They would fail later, for another reason: nothing listens there.
  const nowhere = { DATABASE_URL: 'postgresql://127.0.0.1:1/x', NATS_URL: 'nats://127.0.0.1:1' };
  for (const app of ['control-plane', 'data-plane'] as const) {
    const started = await startApp(app, { ...nowhere, CONTROL_PLANE_TOKEN: '' }, /\n/);
    expect((await started.ended).code).toBe(1);
    expect(started.output()).toContain('CONTROL_PLANE_TOKEN is missing');
  }
}
