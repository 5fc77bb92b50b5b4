import { create } from '@bufbuild/protobuf';
import { SnapshotSchema } from '@weighbridge/contracts';
import { type RoutableConnector, routingTable, tablesOf } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { ConnectorHealth } from './connectorHealth.ts';
import { CredentialCheck } from './credentialCheck.ts';
import { ResponseBody } from './responseBody.ts';

const MISSING_SCOPE = '{"error":{"code":"missing_scope","message":"Missing scopes: api.model.read."}}';

/** A check of one connector, whose vendor answers the list of models so; undefined: not at all. */
function checkWith(list: { status: number; body?: string } | undefined) {
  const clock = { nowMs: 1_000_000 };
  const health = new ConnectorHealth(() => clock.nowMs);
  const snapshot = create(SnapshotSchema, {
    connectors: [{ id: 'a', provider: 'acme', credential: 'sk-1', baseUrl: 'http://127.0.0.1:1/v1' }],
  });
  const [connector] = routingTable(tablesOf(snapshot)).connectors.get('acme') as [RoutableConnector];
  const confirmed: number[] = [];
  const probes: string[][] = [];
  const check = new CredentialCheck({
    upstreams: {
      acquirePermit: () => ({
        release() {},
        async send({ path, headers }) {
          probes.push([path, ...headers]);
          if (!list) throw new Error('no connection');
          return { status: list.status, headers: {}, body: ResponseBody.of(Buffer.from(list.body ?? '')) };
        },
      }),
    },
    health,
    nowMs: () => clock.nowMs,
    onSuspected: () => {},
    onConfirmed: (_connector, status) => void confirmed.push(status),
  });
  const suspect = async (principal = 'ada', status = 403) => {
    check.suspect(connector, status, principal);
    await new Promise((resolve) => setImmediate(resolve));
    return health.state(connector);
  };
  return { clock, health, connector, confirmed, probes, suspect };
}

describe('a refusal that a request may have provoked', () => {
  it('leaves the connector alone if the vendor lists its models with the same credential, however often it comes', async () => {
    const { clock, confirmed, probes, suspect } = checkWith({ status: 200 });
    for (let at = 0; at < 200; at++) {
      clock.nowMs += 1_000;
      expect(await suspect(`principal-${at}`)).toBe('closed');
    }
    expect(confirmed).toEqual([]);
    // At most one probe in 30 s.
    expect(probes.length).toBeLessThanOrEqual(7);
    expect(probes[0]).toEqual(expect.arrayContaining(['/models', 'Bearer sk-1']));
  });

  it('makes it dead if that list is refused too', async () => {
    for (const list of [
      { status: 401 },
      { status: 403, body: '{"error":{"status":"PERMISSION_DENIED"}}' },
      { status: 400, body: '{"error":"Incorrect API key provided: xa***."}' },
    ]) {
      const { confirmed, suspect } = checkWith(list);
      expect([await suspect(), confirmed]).toEqual(['dead', [403]]);
    }
  });

  it('says nothing while others are served', async () => {
    const { clock, health, connector, probes, suspect } = checkWith({ status: 401 });
    for (let at = 0; at < 10; at++) {
      health.begin(connector)('good');
      clock.nowMs += 50_000;
      expect(await suspect(`principal-${at}`)).toBe('closed');
    }
    expect(probes).toEqual([]);
  });

  it.each([undefined, { status: 404 }, { status: 503 }, { status: 403, body: MISSING_SCOPE }])(
    'makes it dead if no list tells, and several principals or lasting refusals do: %j',
    async (list) => {
      const several = checkWith(list);
      for (const [principal, state] of [
        ['ada', 'closed'],
        ['ada', 'closed'],
        ['bob', 'closed'],
        ['cyd', 'closed'],
      ])
        expect(await several.suspect(principal)).toBe(state);
      several.clock.nowMs += 30_000;
      expect([await several.suspect('ada'), several.confirmed]).toEqual(['dead', [403]]);

      const lasting = checkWith(list);
      for (let at = 0; at < 4; at++) {
        expect(await lasting.suspect()).toBe('closed');
        lasting.clock.nowMs += 20_000;
      }
      expect(await lasting.suspect()).toBe('dead');
    },
  );
});

it('too little money is no matter of the list: several principals or lasting refusals tell', async () => {
  const { clock, confirmed, probes, suspect } = checkWith({ status: 200 });
  expect(await suspect('ada', 402)).toBe('closed');
  expect(await suspect('ada', 402)).toBe('closed');
  expect(await suspect('bob', 402)).toBe('closed');
  expect(await suspect('cyd', 402)).toBe('dead');
  expect([confirmed, probes]).toEqual([[402], []]);
  clock.nowMs += 1;
});

it('a dead connector is alive again once the vendor lists its models', async () => {
  const { health, connector, suspect } = checkWith({ status: 200 });
  health.reject(connector);
  expect(await suspect()).toBe('closed');
});
