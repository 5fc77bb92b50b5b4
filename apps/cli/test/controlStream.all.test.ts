import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  eventually,
  freePort,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage, type Service } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

const PROXIES = 4;
const MAX_STALENESS_MS = 4_000;

/** A TCP connection that can be cut. */
async function startWire(
  to: number,
): Promise<{ port: number; cut: () => void; mend: () => void; close: () => void }> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server: Server = createServer((near) => {
    if (isCut) return void near.destroy();
    const far = connect(to, '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  const port = await freePort();
  await new Promise<void>((ready) => server.listen(port, '127.0.0.1', ready));
  const cut = () => {
    isCut = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port,
    cut,
    mend: () => {
      isCut = false;
    },
    close: () => {
      cut();
      server.close();
    },
  };
}

describe('proxies and their control plane', () => {
  let database: TestDatabase;
  let nats: TestNats;
  let vendor: MockVendor;
  let folder: string;
  let service: Service;
  let controlPlane: RunningProcess;
  let grpc: number;
  let metricsPort: number;
  let wire: Awaited<ReturnType<typeof startWire>>;
  let proxies: { url: string; metricsUrl: string; env: Record<string, string>; process: RunningProcess }[] =
    [];

  const startControlPlane = async (env: Record<string, string>) =>
    await startApp('control-plane', env, /is ready/);
  let controlPlaneEnv: Record<string, string>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
    [database, nats, vendor] = await Promise.all([
      createTestDatabase(),
      startNats(),
      startMockVendor({ keep: 0 }),
    ]);
    const api = await freePort();
    metricsPort = await freePort();
    grpc = await freePort();
    wire = await startWire(grpc);
    controlPlaneEnv = {
      DATABASE_URL: database.url,
      PORT: String(api),
      METRICS_PORT: String(metricsPort),
      GRPC_PORT: String(grpc),
      OPERATOR_KEY_FILE: join(folder, 'operator-key'),
      MOCK_VENDOR_URL: vendor.url,
    };
    controlPlane = await startControlPlane(controlPlaneEnv);
    proxies = await Promise.all(
      Array.from({ length: PROXIES }, async (_, index) => {
        const [port, metrics] = [await freePort(), await freePort()];
        const env = {
          NATS_URL: nats.url,
          PORT: String(port),
          METRICS_PORT: String(metrics),
          // The connection to the first one can be cut.
          CONTROL_PLANE_ADDRESS: `127.0.0.1:${index === 0 ? wire.port : grpc}`,
          MAX_STALENESS_MS: String(index === 0 ? MAX_STALENESS_MS : 60_000),
          PROXY_NAME: `proxy-${index}`,
          STATE_FILE: join(folder, `state-${index}`),
          SPOOL_DIR: join(folder, `spool-${index}`, 'proxy'),
          STATE_KEY: randomBytes(32).toString('base64'),
        };
        return {
          url: `http://127.0.0.1:${port}`,
          metricsUrl: `http://127.0.0.1:${metrics}/metrics`,
          env,
          process: await startApp('data-plane', env, /is ready/),
        };
      }),
    );
    const operatorKey = (await readFile(join(folder, 'operator-key'), 'utf8')).trim();
    service = { managementUrl: `http://127.0.0.1:${api}`, inferenceUrl: '', operatorKey };
  });

  afterAll(async () => {
    await Promise.all(
      [controlPlane, ...proxies.map(({ process }) => process)].map((process) => process?.stop()),
    );
    wire?.close();
    await Promise.all([
      vendor?.close(),
      nats?.stop(),
      database?.drop(),
      rm(folder, { recursive: true, force: true }),
    ]);
  });

  const complete = async (url: string, key: string): Promise<string> => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'x' }] }),
    });
    const body = (await response.json()) as { error?: { code: string } };
    return body.error ? `${response.status} ${body.error.code}` : String(response.status);
  };
  const everywhere = (key: string) => Promise.all(proxies.map(({ url }) => complete(url, key)));
  const same = (outcome: string) => Array.from({ length: PROXIES }, () => outcome);
  const issue = async (name: string) => {
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name } });
    return body as { id: string; key: string };
  };
  const patch = async (id: string, body: object, query: string) => {
    const response = await fetch(`${service.managementUrl}/api/v1/keys/${id}?${query}`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${service.operatorKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return response.headers;
  };

  it('serve a new key at once, and no revoked key once its change is reported as propagated', async () => {
    for (let round = 0; round < 10; round++) {
      const { id, key } = await issue(`round ${round}`);
      expect(await everywhere(key)).toEqual(same('200'));
      const headers = await patch(id, { disabled: true }, 'wait=propagated');
      expect([headers.get('x-svc-propagated'), headers.get('x-svc-pending-proxies')]).toEqual(['true', null]);
      expect(await everywhere(key)).toEqual(same('401 key_disabled'));
      await patch(id, { disabled: false }, 'wait=propagated');
      expect(await everywhere(key)).toEqual(same('200'));
    }
  });

  it("receive changes of a key's policy and principal", async () => {
    const { body: policy } = await manage(service, 'POST', '/api/v1/policies', {
      body: { name: 'narrow', allowed_models: ['x/*'] },
    });
    const { key } = await issue('by principal');
    expect(await everywhere(key)).toEqual(same('200'));
    await manage(service, 'PUT', '/api/v1/principals/operator?wait=propagated&timeout_ms=60000', {
      body: { policy_id: policy.id },
    });
    expect(await everywhere(key)).toEqual(same('403 model_not_allowed'));
    await manage(service, 'PATCH', `/api/v1/policies/${policy.id}?wait=propagated`, {
      body: { allowed_models: [] },
    });
    expect(await everywhere(key)).toEqual(same('200'));
    await manage(service, 'PUT', '/api/v1/principals/operator', { body: { policy_id: null } });
  });

  it('are listed for an operator, with the revision that each has applied', async () => {
    await eventually(
      async () => {
        const { body } = await manage(service, 'GET', '/api/v1/proxies');
        const listed = body.data as { name: string; lag: number }[];
        expect(listed.map(({ name }) => name).sort()).toEqual(proxies.map(({ env }) => env.PROXY_NAME));
        expect(listed.map(({ lag }) => lag)).toEqual(proxies.map(() => 0));
      },
      { intervalMs: 50 },
    );
  });

  it('report their state and the propagation time of changes in metrics', async () => {
    const ofProxy = await (await fetch(proxies[0]?.metricsUrl ?? '')).text();
    expect(ofProxy).toMatch(/^weighbridge_view_state 1$/m);
    expect(ofProxy).toMatch(/^weighbridge_view_age_seconds [0-2](\.\d+)?$/m);
    expect(ofProxy).toMatch(/^weighbridge_key_lookups_total\{met="miss"\} [1-9]/m);
    const ofControlPlane = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    expect(ofControlPlane).toMatch(/^weighbridge_watchers 4$/m);
    expect(ofControlPlane).toMatch(/^weighbridge_propagation_seconds_count [1-9]/m);
  });

  it('serve a revoked key no longer than the bound if one is cut off, and the report names that one', async () => {
    const { id, key } = await issue('cut');
    expect(await everywhere(key)).toEqual(same('200'));
    wire.cut();
    const headers = await patch(id, { disabled: true }, 'wait=propagated&timeout_ms=500');
    const { body } = await manage(service, 'GET', '/api/v1/proxies');
    const cutOff = (body.data as { id: string; name: string }[]).find(({ name }) => name === 'proxy-0');
    expect([headers.get('x-svc-propagated'), headers.get('x-svc-pending-proxies')]).toEqual([
      'false',
      cutOff?.id,
    ]);
    expect((await everywhere(key)).slice(1)).toEqual(same('401 key_disabled').slice(1));
    // Once it may no longer serve, the change is propagated: no proxy serves the key any more.
    const again = await patch(
      id,
      { name: 'still cut' },
      `wait=propagated&timeout_ms=${2 * MAX_STALENESS_MS}`,
    );
    expect(again.get('x-svc-propagated')).toBe('true');
    expect((await everywhere(key))[0]).toBe('503 control_plane_unreachable');
    expect((await fetch(`${proxies[0]?.url}/readyz`)).status).toBe(503);
    wire.mend();
    await eventually(async () => expect(await everywhere(key)).toEqual(same('401 key_disabled')), {
      intervalMs: 50,
    });
  });

  it('serve known keys while the control plane is down, also after a restart, and respond 503 to others', async () => {
    const known = await issue('known');
    const unknown = await issue('unknown');
    // The second proxy; the first has the short bound of the previous test.
    const [, proxy] = proxies;
    if (!proxy) throw new Error('there is no second proxy');
    expect(await complete(proxy.url, known.key)).toBe('200');
    await controlPlane.stop('SIGKILL');
    for (let asked = 0; asked < 20; asked++) expect(await complete(proxy.url, known.key)).toBe('200');
    expect(await complete(proxy.url, unknown.key)).toBe('503 control_plane_unreachable');

    await proxy.process.stop();
    proxy.process = await startApp('data-plane', proxy.env, /is ready/);
    expect(await complete(proxy.url, known.key)).toBe('200');
    expect(await complete(proxy.url, unknown.key)).toBe('503 control_plane_unreachable');

    // The proxy learns of the revocation when the control plane is back.
    controlPlane = await startControlPlane(controlPlaneEnv);
    await manage(service, 'DELETE', `/api/v1/keys/${known.id}`);
    await eventually(async () => expect(await complete(proxy.url, known.key)).toBe('401 key_disabled'), {
      intervalMs: 50,
    });
    expect(await complete(proxy.url, unknown.key)).toBe('200');
  });

  it('store nothing readable on disk', async () => {
    const state = await readFile(join(folder, 'state-1'));
    for (const canary of ['operator', 'key_', 'mock', vendor.url]) expect(state.includes(canary)).toBe(false);
  });
});
